//! The data folder of lasthop: run records, and what `lasthop setup` installs.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// The data folder. It need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `$LASTHOP_HOME`, or `$XDG_DATA_HOME/lasthop`, or `~/.local/share/lasthop`.
    ///
    /// # Errors
    ///
    /// None of the variables is set, or it is no text.
    pub fn find() -> Result<Self, String> {
        Self::from_variables(|name| env::var_os(name))
    }

    /// A folder of the caller's choice.
    pub fn at(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // The guard and the servers have other working directories, where a relative path would lead elsewhere.
        Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        // An empty variable counts as unset, as the XDG Base Directory Specification has it.
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

    /// # Errors
    ///
    /// It is not UTF-8, and commands, configurations and records name paths below it.
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

    /// Where run records are kept.
    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// The packages of a language that are installed for an experiment.
    pub fn packages(&self, language: &str, experiment: &str) -> PathBuf {
        self.0.join(language).join(experiment)
    }

    /// Makes a folder below the data folder (or the data folder itself, for an empty path) and proves that it can be
    /// written, by writing.
    ///
    /// # Errors
    ///
    /// It cannot: the path, the reason and the remedy.
    pub fn writable(&self, below: impl AsRef<Path>) -> Result<PathBuf, String> {
        let path = self.0.join(below);
        // A file without a name: nothing of the user's can be in its way.
        fs::create_dir_all(&path)
            .and_then(|()| tempfile::tempfile_in(&path))
            .map_err(|cause| {
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
        // /proc refuses new directories, also to root.
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
    }
}
