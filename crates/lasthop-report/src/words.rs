//! Sentences from the templates in `words/*.j2`, and from an experiment's own template.

use std::sync::LazyLock;

use lasthop_analyse::summary::Summary;
use lasthop_model::record::ANSWERED;
use minijinja::{Environment, Error, UndefinedBehavior};
use serde::Serialize;

use super::{units::capital, wording::listed};

static WORDS: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut words = environment();
    words.set_undefined_behavior(UndefinedBehavior::Strict);
    words.add_filter("capital", |text: &str| capital(text));
    words.add_function("listed", |names: Vec<String>| {
        listed(&names.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let all = [
        ("advice", include_str!("words/advice.j2")),
        ("diff", include_str!("words/diff.j2")),
        ("overload", include_str!("words/overload.j2")),
        ("sentences", include_str!("words/sentences.j2")),
    ];
    for (name, text) in all {
        words.add_template(name, text).expect("a template of lasthop's own");
    }
    words
});

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment
}

/// The lines of a rendered template.
///
/// # Panics
///
/// If the template is wrong, which tests exclude.
#[must_use]
pub fn say(template: &str, context: impl Serialize) -> Vec<String> {
    let template = WORDS.get_template(template).expect("a template of lasthop's own");
    lines(&template.render(context).expect("a template of lasthop's own"))
}

/// The lines of the experiment's own template for its result.
#[must_use]
pub fn own(summary: &Summary) -> Vec<String> {
    let Some(template) = &summary.template else {
        return Vec::new();
    };
    let said = rendered(template, summary);
    said.unwrap_or_else(|error| vec![format!("The answer of the experiment cannot be written: {error:#}.")])
}

fn rendered(template: &str, summary: &Summary) -> Result<Vec<String>, Error> {
    let mut words = environment();
    words.set_fuel(Some(1_000_000));
    let result = minijinja::Value::from_serialize(summary);
    let known = ANSWERED.iter().map(|name| Ok((*name, result.get_attr(name)?)));
    let context: minijinja::Value = known.collect::<Result<_, Error>>()?;
    Ok(lines(&words.render_str(template, context)?))
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}
