//! The account that lasthop runs as.

use std::path::Path;

use lasthop_model::binding::Account;
use lasthop_system::files;

/// The effective user and group of this process, by name if `/etc/passwd` and `/etc/group` have the name.
pub fn current() -> Account {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    Account {
        user: name_in(PASSWD, user.as_raw()),
        group: name_in("/etc/group", group.as_raw()),
        is_root: user.is_root(),
        ids: (user.as_raw(), group.as_raw()),
    }
}

/// The account for servers: `nobody` if this process is root, otherwise its own.
pub fn unprivileged() -> Result<Account, String> {
    let own = current();
    if own.is_root {
        nobody(Path::new(PASSWD)).ok_or_else(|| {
            "servers do not run as root, and /etc/passwd has no account `nobody` for them: do not run lasthop as root"
                .to_owned()
        })
    } else {
        Ok(own)
    }
}

const PASSWD: &str = "/etc/passwd";

/// The kernel's number for nobody, for machines without account names, such as images made from scratch.
const OVERFLOW: u32 = 65_534;

fn nobody(accounts: &Path) -> Option<Account> {
    if accounts.exists() {
        return named(NOBODY, accounts);
    }
    Some(Account {
        user: OVERFLOW.to_string(),
        group: OVERFLOW.to_string(),
        is_root: false,
        ids: (OVERFLOW, OVERFLOW),
    })
}

/// The account without rights that every system has.
const NOBODY: &str = "nobody";

fn named(user: &str, accounts: &Path) -> Option<Account> {
    let text = files::text(accounts).ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(user))?;
    let number = |at: usize| line.split(':').nth(at)?.parse::<u32>().ok();
    let uid = number(2)?;
    let gid = number(3)?;
    Some(Account {
        user: user.to_owned(),
        group: name_in("/etc/group", gid),
        is_root: uid == 0,
        ids: (uid, gid),
    })
}

/// The name with this number in a file of `name:password:number:…` lines; the number if it has no name.
fn name_in(file: &str, number: u32) -> String {
    let wanted = number.to_string();
    let text = files::text(file).unwrap_or_default();
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
    fn nobody_is_not_root() {
        let passwd = Path::new(PASSWD);
        let nobody = named(NOBODY, passwd).unwrap();
        assert!(!nobody.is_root && nobody.ids.0 != 0 && nobody.ids.1 != 0, "{nobody:?}");
        assert_eq!(named("no such account", passwd), None);
    }

    #[test]
    fn without_accounts_the_number_of_nobody_is_enough() {
        assert_eq!(
            super::nobody(Path::new("/nonexistent/passwd")).unwrap().ids,
            (OVERFLOW, OVERFLOW)
        );
        assert_eq!(super::nobody(Path::new("/dev/null")), None);
    }

    #[test]
    fn numbers_become_names_where_there_are_some() {
        assert_eq!(name_in("/etc/passwd", 0), "root");
        assert_eq!(name_in("/etc/passwd", 4_000_000_000), "4000000000");
    }
}
