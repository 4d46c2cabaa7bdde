//! Creates experiments: `lasthop new`.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use lasthop_system::files::{self, Folder};

use super::{Catalog, EXPERIMENTS};
use crate::{
    diagnostics::Diagnostics,
    document::Document,
    files::{EXPERIMENT_FILE, Files, RECIPE_FILE, embedded},
    schema,
};

/// The pattern of a new experiment.
#[derive(Clone, Copy)]
pub enum Pattern<'a> {
    Smallest,
    /// An experiment with a driver of its own.
    Driver,
    /// A copy of this experiment, with the recipes that it uses.
    Copy(&'a str),
}

/// Placeholder in the template for the new experiment's name.
const NAME: &str = "@name@";
/// Placeholder for the name of the copied experiment.
const ORIGINAL: &str = "@original@";
/// A page for people; a copy has another page than the original.
const PAGE: &str = "README.md";
const PAGE_OF_A_COPY: &str = "_copy.md";

impl Catalog {
    /// Writes a new experiment, which is ready to run, to `parent/name`.
    pub fn create(&self, name: &str, pattern: Pattern<'_>, parent: &Path) -> Result<PathBuf, String> {
        if !name.split('-').all(|word| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        }) {
            return Err(format!(
                "`{name}` cannot be the name of an experiment: use lower-case letters, digits and `-`"
            ));
        }
        let template = |folder| {
            named(
                embedded(&EXPERIMENTS, folder, EXPERIMENT_FILE).unwrap_or_default(),
                name,
            )
        };
        let mut files = match pattern {
            Pattern::Copy(original) => self.copied(name, original)?,
            Pattern::Smallest => template("_template"),
            Pattern::Driver => template("_driver"),
        };
        files.iter_mut().for_each(|(path, content)| add_schema(path, content));
        let folder = parent.join(name);
        let unwritten = |path: &Path, cause: &io::Error| format!("cannot write {}: {cause}", path.display());
        // Fails if the folder exists, so that no file of the user's is overwritten.
        fs::DirBuilder::new()
            .mode(0o755)
            .create(&folder)
            .map_err(|cause| match cause.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!(
                        "{} already exists, and nothing was written: choose another name",
                        folder.display()
                    )
                }
                _ => unwritten(&folder, &cause),
            })?;
        let new = Folder::open(parent).and_then(|parent| parent.at(Path::new(name)));
        let new = new.map_err(|cause| unwritten(&folder, &cause))?;
        // The folder's mode, as the umask has left it.
        let mode = files::facts_linked(new.path()).map_or(0o700, |facts| facts.mode() & 0o755);
        for (path, content) in files {
            let write = || {
                new.make(path.parent().unwrap_or(Path::new("")), mode)?;
                new.create(&path, mode & 0o644)?.write_all(&content)
            };
            write().map_err(|cause| unwritten(&folder.join(&path), &cause))?;
        }
        Ok(folder)
    }

    /// The files of another experiment under a new name.
    fn copied(&self, name: &str, original: &str) -> Result<Files, String> {
        let mut files = self.files(original)?;
        if let Some(experiment) = files.get_mut(Path::new(EXPERIMENT_FILE)) {
            *experiment = titled(&String::from_utf8_lossy(experiment), name).into_bytes();
        }
        let page = EXPERIMENTS
            .get_file(PAGE_OF_A_COPY)
            .and_then(|file| file.contents_utf8())
            .unwrap_or_default();
        let page = page.replace(NAME, name).replace(ORIGINAL, original);
        files.insert(PathBuf::from(PAGE), page.into_bytes());
        Ok(files)
    }
}

/// The template with the name of the new experiment.
fn named(mut files: Files, name: &str) -> Files {
    for content in files.values_mut() {
        if let Ok(text) = str::from_utf8(content) {
            *content = text.replace(NAME, name).into_bytes();
        }
    }
    files
}

/// The text of an experiment with a new title.
fn titled(text: &str, title: &str) -> String {
    let document = Document::parse(EXPERIMENT_FILE, text, &mut Diagnostics::default());
    let mut text = text.to_owned();
    text.replace_range(document.range("/title"), &format!("\"{title}\""));
    text
}

/// Adds the schema in the first line, where editors find it.
fn add_schema(path: &Path, content: &mut Vec<u8>) {
    let schemas = [(EXPERIMENT_FILE, "experiment"), (RECIPE_FILE, "recipe")];
    let known = schemas.into_iter().find(|(file, _)| path.ends_with(file));
    if let Some((_, name)) = known.filter(|_| !content.starts_with(b"#:schema ")) {
        content.splice(0..0, format!("#:schema {}\n", schema::id(name)).into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use lasthop_model::selection::Selection;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_new_experiment_loads_and_plans_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let catalog = Catalog::default();
        let folder = catalog.create("my-stack", Pattern::Smallest, parent.path()).unwrap();
        let experiment = catalog
            .load(&folder.display().to_string())
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&experiment.name[..], &experiment.title[..]), ("my-stack", "my-stack"));
        assert!(
            fs::read_to_string(folder.join("README.md"))
                .unwrap()
                .starts_with("# my-stack\n")
        );
        let plan = Plan::new(experiment, &Selection::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.cases.len(), 2);
        assert_eq!(plan.differences, []);
        let folder = catalog.create("my-protocol", Pattern::Driver, parent.path()).unwrap();
        let experiment = catalog.load(&folder.display().to_string()).unwrap();
        let plan = Plan::new(experiment, &Selection::default()).unwrap();
        assert_eq!((plan.cases.len(), &plan.cases[0].load.protocol[..]), (2, "custom"));
        assert_eq!(plan.cases[0].load.driver, "python3 driver.py");
        assert_eq!(plan.differences, []);
        let error = |name: &str| catalog.create(name, Pattern::Smallest, parent.path()).unwrap_err();
        assert!(error("my-stack").contains("my-stack already exists, and nothing was written"));
        for name in ["", "My", "a b", "../x", "a--b", "-a", "a/b"] {
            assert!(error(name).contains("cannot be the name of an experiment"), "{name}");
        }
    }

    #[test]
    fn a_copy_of_any_built_in_loads_and_plans_like_it() {
        let parent = tempfile::tempdir().unwrap();
        let catalog = Catalog::default();
        let planned = |name: &str| Plan::new(catalog.load(name).unwrap(), &Selection::default()).unwrap();
        for name in catalog.names() {
            let copy = format!("my-{name}");
            let folder = catalog
                .create(&copy, Pattern::Copy(&name), parent.path())
                .unwrap_or_else(|error| panic!("{error}"));
            let mine = planned(&folder.display().to_string());
            let original = planned(&name);
            assert_eq!((&mine.experiment.name, &mine.experiment.title), (&copy, &copy));
            assert_eq!(mine.cases, original.cases, "{name}");
            assert_eq!(mine.differences, []);
            for recipe in original.experiment.recipes.keys() {
                let toml = fs::read_to_string(folder.join("services").join(recipe).join(RECIPE_FILE)).unwrap();
                assert!(
                    toml.starts_with(&format!("#:schema {}\n", schema::id("recipe"))),
                    "{name}: {toml}"
                );
            }
            let page = fs::read_to_string(folder.join(PAGE)).unwrap();
            assert!(
                page.starts_with(&format!("# {copy}\n")) && page.contains(&name) && !page.contains('@'),
                "{page}"
            );
        }
        let unknown = catalog
            .create("other", Pattern::Copy("nginx-gunicron"), parent.path())
            .unwrap_err();
        assert!(unknown.contains("did you mean `nginx-gunicorn`?"), "{unknown}");
        assert!(!parent.path().join("other").exists());
    }

    #[test]
    fn a_title_is_replaced_and_nothing_else() {
        let text = "# a \"title\"\nquestion = \"title\"\ntitle = 'a title' # short\n";
        let wanted = "# a \"title\"\nquestion = \"title\"\ntitle = \"mine\" # short\n";
        assert_eq!(titled(text, "mine"), wanted);
    }
}
