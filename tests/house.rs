//! The way of the data is one way: which files use which, and that nothing goes round in circles. And what is data stays
//! data: no word of an experiment, a recipe, a tool or a study is in Rust.
//!
//! Folders form no circle, at no depth. Files may form small ones: a module and its parent often share a type.
//!
//! A test program of several files names all of them, because Rust compiles no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use lasthop_classic::TOOLS;
use lasthop_model::level::Level;
use lasthop_plan::catalog::Catalog;
use lasthop_protocol::PROTOCOLS;
use lasthop_repro::study;
use lasthop_trial::address::Transport;
use syn::{
    Attribute, Expr, ExprMethodCall, Item, ItemMod, Lit, LitStr, Macro, Token, UseTree,
    buffer::{Cursor, TokenBuffer},
    punctuated::Punctuated,
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
        let mut paths = Self {
            module: module.to_vec(),
            found: Vec::new(),
        };
        paths.visit_file(&syn::parse_file(text).unwrap());
        paths.found
    }

    fn keep(&mut self, path: &[String]) {
        let above = path.iter().take_while(|word| *word == "super").count();
        let absolute = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [&self.module, &path[1..]].concat(),
            "super" => [
                &self.module[..self.module.len() - above.min(self.module.len())],
                &path[above..],
            ]
            .concat(),
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

fn is_production(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(module) => &module.attrs,
        Item::Fn(function) => &function.attrs,
        Item::Use(import) => &import.attrs,
        _ => return true,
    };
    !is_for_tests(attributes)
}

impl Visit<'_> for Paths {
    fn visit_item(&mut self, item: &Item) {
        if is_production(item) {
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
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .map(|name| format!("crates/{name}/src"))
        .chain(["src".to_owned()])
        .collect()
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
            let module = if own {
                module.to_vec()
            } else {
                [module, &[stem]].concat()
            };
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
            uses.extend(
                file.map(|length| path[..length].join("::"))
                    .filter(|file| *file != module.join("::")),
            );
        }
    }
    graph
}

/// What a module is in, directly below a folder: itself, or a folder in that one.
fn child(parent: &str, module: &str) -> Option<String> {
    let below = if parent.is_empty() {
        module
    } else {
        module.strip_prefix(parent)?.strip_prefix("::")?
    };
    let name = below.split("::").next().filter(|name| !name.is_empty())?;
    Some(module[..module.len() - below.len() + name.len()].to_owned())
}

/// Whom the children of a folder use among each other.
fn graph_below(parent: &str, files: &Graph) -> Graph {
    let mut graph = Graph::new();
    for (file, uses) in files {
        let Some(from) = child(parent, file) else { continue };
        let others = uses
            .iter()
            .filter_map(|used| child(parent, used))
            .filter(|to| *to != from);
        graph.entry(from.clone()).or_default().extend(others);
    }
    graph
}

/// Folders that hold others or files, the whole crate first.
fn folders(files: &Graph) -> BTreeSet<String> {
    let inner = files
        .keys()
        .flat_map(|file| file.match_indices("::").map(|(end, _)| file[..end].to_owned()));
    inner.chain([String::new()]).collect()
}

/// Circles that lead through a folder, among the children of any folder.
fn circles_of_folders(files: &Graph) -> Vec<BTreeSet<String>> {
    let folders = folders(files);
    let below = |parent: &String| {
        let circles = circles(&graph_below(parent, files)).into_iter();
        let leads = |circle: &BTreeSet<String>| circle.iter().any(|name| folders.contains(name));
        circles.filter(leads).collect::<Vec<_>>()
    };
    folders.iter().flat_map(below).collect()
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
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|name| (name.as_str(), reachable(graph, name)))
        .collect();
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
        let circles = circles_of_folders(&graph_of_files(source));
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

/// Every file of production code, by the folder of its crate and its module path.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for source in crates() {
        let mut all = BTreeMap::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(&source), &[], &mut all);
        let named = |(module, text): (Vec<String>, _)| (format!("{source} {}", module.join("::")), text);
        sources.extend(all.into_iter().map(named));
    }
    sources
}

/// The texts of one file, also in macros, without attributes and documentation.
#[derive(Default)]
struct Texts(BTreeSet<String>);

impl Texts {
    fn of(text: &str) -> BTreeSet<String> {
        let mut texts = Self::default();
        texts.visit_file(&syn::parse_file(text).unwrap());
        texts.0
    }

    fn tokens(&mut self, mut cursor: Cursor<'_>) {
        while !cursor.eof() {
            if let Some((literal, _)) = cursor.literal() {
                if let Lit::Str(text) = Lit::new(literal) {
                    self.visit_lit_str(&text);
                }
            } else if let Some((inside, _, _, _)) = cursor.any_group() {
                self.tokens(inside);
            }
            let Some((_, next)) = cursor.token_tree() else { return };
            cursor = next;
        }
    }
}

impl Visit<'_> for Texts {
    fn visit_item(&mut self, item: &Item) {
        if is_production(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &Attribute) {}

    fn visit_lit_str(&mut self, text: &LitStr) {
        self.0.insert(text.value());
    }

    fn visit_macro(&mut self, called: &Macro) {
        self.tokens(TokenBuffer::new2(called.tokens.clone()).begin());
    }
}

/// What reads a file, says what is at a path, or connects: by the names of functions, and of methods.
const READS: [&str; 11] = [
    "fs::metadata",
    "fs::read",
    "fs::read_to_string",
    "fs::symlink_metadata",
    "io::read_to_string",
    "net::connect",
    "File::open",
    "TcpStream::connect",
    "TcpStream::connect_timeout",
    "UnixStream::connect",
    "UnixStream::connect_addr",
];
const METHODS: [&str; 5] = [
    "connect",
    "metadata",
    "read_to_end",
    "read_to_string",
    "symlink_metadata",
];

/// The doors: what others may have made is only read through these, with a limit, and asked with a deadline. The
/// connections of a load are opened in one place, which has deadlines of its own.
const DOORS: [&str; 3] = [
    "crates/lasthop-load/src transport::connector",
    "crates/lasthop-system/src connect",
    "crates/lasthop-system/src files",
];

/// Calls of one file that belong behind a door.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl Calls {
    fn of(text: &str) -> BTreeSet<String> {
        let mut calls = Self::default();
        calls.visit_file(&syn::parse_file(text).unwrap());
        for path in Paths::of(&[], text) {
            calls.path(&path);
        }
        calls.0
    }

    fn path(&mut self, words: &[String]) {
        if let [.., place, name] = words {
            let called = format!("{place}::{name}");
            if READS.contains(&called.as_str()) {
                self.0.insert(called);
            }
        }
    }
}

impl Visit<'_> for Calls {
    fn visit_item(&mut self, item: &Item) {
        if is_production(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        // A method of the file's own is looked at where it is.
        let is_own = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
        if METHODS.contains(&name.as_str()) && !is_own {
            self.0.insert(format!(".{name}()"));
        }
        visit::visit_expr_method_call(self, call);
    }

    /// Those of the standard library have expressions in them.
    fn visit_macro(&mut self, called: &Macro) {
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        for expression in called.parse_body_with(list).into_iter().flatten() {
            self.visit_expr(&expression);
        }
    }
}

#[test]
fn what_others_may_have_made_is_read_through_the_doors_only() {
    let mut found = BTreeMap::new();
    for (place, text) in sources() {
        let calls = Calls::of(&text);
        if !calls.is_empty() {
            found.insert(place, calls);
        }
    }
    for door in DOORS {
        assert!(found.remove(door).is_some(), "{door} is no door");
    }
    assert!(
        found.is_empty(),
        "lasthop_system::files and connect do that: {found:#?}"
    );
}

#[test]
fn a_door_is_seen() {
    let text = "use std::fs::{self, read}; \
                fn f() { fs::read_to_string(1); assert!(path.metadata().is_ok(), \"\"); TcpStream::connect(2); self.connect(3); } \
                fn g() { connect(1); crate::connect::connect(2); files::text(3); fs::read_dir(4); } \
                #[cfg(test)] mod tests { fn f() { file.read_to_end(5); } }";
    let calls: Vec<String> = Calls::of(text).into_iter().collect();
    assert_eq!(
        calls,
        [".metadata()", "TcpStream::connect", "fs::read", "fs::read_to_string"]
    );
}

/// Words of the data that mean something else in Rust. `sockets` is also what runs where no experiment is named.
const COMMON: &str = "GET apache authentication bridge connect connections containers datagrams free get go handshake ipc \
                      keep-alive lasthop loopback n node none off on peer per-request python queries query rows set sockets \
                      threads trust";

/// Names of experiments, recipes, tools, studies and their own quantities, and levels that are words.
fn words_of_the_data() -> BTreeSet<String> {
    let catalog = Catalog::new(None);
    let mut words: BTreeSet<String> = catalog.names().into_iter().chain(study::catalog::names()).collect();
    let services = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("services")).unwrap();
    let folders = services.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    words.extend(folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()));
    words.extend(TOOLS.iter().map(|tool| tool.name.to_owned()));
    for experiment in catalog.names().iter().map(|name| catalog.load(name).unwrap()) {
        let levels = experiment.factors.values().flat_map(|factor| &factor.levels);
        words.extend(levels.filter_map(|level| match level {
            Level::Text(word) if word.starts_with(char::is_alphabetic) => Some(word.clone()),
            _ => None,
        }));
    }
    for study in study::catalog::names()
        .iter()
        .map(|name| study::catalog::load(name).unwrap())
    {
        let claimed = study.claims.into_iter().map(|claim| claim.quantity);
        words.extend(study.figures.into_iter().map(|figure| figure.quantity).chain(claimed));
    }
    let known = Transport::ALL
        .map(Transport::name)
        .into_iter()
        .chain(COMMON.split_whitespace())
        .chain(study::catalog::quantities());
    for word in known.chain(
        PROTOCOLS
            .iter()
            .flat_map(|kind| kind.schemes.iter().copied().chain([kind.name])),
    ) {
        words.remove(word);
    }
    words
}

#[test]
fn no_word_of_the_data_is_in_rust() {
    let words = words_of_the_data();
    assert!(words.contains("nginx") && words.contains("published-port"), "{words:?}");
    let mut found = Vec::new();
    for (place, text) in sources() {
        let texts = Texts::of(&text);
        let split = |letter: char| !(letter.is_alphanumeric() || "-_".contains(letter));
        let said: BTreeSet<&str> = texts.iter().flat_map(|text| text.split(split)).collect();
        let wrong = said.into_iter().filter(|word| words.contains(*word));
        found.extend(wrong.map(|word| format!("{place}: {word}")));
    }
    assert!(found.is_empty(), "these are data: {found:#?}");
}

#[test]
fn a_circle_is_seen() {
    let uses = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let graph = Graph::from(
        [
            ("a", uses(&["b"])),
            ("b", uses(&["c", "d"])),
            ("c", uses(&["a"])),
            ("d", uses(&[])),
        ]
        .map(|(name, uses)| (name.to_owned(), uses)),
    );
    assert_eq!(circles(&graph), BTreeSet::from([uses(&["a", "b", "c"])]));
    let deep = [
        ("s::a", uses(&["s::b::x"])),
        ("s::a::y", uses(&["s::c"])),
        ("s::b::x", uses(&["s::a"])),
        ("s::c", uses(&["s::d"])),
        ("s::d", uses(&["s::c", "s"])),
    ];
    let files = Graph::from(deep.map(|(name, uses)| (name.to_owned(), uses)));
    assert_eq!(
        circles_of_folders(&files),
        [uses(&["s::a", "s::b"])],
        "of c and d, neither is a folder"
    );
    let module = ["run".to_owned(), "round".to_owned()];
    let text = "use super::job::{Job, nanoseconds}; fn f() { crate::text::line(1) } #[cfg(test)] mod tests { use crate::cli; }";
    let found: Vec<String> = Paths::of(&module, text).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["run::job::Job", "run::job::nanoseconds", "text::line"]);
    let texts = Texts::of(
        "fn f() { g(\"a\"); h!(x => [\"b\"]); } #[doc = \"c\"] const D: &str = \"d\"; #[cfg(test)] mod t { f!(\"e\"); }",
    );
    assert_eq!(texts.into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
}

/// A literal that goes on in the next line has a backslash at the end of the first.
#[test]
fn no_sentence_has_a_gap() {
    let gap = regex::Regex::new(r"[a-z,.:;)}] {6,}[a-z({]").unwrap();
    assert!(gap.is_match("the connections          had ten"));
    let mut found = Vec::new();
    for (place, text) in sources() {
        let texts = Texts::of(&text);
        let gaps = texts.iter().filter(|text| gap.is_match(text));
        found.extend(gaps.map(|text| format!("{place}: {text}")));
    }
    assert!(found.is_empty(), "these have a gap: {found:#?}");
}

#[test]
fn every_file_of_a_test_program_is_a_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = BTreeSet::new();
    for source in crates() {
        let tests = root.join(source).with_file_name("tests");
        let Ok(entries) = fs::read_dir(tests) else { continue };
        let mains = entries.map(|entry| entry.unwrap().path().join("main.rs"));
        programs.extend(mains.filter(|main| main.is_file()));
    }
    assert!(programs.contains(&root.join("tests/all/main.rs")));
    for main in programs {
        let text = fs::read_to_string(&main).unwrap();
        for entry in fs::read_dir(main.parent().unwrap()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(module) = name.strip_suffix(".rs") else {
                continue;
            };
            let is_known = module == "main" || text.contains(&format!("\nmod {module};\n"));
            assert!(is_known, "{name} is not in {}", main.display());
        }
    }
}
