//! Where the user wants the driver: the words of `--driver-at`.

use std::{path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

/// Folder in which named network namespaces are kept (`ip netns`).
pub const NAMESPACES: &str = "/run/netns";

/// Another place for the driver than beside the services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DriverAt {
    /// A network namespace of lasthop's own making, gone with the run.
    NewNamespace,
    /// One that is there: a name that `ip netns` knows, or the path of its file.
    Namespace(String),
    /// Another host, as ssh knows it.
    Host(Login),
}

/// `[user@]host[:port]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// What ssh takes as its destination.
    pub destination: String,
    pub port: Option<u16>,
}

/// The words name no place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no place for the driver: write netns:new, netns:NAME, or ssh:[USER@]HOST[:PORT]")]
pub struct NoPlace(String);

impl FromStr for DriverAt {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let wrong = || NoPlace(text.to_owned());
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

    /// The port is what follows the last `:`; an IPv6 address with a port stands in brackets.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (destination, port) = match text.rsplit_once(':') {
            Some((before, after)) if !before.contains(':') || before.ends_with(']') => {
                (before.to_owned(), Some(after.parse().map_err(drop)?))
            }
            _ => (text.to_owned(), None),
        };
        let destination = destination.replace(['[', ']'], "");
        // ssh would take a word that begins with `-` as an option.
        let host = destination.rsplit('@').next().unwrap_or_default();
        let good = !host.is_empty() && !destination.starts_with('-') && !destination.contains(char::is_whitespace);
        good.then_some(Self { destination, port }).ok_or(())
    }
}

impl DriverAt {
    /// File of the namespace; `None` for other places.
    #[must_use]
    pub fn namespace_file(&self) -> Option<PathBuf> {
        match self {
            // An absolute path takes the folder's place.
            Self::Namespace(name) => Some(PathBuf::from(NAMESPACES).join(name)),
            _ => None,
        }
    }
}

impl std::fmt::Display for DriverAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NewNamespace => f.write_str("netns:new"),
            Self::Namespace(name) => write!(f, "netns:{name}"),
            Self::Host(Login { destination, port: None }) => write!(f, "ssh:{destination}"),
            Self::Host(Login { destination, port: Some(port) }) if destination.contains(':') => {
                let (user, host) = destination.rsplit_once('@').map_or(("", &destination[..]), |(u, h)| (u, h));
                write!(f, "ssh:{user}{}[{host}]:{port}", if user.is_empty() { "" } else { "@" })
            }
            Self::Host(Login { destination, port: Some(port) }) => write!(f, "ssh:{destination}:{port}"),
        }
    }
}

impl TryFrom<String> for DriverAt {
    type Error = NoPlace;

    fn try_from(text: String) -> Result<Self, NoPlace> {
        text.parse()
    }
}

impl From<DriverAt> for String {
    fn from(place: DriverAt) -> Self {
        place.to_string()
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
        for text in
            ["", "host", "netns:", "netns:a/b", "netns:..", "ssh:", "ssh:me@", "ssh:-oProxyCommand=x", "ssh:h:x"]
        {
            let error = text.parse::<DriverAt>().unwrap_err().to_string();
            assert!(error.contains("netns:new"), "{text}: {error}");
        }
    }
}
