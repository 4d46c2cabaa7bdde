//! Ownership of files. Another account may have made, and may exchange, any file that it owns or can write: lasthop
//! neither executes nor trusts such a file. Root and this account are trusted.

use std::{
    fmt,
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::files;

/// The mode bit of folders in which everybody may make entries, but change only their own.
const STICKY: u32 = 0o1000;

/// A file or folder that another account owns or can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    pub path: PathBuf,
    /// The other account that owns the path; `None` if this account or root owns it and others can write it.
    owner: Option<u32>,
    group: u32,
    mode: u32,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, group, mode, .. } = self;
        let path = path.display();
        let mode = mode & 0o7777;
        match self.owner {
            Some(owner) => write!(f, "{path} belongs to another account (user {owner}, mode {mode:04o})"),
            None => write!(f, "other accounts can write {path} (mode {mode:04o}, group {group})"),
        }
    }
}

impl Foreign {
    /// The error for a foreign path in the data folder, with advice.
    #[must_use]
    pub fn refusal(&self) -> String {
        let path = self.path.display();
        let remedy = if self.mode & STICKY != 0 {
            "set LASTHOP_HOME to a folder of your own".to_owned()
        } else if self.owner.is_some() {
            format!("remove it, or take it over with `chown -R`, once you know what is in it: {path}")
        } else {
            format!("once you know what is in it: `chmod -R go-w {path}`")
        };
        format!("{self}, and lasthop uses nothing in its data folder that others could have put there; {remedy}")
    }

    /// `None` if only this account and root own the path and can write it.
    #[must_use]
    pub fn of(path: &Path, facts: &Metadata) -> Option<Self> {
        let owner = Some(facts.uid()).filter(|owner| *owner != 0 && *owner != own_user());
        (owner.is_some() || others_write(facts)).then(|| Self {
            path: path.to_owned(),
            owner,
            group: facts.gid(),
            mode: facts.mode(),
        })
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether another account than the owner can write a file, or make entries in a folder. A link has no mode of its own.
#[must_use]
pub fn others_write(facts: &Metadata) -> bool {
    let me = own_user();
    // The user's private group, which many distributions create with the user's number and without other members.
    let is_private = me != 0 && (facts.uid(), facts.gid()) == (me, me);
    !facts.is_symlink() && facts.mode() & if is_private { 0o002 } else { 0o022 } != 0
}

/// Whether everybody may change only their own entries of a folder.
#[must_use]
pub fn is_sticky(facts: &Metadata) -> bool {
    facts.mode() & STICKY != 0
}

/// The first foreign part of the path from `top` to a file or folder: the file itself, a folder above it, or the target
/// of a link among them.
#[must_use]
pub fn foreign_on_way(top: &Path, path: &Path) -> Option<Foreign> {
    let mut parts: Vec<&Path> = path.ancestors().take_while(|part| part.starts_with(top)).collect();
    parts.reverse();
    parts.into_iter().find_map(|part| {
        let itself = files::facts(part).ok()?;
        Foreign::of(part, &itself).or_else(|| Foreign::of(part, &files::facts_linked(part).ok()?))
    })
}

/// The first foreign file or folder below a folder. Targets of links may be anywhere, and are not examined.
#[must_use]
pub fn foreign_below(folder: &Path) -> Option<Foreign> {
    find_below(folder, Foreign::of)
}

/// Takes write permission from others for all entries below a folder that this account owns.
pub fn tighten_below(folder: &Path) -> io::Result<()> {
    let tighten = |path: &Path, facts: &Metadata| {
        let closed = Permissions::from_mode(facts.mode() & 0o7755);
        let is_open = facts.uid() == own_user() && others_write(facts);
        is_open.then(|| fs::set_permissions(path, closed).err()).flatten()
    };
    find_below(folder, tighten).map_or(Ok(()), Err)
}

/// The first entry below a folder, at any depth, for which `of` returns a value.
fn find_below<T>(folder: &Path, mut of: impl FnMut(&Path, &Metadata) -> Option<T>) -> Option<T> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(facts) = files::facts(&path) else { continue };
            if let Some(found) = of(&path, &facts) {
                return Some(found);
            }
            if facts.is_dir() {
                folders.push(path);
            }
        }
    }
    None
}

/// The reason why another account could replace a folder or change its content: the folder, a folder above it, or an
/// entry below it. In a sticky folder above, only the owner of an entry can.
#[must_use]
pub fn changeable(folder: &Path) -> Option<Foreign> {
    let folder = folder.canonicalize().ok()?;
    let itself = || Foreign::of(&folder, &files::facts_linked(&folder).ok()?);
    exchangeable(&folder).or_else(itself).or_else(|| foreign_below(&folder))
}

/// The reason why another account could replace this account's entry in a folder: the folder, or a folder above it. The
/// path `folder` must have no links. In a sticky folder, only the owner of an entry can replace the entry.
#[must_use]
pub fn exchangeable(folder: &Path) -> Option<Foreign> {
    folder.ancestors().find_map(|part| {
        let facts = files::facts_linked(part).ok()?;
        let foreign = Foreign::of(part, &facts)?;
        (foreign.owner.is_some() || !is_sticky(&facts)).then_some(foreign)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::tempdir;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_write_is_found_on_the_way_and_below() {
        let folder = tempdir().unwrap();
        let top = folder.path().join("data");
        let file = top.join("services/x/recipe.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        for part in [&top, &top.join("services"), &top.join("services/x"), &file] {
            let usual = if part.is_dir() { 0o755 } else { 0o644 };
            set_mode(part, usual);
            assert_eq!(foreign_on_way(&top, &file), None, "{}", part.display());
            set_mode(part, usual | 0o002);
            let found = foreign_on_way(&top, &file).unwrap();
            assert_eq!(&found.path, part);
            assert!(found.to_string().contains("other accounts can write "), "{found}");
            assert_eq!(foreign_below(&top).is_some(), *part != top);
            assert!(changeable(&top).is_some());
            set_mode(part, usual);
        }
        set_mode(&file, 0o666);
        tighten_below(&top).unwrap();
        assert_eq!(foreign_below(&top), None);
        set_mode(folder.path(), 0o777);
        assert_eq!(foreign_on_way(&top, &file), None, "the way begins at the top");
        assert_eq!(changeable(&top).unwrap().path, folder.path().canonicalize().unwrap());
        set_mode(folder.path(), 0o1777);
        assert_eq!(changeable(&top), None, "in a sticky folder others cannot rename it");
    }

    #[test]
    fn a_link_counts_as_what_it_leads_to() {
        let folder = tempdir().unwrap();
        let [top, shared] = ["data", "shared"].map(|name| folder.path().join(name));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&shared).unwrap();
        symlink(&shared, top.join("services")).unwrap();
        set_mode(&shared, 0o755);
        assert_eq!(foreign_on_way(&top, &top.join("services/x")), None);
        set_mode(&shared, 0o777);
        assert_eq!(
            foreign_on_way(&top, &top.join("services/x")).unwrap().path,
            top.join("services")
        );
    }

    #[test]
    fn what_another_account_owns_is_found() {
        // SAFETY: geteuid has no effects and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let folder = tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        symlink("file", folder.path().join("link")).unwrap();
        for name in ["file", "link"] {
            let path = folder.path().join(name);
            std::os::unix::fs::lchown(&path, Some(1), Some(1)).unwrap();
            let found = foreign_on_way(folder.path(), &path).unwrap();
            assert!(found.to_string().contains("(user 1, mode "), "{found}");
            assert!(foreign_below(folder.path()).is_some());
            std::os::unix::fs::lchown(&path, Some(0), Some(0)).unwrap();
        }
        assert_eq!(foreign_below(folder.path()), None);
    }
}
