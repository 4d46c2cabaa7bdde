//! README's examples of your own servers and stack print what it shows.

use crate::{
    common::{Lasthop, have},
    compare::Nginx,
    your_own_stack::{fenced, replay},
};

#[test]
fn the_examples_of_your_own_print_what_readme_shows() {
    if !have("nginx") || !have("openssl") {
        return;
    }
    let readme = include_str!("../../README.md");
    let (_, own) = readme.split_once("\n## Your own\n").unwrap();
    let (own, _) = own.split_once("\n## ").unwrap();
    // A survey says what this machine does meanwhile.
    let examples = fenced(own)
        .into_iter()
        .filter(|block| !block.text.contains("lasthop survey"));
    let page: String = examples
        .map(|block| format!("```{}\n{}```\n", block.language, block.text))
        .collect();
    let nginx = Nginx::start();
    let page = page
        .replace("http://127.0.0.1:8000", &nginx.tcp(""))
        .replace("/run/app.sock", &nginx.socket().display().to_string());
    let lasthop = Lasthop::new();
    assert_eq!(replay(&page, &lasthop), 4, "commands");
    lasthop.assert_nothing_left();
}
