//! Parsers for values of options.

use std::path::PathBuf;

use clap::ValueEnum;
use lasthop_protocol::{
    spec::{Address, Arrivals},
    url::{self, UrlOptions},
};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ArrivalsArg {
    /// The same gap between any two requests
    Constant,
    /// Random and independent, as if from many users
    Poisson,
}

impl From<ArrivalsArg> for Arrivals {
    fn from(chosen: ArrivalsArg) -> Self {
        match chosen {
            ArrivalsArg::Constant => Self::Constant,
            ArrivalsArg::Poisson => Self::Poisson,
        }
    }
}

/// `RECIPE=PATH`
pub fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((recipe, path)) if !recipe.is_empty() && !path.is_empty() => Ok((recipe.to_owned(), PathBuf::from(path))),
        _ => Err("expected RECIPE=PATH, for example my-server=/opt/bin/server".to_owned()),
    }
}

/// `NAME=VALUE`
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, for example instance=m7g.large".to_owned()),
    }
}

/// `NAME=VALUE`, or the name of a node's label.
pub fn node_label(text: &str) -> Result<(String, Option<String>), String> {
    if text.contains('=') {
        label(text).map(|(name, value)| (name, Some(value)))
    } else {
        Ok((text.to_owned(), None))
    }
}

/// A server's address: `HOST:PORT`, a local port, `unix:/path`, `unix:@name`, or a URL as for `lasthop load`.
pub fn address(text: &str) -> Result<Address, String> {
    if let Ok((endpoint, _)) = url::parse(text, &UrlOptions::default()) {
        return Ok(endpoint.address);
    }
    // A URL of a protocol that lasthop does not speak: its host is enough for the path.
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    if bare.starts_with('/') {
        return Ok(Address::Unix(bare.into()));
    }
    let host = bare
        .split('/')
        .next()
        .unwrap_or_default()
        // `SocketAddr` is parsed without a resolver.
        .replace("localhost", "127.0.0.1");
    let with_port = || format!("127.0.0.1:{host}").parse();
    bare.parse().or_else(|_| host.parse()).or_else(|_| with_port()).map_err(|_| {
        format!(
            "`{text}` is not an address: write 127.0.0.1:8080, 8080, http://127.0.0.1:8080/, unix:/path or unix:@name"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        let local = Address::Tcp("127.0.0.1:8080".parse().unwrap());
        for text in ["127.0.0.1:8080", "8080", "localhost:8080", "http://127.0.0.1:8080/x"] {
            assert_eq!(address(text).unwrap(), local, "{text}");
        }
        for text in [
            "unix:/run/s",
            "http+unix:/run/s:/x",
            "http://unix:/run/s:/",
            "http+unix://%2Frun%2Fs/",
        ] {
            assert_eq!(address(text).unwrap(), Address::Unix("/run/s".into()), "{text}");
        }
        assert_eq!(address("unix:@s").unwrap(), Address::Abstract("s".into()));
        assert!(address("example").unwrap_err().contains("write 127.0.0.1:8080"));
    }

    #[test]
    fn programs_name_recipe_and_path() {
        assert_eq!(program("nginx=/x").unwrap(), ("nginx".to_owned(), PathBuf::from("/x")));
        assert!(program("nginx").is_err());
        assert!(program("=x").is_err());
    }
}
