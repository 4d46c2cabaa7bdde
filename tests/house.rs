//! The way of the data is one way: which files use which, and that nothing goes round in circles.
//!
//! Folders of a crate's `src` form no circle. Files may form small ones: a module and its parent often share a type.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{
    Attribute, Item, ItemMod, UseTree,
    visit::{self, Visit},
};

/// The most files that may use each other in a circle.
const LARGEST: usize = 4;

/// Whom each name uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The paths of one file, with its own module in front where they are relative.
struct Paths {
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Paths {
    fn of(module: &[String], text: &str) -> Vec<Vec<String>> {
        let mut paths = Self { module: module.to_vec(), found: Vec::new() };
        paths.visit_file(&syn::parse_file(text).unwrap());
        paths.found
    }

    fn keep(&mut self, path: &[String]) {
        let above = path.iter().take_while(|word| *word == "super").count();
        let absolute = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [&self.module, &path[1..]].concat(),
            "super" => [&self.module[..self.module.len() - above.min(self.module.len())], &path[above..]].concat(),
            _ => [&self.module, path].concat(),
        };
        self.found.push(absolute);
    }

    fn use_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(before, tree)),
            UseTree::Name(name) => self.keep(&with(&name.ident)),
            UseTree::Rename(rename) => self.keep(&with(&rename.ident)),
            UseTree::Glob(_) => self.keep(before),
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && {
            let condition = attribute.meta.require_list().unwrap().tokens.to_string();
            condition == "test"
        }
    })
}

impl Visit<'_> for Paths {
    fn visit_item(&mut self, item: &Item) {
        let attributes = match item {
            Item::Mod(module) => &module.attrs,
            Item::Fn(function) => &function.attrs,
            Item::Use(import) => &import.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, import: &syn::ItemUse) {
        self.use_tree(&[], &import.tree);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if words.len() > 1 {
            self.keep(&words);
        }
        visit::visit_path(self, path);
    }

    /// A file that only declares another does not use it.
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if module.content.is_some() {
            visit::visit_item_mod(self, module);
        }
    }
}

/// The folder of the sources of each crate.
fn crates() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| format!("crates/{name}/src")).chain(["src".to_owned()]).collect()
}

/// Every file of production code below a folder, by its module path.
fn files(folder: &Path, module: &[String], found: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, &[module, &[stem]].concat(), found);
            continue;
        }
        let tests = ["tests", "testing", "fixtures"].contains(&stem.as_str());
        if path.extension().is_some_and(|extension| extension == "rs") && !tests {
            let own = ["mod", "lib", "main"].contains(&stem.as_str());
            let module = if own { module.to_vec() } else { [module, &[stem]].concat() };
            found.insert(module, fs::read_to_string(&path).unwrap());
        }
    }
}

fn graph_of_files(folder: &str) -> Graph {
    let mut all = BTreeMap::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &[], &mut all);
    let mut graph = Graph::new();
    for (module, text) in &all {
        let uses = graph.entry(module.join("::")).or_default();
        for path in Paths::of(module, text) {
            // The longest module that the path begins with is the file that it leads to.
            let file = (1..=path.len()).rev().find(|length| all.contains_key(&path[..*length]));
            uses.extend(file.map(|length| path[..length].join("::")).filter(|file| *file != module.join("::")));
        }
    }
    graph
}

/// The folder that a module is in: the first word of its path.
fn folder(module: &str) -> String {
    module.split("::").next().unwrap().to_owned()
}

fn graph_of_folders(files: &Graph) -> Graph {
    let mut graph = Graph::new();
    for (file, uses) in files.iter().filter(|(file, _)| !file.is_empty()) {
        let from = folder(file);
        let others = uses.iter().map(|used| folder(used)).filter(|to| *to != from);
        graph.entry(from.clone()).or_default().extend(others);
    }
    graph
}

fn reachable<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(name) = next.pop() {
        for used in graph.get(name).into_iter().flatten() {
            if seen.insert(used.as_str()) {
                next.push(used);
            }
        }
    }
    seen
}

/// Names that can reach each other, more than one together.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|name| (name.as_str(), reachable(graph, name))).collect();
    let mut circles = BTreeSet::new();
    for (name, far) in &reached {
        let circle: BTreeSet<String> = far
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(name)))
            .map(|other| (*other).to_owned())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles
}

#[test]
fn no_folders_use_each_other_in_a_circle() {
    for source in &crates() {
        let circles = circles(&graph_of_folders(&graph_of_files(source)));
        assert!(circles.is_empty(), "folders of {source} use each other: {circles:#?}");
    }
}

#[test]
fn circles_of_files_stay_small() {
    for source in &crates() {
        let graph = graph_of_files(source);
        assert!(graph.len() > 3, "{source} was read");
        for circle in circles(&graph) {
            assert!(circle.len() <= LARGEST, "files of {source} use each other: {circle:#?}");
        }
    }
}

#[test]
fn a_circle_is_seen() {
    let uses = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let graph = Graph::from(
        [("a", uses(&["b"])), ("b", uses(&["c", "d"])), ("c", uses(&["a"])), ("d", uses(&[]))]
            .map(|(name, uses)| (name.to_owned(), uses)),
    );
    assert_eq!(circles(&graph), BTreeSet::from([uses(&["a", "b", "c"])]));
    let module = ["run".to_owned(), "round".to_owned()];
    let text = "use super::job::{Job, nanoseconds}; fn f() { crate::text::line(1) } #[cfg(test)] mod tests { use crate::cli; }";
    let found: Vec<String> = Paths::of(&module, text).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["run::job::Job", "run::job::nanoseconds", "text::line"]);
}
