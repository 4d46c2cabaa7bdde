//! The driver: lasthop or a classic tool, and where it runs.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// Folder of named network namespaces (`ip netns`).
pub const NAMESPACES: &str = "/run/netns";

/// A place for the driver other than next to the services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DriverAt {
    /// A network namespace that lasthop creates and that ends with the run.
    NewNamespace,
    /// An existing namespace: a name that `ip netns` knows, or the path of its file.
    Namespace(String),
    /// Another host, by its name for ssh.
    Host(Login),
}

/// `[user@]host[:port]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// ssh's destination.
    pub destination: String,
    pub port: Option<u16>,
}

impl FromStr for DriverAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a place for the driver: write netns:new, netns:NAME, or ssh:[USER@]HOST[:PORT]")
        };
        match text.split_once(':').ok_or_else(wrong)? {
            ("netns", "new") => Ok(Self::NewNamespace),
            ("netns", name) if is_name(name) || name.starts_with('/') => Ok(Self::Namespace(name.to_owned())),
            ("ssh", login) => login.parse().map(Self::Host).map_err(|()| wrong()),
            _ => Err(wrong()),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

impl FromStr for Login {
    type Err = ();

    /// Reads a host; an IPv6 address with a port is in brackets.
    fn from_str(text: &str) -> Result<Self, ()> {
        // Split at the last `@`, as ssh does: the name of a user may contain an `@`.
        let (user, place) = text
            .rsplit_once('@')
            .map_or((None, text), |(user, place)| (Some(user), place));
        let (host, port) = match place
            .strip_prefix('[')
            .map(|rest| rest.split_once(']').ok_or(()))
            .transpose()?
        {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(())?)),
            None => match place.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (place, None),
            },
        };
        let is_six = || {
            host.split('%')
                .next()
                .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        };
        let destination = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        // ssh would read a host that begins with `-` as an option.
        let good = user != Some("")
            && !host.is_empty()
            && (!host.contains(':') || is_six())
            && !destination.starts_with('-')
            && !destination.contains(|character: char| character.is_whitespace() || "[]".contains(character));
        let port = port.map(str::parse).transpose().map_err(drop)?;
        good.then_some(Self { destination, port }).ok_or(())
    }
}

impl DriverAt {
    /// File of the namespace; `None` for other places.
    pub fn namespace_file(&self) -> Option<PathBuf> {
        match self {
            // `join` replaces the folder if `name` is an absolute path.
            Self::Namespace(name) => Some(PathBuf::from(NAMESPACES).join(name)),
            _ => None,
        }
    }
}

impl fmt::Display for DriverAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewNamespace => f.write_str("netns:new"),
            Self::Namespace(name) => write!(f, "netns:{name}"),
            Self::Host(Login {
                destination,
                port: None,
            }) => write!(f, "ssh:{destination}"),
            Self::Host(Login {
                destination,
                port: Some(port),
            }) => {
                let at = destination.rfind('@').map_or(0, |at| at + 1);
                let (user, host) = destination.split_at(at);
                if host.contains(':') {
                    write!(f, "ssh:{user}[{host}]:{port}")
                } else {
                    write!(f, "ssh:{user}{host}:{port}")
                }
            }
        }
    }
}

impl TryFrom<String> for DriverAt {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DriverAt> for String {
    fn from(place: DriverAt) -> Self {
        place.to_string()
    }
}

/// Settings of a driver on another host, besides the host's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Values of ssh's `-o`, as `KEY=VALUE`.
    pub options: Vec<String>,
    /// The file of ssh's `-F`.
    pub config: Option<PathBuf>,
    /// Path of lasthop on that host, used instead of a copy of this executable.
    pub program: Option<String>,
    /// Address of this machine on which services listen for the driver.
    pub listen: Option<IpAddr>,
}

/// A classic tool as the driver, and its load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolChoice {
    pub tool: String,
    /// The tool's flags that shape the load. If empty, lasthop derives them from the case.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Requests per trial, for tools that stop by count. `None` for as many as fill the trial.
    #[serde(default)]
    pub count: Option<u64>,
}

impl ToolChoice {
    pub fn plain(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            flags: Vec::new(),
            count: None,
        }
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
    fn places_are_read_as_they_are_written() {
        for text in [
            "netns:new",
            "netns:blue",
            "netns:/proc/1/ns/net",
            "ssh:host",
            "ssh:me@host:2222",
            "ssh:fe80::1",
            "ssh:me@[fe80::1]:22",
            "ssh:[::1]:2222",
        ] {
            let place: DriverAt = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!(serde_json::to_string(&place).unwrap(), format!("\"{text}\""));
        }
        let login: Login = "me@[::1]:2222".parse().unwrap();
        assert_eq!((login.destination.as_str(), login.port), ("me@::1", Some(2222)));
        let file = |text: &str| text.parse::<DriverAt>().unwrap().namespace_file();
        assert_eq!(file("netns:blue"), Some("/run/netns/blue".into()));
        assert_eq!(file("netns:/proc/1/ns/net"), Some("/proc/1/ns/net".into()));
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_forms() {
        for text in [
            "",
            "host",
            "netns:",
            "netns:a/b",
            "netns:..",
            "ssh:",
            "ssh:me@",
            "ssh:-oProxyCommand=x",
            "ssh:h:x",
            "ssh:@h",
            "ssh:@s::1]:22",
            "ssh:[a:1]",
        ] {
            let error = text.parse::<DriverAt>().unwrap_err().to_string();
            assert!(error.contains("netns:new"), "{text}: {error}");
        }
    }
}
