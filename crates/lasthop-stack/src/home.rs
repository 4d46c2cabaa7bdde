//! lasthop's data folder: run records, and packages that `lasthop setup` installs.

use std::{
    env,
    ffi::OsString,
    fs::{self, DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use lasthop_model::manager::LANGUAGES;
use lasthop_system::{files, owner};

/// Folders that lasthop makes in the data folder, besides one for each language.
const MADE: [&str; 7] = ["runs", "experiments", "services", "repro", "selftest", "check", "cache"];

/// The data folder. It may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `$LASTHOP_HOME`, or `$XDG_DATA_HOME/lasthop`, or `~/.local/share/lasthop`.
    pub fn find() -> Result<Self, String> {
        Self::from_variables(|name| env::var_os(name))
    }

    /// A folder of the caller's choice.
    pub fn at(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // An absolute path, because the guard and the servers have other working directories.
        Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        // An empty variable counts as unset, as the XDG Base Directory Specification requires.
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("LASTHOP_HOME")
            .or_else(|| set("XDG_DATA_HOME").map(|path| path.join("lasthop")))
            .or_else(|| set("HOME").map(|path| path.join(".local/share/lasthop")))
            .map(Self::at)
            .ok_or(
                "no place for lasthop's data: neither LASTHOP_HOME, XDG_DATA_HOME nor HOME is set; set LASTHOP_HOME to a \
                 directory",
            )?
            .as_text()
    }

    pub fn as_text(self) -> Result<Self, String> {
        if self.0.to_str().is_some() {
            return Ok(self);
        }
        Err(format!(
            "the path of the data folder {} is not UTF-8, so records cannot hold it; set LASTHOP_HOME to another directory",
            self.0.display()
        ))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of run records.
    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// The folder of an experiment's packages of a language.
    pub fn packages(&self, language: &str, experiment: &str) -> PathBuf {
        self.0.join(language).join(experiment)
    }

    /// Refuses packages of an experiment that another account could have made or changed, because they are executed.
    pub fn check_packages(&self, experiment: &str) -> Result<(), String> {
        LANGUAGES.iter().try_for_each(|language| {
            let folder = self.packages(language.name, experiment);
            let foreign = owner::foreign_on_way(&self.0, &folder).or_else(|| owner::foreign_below(&folder));
            foreign.map_or(Ok(()), |foreign| Err(foreign.refusal()))
        })
    }

    /// Removes write permission of other accounts from the data folder and lasthop's folders in it, if the umask left
    /// it. Returns the folders that changed. Files that others have put there remain theirs, and are refused.
    pub fn tighten(&self) -> Vec<PathBuf> {
        // A folder without run records may be anything that a variable names, such as `/tmp`.
        if !self.runs().is_dir() {
            return Vec::new();
        }
        let made = MADE.into_iter().chain(LANGUAGES.map(|language| language.name));
        let folders = [self.0.clone()].into_iter().chain(made.map(|name| self.0.join(name)));
        let tightened = |folder: &PathBuf| {
            let Ok(facts) = files::facts(folder) else {
                return false;
            };
            facts.is_dir()
                && facts.uid() == rustix::process::geteuid().as_raw()
                && owner::others_write(&facts)
                && !owner::is_sticky(&facts)
                && fs::set_permissions(folder, Permissions::from_mode(facts.mode() & 0o7755)).is_ok()
        };
        folders.filter(tightened).collect()
    }

    /// Lets other accounts pass through the data folder without listing it: root's servers run as another account, and
    /// must reach installed packages. Private folders stay closed.
    pub fn let_pass(&self) -> Result<(), String> {
        let change = || {
            fs::set_permissions(
                &self.0,
                Permissions::from_mode(files::facts_linked(&self.0)?.mode() & 0o7777 | 0o011),
            )
        };
        change().map_err(|cause| format!("cannot open {} to servers: {cause}", self.0.display()))
    }

    /// Makes a folder below the data folder (or the data folder itself, for an empty path), for this account alone, and
    /// proves by writing that it is writable.
    pub fn writable(&self, below: impl AsRef<Path>) -> Result<PathBuf, String> {
        let path = self.0.join(below);
        let check = || owner::foreign_on_way(&self.0, &path).map_or(Ok(()), |foreign| Err(foreign.refusal()));
        check()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        // Another account may have made the folder first.
        check()?;
        // A file without a name cannot conflict with the user's files.
        made.and_then(|()| tempfile::tempfile_in(&path)).map_err(|cause| {
            format!(
                "lasthop cannot write its data folder {}: {cause}; set LASTHOP_HOME to a directory that can be written",
                path.display()
            )
        })?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn home(set: &[(&str, &str)]) -> Result<PathBuf, String> {
        let variable = |name: &str| {
            set.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        };
        Home::from_variables(variable).map(|home| home.0)
    }

    #[test]
    fn the_most_special_variable_wins() {
        let all = [("HOME", "/h"), ("XDG_DATA_HOME", "/x"), ("LASTHOP_HOME", "/l")];
        assert_eq!(home(&all).unwrap(), PathBuf::from("/l"));
        assert_eq!(home(&all[..2]).unwrap(), PathBuf::from("/x/lasthop"));
        assert_eq!(home(&all[..1]).unwrap(), PathBuf::from("/h/.local/share/lasthop"));
        assert_eq!(
            home(&[("LASTHOP_HOME", ""), ("HOME", "/h")]).unwrap(),
            PathBuf::from("/h/.local/share/lasthop")
        );
        let bytes = |name: &str| (name == "HOME").then(|| OsString::from_vec(b"/h\xff".to_vec()));
        let error = Home::from_variables(bytes).unwrap_err().to_string();
        assert!(
            error.contains("is not UTF-8") && error.contains("set LASTHOP_HOME"),
            "{error}"
        );
        assert!(home(&[]).unwrap_err().to_string().contains("set LASTHOP_HOME"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_says_where_why_and_what_to_do() {
        // /proc refuses new directories, even to root.
        let error = Home::at("/proc/lasthop").writable("runs").unwrap_err().to_string();
        assert!(
            error.starts_with("lasthop cannot write its data folder /proc/lasthop/runs: "),
            "{error}"
        );
        assert!(
            error.ends_with("; set LASTHOP_HOME to a directory that can be written"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_can_be_written_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().join("data"));
        assert!(home.writable("runs").unwrap().is_dir());
        assert_eq!(fs::read_dir(home.runs()).unwrap().count(), 0);
        for folder in [home.path(), &home.runs()] {
            assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700, "{}", folder.display());
        }
    }

    #[test]
    fn what_others_can_write_is_tightened_at_the_top_and_refused_below() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().join("data"));
        let packages = home.packages("python", "exp");
        fs::create_dir_all(&packages).unwrap();
        fs::write(packages.join("module.py"), "").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        set(&packages, 0o755);
        set(&packages.join("module.py"), 0o666);
        for folder in [home.path(), packages.parent().unwrap()] {
            set(folder, 0o777);
        }
        assert!(home.writable("runs").unwrap_err().contains("`chmod -R go-w "));
        for (runs, mode) in [(false, 0o777), (true, 0o1777)] {
            if runs {
                fs::create_dir_all(home.runs()).unwrap();
                set(&home.runs(), 0o755);
            }
            set(home.path(), mode);
            assert!(
                !home.tighten().contains(&home.0),
                "it may be a folder of anybody's, such as /tmp"
            );
        }
        let refused = home.writable("runs").unwrap_err();
        assert!(
            refused.ends_with("set LASTHOP_HOME to a folder of your own"),
            "{refused}"
        );
        set(home.path(), 0o777);
        set(packages.parent().unwrap(), 0o777);
        assert_eq!(home.tighten(), [home.path(), packages.parent().unwrap()]);
        assert_eq!(home.tighten(), [] as [PathBuf; 0]);
        home.writable("runs").unwrap();
        let refused = home.check_packages("exp").unwrap_err();
        assert!(refused.contains("module.py (mode 0666"), "{refused}");
        set(&packages.join("module.py"), 0o644);
        home.check_packages("exp").unwrap();
        home.check_packages("another").unwrap();
    }
}
