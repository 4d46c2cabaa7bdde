//! A tool and the flags of a study, as they are typed: `wrk`, `wrk -t2 -c10 -d5s`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::Tool;

/// Which tool drives, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolChoice {
    pub tool: Tool,
    /// The tool's own flags for the shape of the load; made from the case where there are none.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Requests of a trial, for tools that stop by count; as many as fill the trial where it is not given.
    #[serde(default)]
    pub count: Option<u64>,
}

impl ToolChoice {
    #[must_use]
    pub fn plain(tool: Tool) -> Self {
        Self { tool, flags: Vec::new(), count: None }
    }
}

impl FromStr for ToolChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = shlex::split(text).ok_or_else(|| format!("a quote is not closed in `{text}`"))?;
        let Some((tool, flags)) = words.split_first() else { return Err("the name of a tool is missing".to_owned()) };
        let tool = tool.parse::<Tool>().map_err(|error| error.to_string())?;
        Ok(Self { flags: flags.to_vec(), ..Self::plain(tool) })
    }
}

impl fmt::Display for ToolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tool)?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_follow_the_name() {
        let choice: ToolChoice = "ab -n 1000 -c 1 -l".parse().unwrap();
        assert_eq!((choice.tool, choice.flags.len()), (Tool::Ab, 5));
        assert_eq!(choice.to_string(), "ab -n 1000 -c 1 -l");
        assert!("wkr".parse::<ToolChoice>().unwrap_err().contains("known: wrk"));
        assert!("".parse::<ToolChoice>().is_err());
    }
}
