//! The names that a template can use.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    diagnostics::{closest, suggest},
    render::{ADDRESS_ATTRIBUTES, PACKAGE_ATTRIBUTES, SERVICE_NAMES, TLS_ATTRIBUTES},
};

/// Known names, each with its attributes; `None` for plain values.
#[derive(Clone, Default)]
pub(super) struct Scope(BTreeMap<String, Option<&'static [&'static str]>>);

impl Scope {
    pub(super) fn add(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.extend(names.into_iter().map(|name| (name.into(), None)));
        self
    }

    /// Adds names of services: `{{ nginx.address }}`.
    pub(super) fn add_services(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.extend(
            names
                .into_iter()
                .map(|name| (name.into(), Some(&ADDRESS_ATTRIBUTES[..]))),
        );
        self
    }

    /// Adds the names for a service's own properties.
    pub(super) fn add_own(mut self) -> Self {
        for name in SERVICE_NAMES {
            let attributes = match name {
                "listen" => Some(&ADDRESS_ATTRIBUTES[..]),
                "tls" => Some(&TLS_ATTRIBUTES[..]),
                "packages" => Some(&PACKAGE_ATTRIBUTES[..]),
                _ => None,
            };
            self.0.insert(name.to_owned(), attributes);
        }
        self
    }

    /// The known name at the start of a name such as `nginx.adress`, or the name that was probably meant.
    pub(super) fn meant(&self, name: &str) -> Option<String> {
        let first = name.split('.').next().unwrap_or_default();
        closest(first, self.0.keys().map(String::as_str)).map(str::to_owned)
    }

    /// The flaw of a name such as `nginx.adress`, and the name that was probably meant.
    pub(super) fn problem(&self, name: &str) -> Option<(String, Option<String>)> {
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let Some(attributes) = self.0.get(first) else {
            let help = suggest(first, self.0.keys().map(String::as_str));
            return Some((format!("there is no `{first}` here"), help));
        };
        let attribute = parts.next()?;
        match attributes {
            None => Some((
                format!("`{first}` has no attributes, so there is no `{first}.{attribute}`"),
                None,
            )),
            Some(known) if known.contains(&attribute) => None,
            Some(known) => Some((
                format!("`{first}` has no attribute `{attribute}`"),
                suggest(attribute, known.iter().copied()),
            )),
        }
    }
}

/// The first use of a name in a template, except as part of a longer word.
pub(super) fn place_of(name: &str, text: &str) -> Range<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let within = |at: usize| {
        let open = text[..at].rfind("{{").max(text[..at].rfind("{%"));
        let close = text[..at].rfind("}}").max(text[..at].rfind("%}"));
        open > close
    };
    text.match_indices(name)
        .map(|(at, _)| at..at + name.len())
        .find(|range| {
            within(range.start) && !text[..range.start].ends_with(is_word) && !text[range.end..].starts_with(is_word)
        })
        .unwrap_or(0..0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_use_and_not_the_word() {
        let text = "# port of the port_map\n{{ port_map }} {{ port }}\n";
        assert_eq!(place_of("port", text).start, text.rfind("port").unwrap());
    }

    #[test]
    fn attributes_are_checked() {
        let scope = Scope::default().add(["size"]).add_services(["nginx"]).add_own();
        assert!(scope.problem("nginx.address").is_none());
        assert!(scope.problem("size").is_none());
        assert_eq!(
            scope.problem("nginx.adress").unwrap().1.unwrap(),
            "did you mean `address`?"
        );
        assert_eq!(scope.problem("ngnix").unwrap().1.unwrap(), "did you mean `nginx`?");
        assert!(scope.problem("size.x").is_some());
    }
}
