//! Who lasthop runs as.

use std::fs;

use super::bindings::Account;

/// The effective user and group of this process, by name where `/etc/passwd` and `/etc/group` know one.
#[must_use]
pub fn current() -> Account {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    Account {
        user: name_in("/etc/passwd", user.as_raw()),
        group: name_in("/etc/group", group.as_raw()),
        is_root: user.is_root(),
    }
}

/// Both files have `name:password:number:…` lines.
fn name_in(file: &str, number: u32) -> String {
    let wanted = number.to_string();
    let text = fs::read_to_string(file).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    found.unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_names_where_there_are_some() {
        assert_eq!(name_in("/etc/passwd", 0), "root");
        assert_eq!(name_in("/etc/passwd", 4_000_000_000), "4000000000");
    }
}
