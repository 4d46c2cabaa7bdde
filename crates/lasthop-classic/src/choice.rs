//! A tool with optional flags, as the user types them: `wrk`, `wrk -t2 -c10 -d5s`.

use lasthop_model::driver::ToolChoice;

use super::named;

/// Parses the name of a tool and its flags.
pub fn choice(text: &str) -> Result<ToolChoice, String> {
    let words = shlex::split(text).ok_or_else(|| format!("a quote is not closed in `{text}`"))?;
    let Some((tool, flags)) = words.split_first() else {
        return Err("the name of a tool is missing".to_owned());
    };
    let tool = named(tool)?;
    Ok(ToolChoice {
        flags: flags.to_vec(),
        ..ToolChoice::plain(tool.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_follow_the_name() {
        let read = choice("ab -n 1000 -c 1 -l").unwrap();
        assert_eq!((read.tool.as_str(), read.flags.len()), ("ab", 5));
        assert_eq!(read.to_string(), "ab -n 1000 -c 1 -l");
        assert!(choice("wkr").unwrap_err().contains("known: ab, "));
        assert!(choice("").is_err());
    }
}
