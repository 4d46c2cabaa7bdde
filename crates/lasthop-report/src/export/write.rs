//! Writes an export to a folder of the user's, without overwriting anything and without following links.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use lasthop_model::service::stays_inside;

use super::Exported;

/// Writes the files and yields their paths; over such as are there only with `force`.
///
/// # Errors
///
/// A file cannot be written; what stands in the way is found before the first one is written.
pub fn write(folder: &Path, exported: &[Exported], force: bool) -> Result<Vec<PathBuf>, String> {
    let all = exported
        .iter()
        .map(|one| Ok((target(folder, &one.name, force)?, &one.text)));
    let all = all.collect::<Result<Vec<_>, String>>()?;
    for (path, text) in &all {
        let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| put(path, text, force));
        written.map_err(|cause| format!("cannot write {}: {cause}", path.display()))?;
    }
    Ok(all.into_iter().map(|(path, _)| path).collect())
}

/// Where a file of that name goes. The folder itself is the user's choice, also where it is a link.
fn target(folder: &Path, name: &str, force: bool) -> Result<PathBuf, String> {
    if !stays_inside(Path::new(name)) {
        return Err(format!(
            "the record names a file `{name}`, which would be outside the folder, so nothing was written"
        ));
    }
    let path = folder.join(name);
    let below = path.ancestors().take_while(|part| *part != folder);
    if let Some(link) = below.into_iter().find(|part| part.is_symlink()) {
        return Err(format!(
            "{} is a link, which lasthop does not follow, so nothing was written; choose another folder",
            link.display()
        ));
    }
    if path.exists() && !force {
        return Err(format!(
            "{} already exists, so nothing was written; choose another folder, or overwrite it with --force",
            path.display()
        ));
    }
    Ok(path)
}

fn put(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // O_NONBLOCK, because opening a pipe that nobody reads would wait for ever.
    let options = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let opened = if force {
        options.create(true).truncate(true).open(path)
    } else {
        options.create_new(true).open(path)
    };
    opened?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files(names: &[&str]) -> Vec<Exported> {
        names
            .iter()
            .map(|name| Exported {
                name: (*name).to_owned(),
                text: format!("new {name}\n"),
            })
            .collect()
    }

    #[test]
    fn what_is_there_stays_unless_it_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("made/here");
        let all = files(&["README.md", "nginx/nginx.conf"]);
        assert_eq!(
            write(&into, &all, false).unwrap(),
            [into.join("README.md"), into.join("nginx/nginx.conf")]
        );
        fs::remove_file(into.join("README.md")).unwrap();
        fs::write(into.join("nginx/nginx.conf"), "mine").unwrap();
        let error = write(&into, &all, false).unwrap_err();
        assert!(
            error.contains("nginx.conf already exists") && error.contains("--force"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(into.join("nginx/nginx.conf")).unwrap(), "mine");
        assert!(!into.join("README.md").exists(), "nothing was written");
        write(&into, &all, true).unwrap();
        assert_eq!(
            fs::read_to_string(into.join("nginx/nginx.conf")).unwrap(),
            "new nginx/nginx.conf\n"
        );
    }

    #[test]
    fn no_link_is_followed_and_no_name_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        let mine = folder.path().join("mine");
        fs::create_dir_all(&into).unwrap();
        fs::create_dir_all(&mine).unwrap();
        fs::write(mine.join("nginx.conf"), "mine").unwrap();
        symlink(mine.join("nginx.conf"), into.join("README.md")).unwrap();
        symlink(mine.join("missing"), into.join("dangling")).unwrap();
        symlink(&mine, into.join("nginx")).unwrap();
        for name in ["README.md", "dangling", "nginx/nginx.conf", "nginx/other.conf"] {
            for force in [false, true] {
                let error = write(&into, &files(&["fine", name]), force).unwrap_err();
                assert!(error.contains(" is a link"), "{name}: {error}");
            }
        }
        for name in ["../out", "/tmp/lasthop-never/out", "a/../../out"] {
            let error = write(&into, &files(&[name]), true).unwrap_err();
            assert!(error.contains(" outside the folder"), "{name}: {error}");
        }
        assert_eq!(fs::read_to_string(mine.join("nginx.conf")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
        assert!(
            !into.join("fine").exists() && !folder.path().join("out").exists(),
            "nothing was written"
        );
    }
}
