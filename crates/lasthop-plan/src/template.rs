//! Templates of minijinja, in which printing an undefined name is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    ops::Range,
    sync::{Arc, LazyLock},
};

use lasthop_model::level::{Level, Levels};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, escape_formatter,
    value::{Object, ObjectRepr, Value, ValueKind},
};

/// Step limit of a template, against endless loops.
const MOST_STEPS: u64 = 1_000_000;
/// Maximum bytes of a template's output.
const MOST_BYTES: usize = 16 << 20;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    // Undefined names may be tested, as in `{% if tls %}`, but not printed.
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    // Names of templates are those of their files, and minijinja would escape HTML in one named `index.html`.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // By default, minijinja drops the last newline of a template.
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_debug(true);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_formatter(|output, state, value| match bool::try_from(value.clone()) {
        // Configuration files and options need `true`, but minijinja writes Python's `True`.
        Ok(truth) if value.kind() == ValueKind::Bool => output
            .write_str(if truth { "true" } else { "false" })
            .map_err(Into::into),
        _ => escape_formatter(output, state, value),
    });
    environment
});

/// The environment for conditions, in which a factor that does not apply equals nothing. Names have been checked
/// before.
static CONDITIONS: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = ENVIRONMENT.clone();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment
});

/// Names that minijinja itself defines.
const GLOBALS: [&str; 4] = ["range", "dict", "namespace", "debug"];

/// A template that cannot be read or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct TemplateError {
    /// File and line, or the key with the template.
    pub place: String,
    pub message: String,
}

impl From<TemplateError> for String {
    fn from(error: TemplateError) -> Self {
        error.to_string()
    }
}

/// An error in a template's text.
#[derive(Clone, Debug)]
pub struct Flaw {
    pub message: String,
    pub range: Range<usize>,
}

fn flaw(error: &Error, text: &str) -> Flaw {
    // minijinja reports an unclosed comment at the end of the text, where nobody looks.
    let comment = text
        .rfind("{#")
        .filter(|_| error.detail() == Some("unexpected end of comment"));
    if let Some(begin) = comment {
        return Flaw {
            message: "the comment that begins here has no end".to_owned(),
            range: begin..begin + 2,
        };
    }
    let line = error.line().unwrap_or(1);
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let range = error
        .range()
        .filter(|range| !range.is_empty() && range.end <= text.len());
    Flaw {
        message: words(error),
        range: range.unwrap_or(start..end),
    }
}

fn words(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("it takes more than {MOST_STEPS} steps: shorten its loops"),
        (ErrorKind::WriteFailure, _) => format!("it renders to more than {} MiB", MOST_BYTES >> 20),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

/// Names from the context that a template uses, with their attributes: `nginx.address`.
pub(super) fn names(text: &str) -> Result<BTreeSet<String>, Flaw> {
    let environment: &Environment<'_> = &ENVIRONMENT;
    let template = environment
        .template_from_str(text)
        .map_err(|error| flaw(&error, text))?;
    Ok(own_names(template.undeclared_variables(true)))
}

/// Names that an expression uses, with their attributes.
pub fn expression_names(text: &str) -> Result<BTreeSet<String>, Flaw> {
    let expression = ENVIRONMENT
        .compile_expression_owned(text.to_owned())
        .map_err(|error| flaw(&error, text))?;
    Ok(own_names(expression.undeclared_variables(true)))
}

fn own_names(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names
        .into_iter()
        .filter(|name| !GLOBALS.contains(&name.split('.').next().unwrap_or(name)))
        .collect()
}

/// Renders a template. `place` is its file or key, for errors.
pub fn render(place: &str, text: &str, context: &Value) -> Result<String, TemplateError> {
    let failed = |error: Error| {
        let place = match (text.contains('\n'), error.line()) {
            (true, Some(line)) => format!("{place}:{line}"),
            _ => place.to_owned(),
        };
        TemplateError {
            place,
            message: describe(&error, text),
        }
    };
    let mut output = Bounded::default();
    let template = ENVIRONMENT.template_from_named_str(place, text).map_err(failed)?;
    template.render_captured_to(context, &mut output).map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.0).into_owned())
}

/// Renders a template to a word, without blanks around it.
pub(super) fn word(place: &str, text: &str, context: &Value) -> Result<String, TemplateError> {
    Ok(render(place, text, context)?.trim().to_owned())
}

/// The output of a template, up to the limit.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn describe(error: &Error, text: &str) -> String {
    let what = words(error);
    match error.range().and_then(|range| text.get(range)) {
        Some(part) if !part.is_empty() && part.len() < 60 && !part.contains('\n') => format!("{what} (`{part}`)"),
        _ => what,
    }
}

/// The number that an expression computes from named numbers, if it is one. A dot in a name makes an attribute:
/// `queries.time`.
pub fn number(expression: &str, numbers: &[(&str, f64)]) -> Option<f64> {
    let mut context: BTreeMap<&str, Value> = BTreeMap::new();
    let mut attributes: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for (name, number) in numbers {
        match name.split_once('.') {
            Some((name, attribute)) => _ = attributes.entry(name).or_default().insert(attribute, *number),
            None => _ = context.insert(name, Value::from(*number)),
        }
    }
    let attributes = attributes.into_iter();
    context.extend(attributes.map(|(name, all)| (name, Value::from_serialize(all))));
    let value = evaluate(&ENVIRONMENT, "", expression, &Value::from_serialize(context)).ok()?;
    f64::try_from(value).ok().filter(|number| number.is_finite())
}

/// Whether an expression over factors holds.
pub(super) fn holds(place: &str, expression: &str, context: &Value) -> Result<bool, TemplateError> {
    evaluate(&CONDITIONS, place, expression, context).map(|value| value.is_true())
}

fn evaluate(
    environment: &Environment<'_>,
    place: &str,
    expression: &str,
    context: &Value,
) -> Result<Value, TemplateError> {
    let failed = |error: Error| TemplateError {
        place: place.to_owned(),
        message: words(&error),
    };
    environment
        .compile_expression_owned(expression.to_owned())
        .map_err(failed)?
        .eval(context)
        .map_err(failed)
}

/// Renders a value. A text that is exactly one expression keeps the expression's type.
pub(super) fn typed(place: &str, text: &str, context: &Value) -> Result<Value, TemplateError> {
    let Some(expression) = only_expression(text) else {
        return render(place, text, context).map(Value::from);
    };
    let value = evaluate(&ENVIRONMENT, place, expression, context)?;
    if value.is_undefined() {
        // Rendering reports the undefined name.
        return render(place, text, context).map(Value::from);
    }
    Ok(value)
}

fn only_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then_some(inner.trim())
}

/// Whether an argument is exactly `{{ listen }}`.
pub(super) fn is_listen(text: &str) -> bool {
    only_expression(text) == Some("listen")
}

/// A level as templates see it.
pub(super) fn value_of(level: &Level) -> Value {
    match level {
        Level::Bool(value) => Value::from(*value),
        Level::Int(value) => Value::from(*value),
        Level::Text(value) => Value::from(value.as_str()),
    }
}

/// A case as templates see it: its level of each factor that applies.
pub(super) fn levels_context(levels: &Levels) -> BTreeMap<String, Value> {
    levels
        .iter()
        .map(|(name, level)| (name.clone(), value_of(level)))
        .collect()
}

/// The context of templates that see only levels.
pub(super) fn of_levels(levels: &Levels) -> Value {
    Value::from(levels_context(levels))
}

/// A value with attributes that also prints as text: `{{ gunicorn }}` and `{{ gunicorn.port }}`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub text: String,
    pub attributes: BTreeMap<&'static str, Value>,
}

impl Object for Named {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.attributes.get(key.as_str()?).cloned()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    #[test]
    fn what_is_not_defined_is_an_error_with_its_line() {
        let error = render("nginx.conf.j2", "a\nb {{ prot }}\n", &context! { port => 1 }).unwrap_err();
        assert_eq!(error.place, "nginx.conf.j2:2");
        assert!(error.message.contains("prot"), "{error}");
    }

    #[test]
    fn a_condition_may_ask_for_what_does_not_apply() {
        let text = "{% if nodelay is defined and nodelay %}on{% else %}off{% endif %}";
        assert_eq!(render("x", text, &context! {}).unwrap(), "off");
        assert!(!holds("x", "nodelay == true", &context! {}).unwrap());
    }

    #[test]
    fn a_single_expression_keeps_its_type() {
        let context = context! { size => 64, on => true };
        assert_eq!(typed("x", "{{ size }}", &context).unwrap(), Value::from(64));
        assert_eq!(typed("x", "{{ on }}", &context).unwrap(), Value::from(true));
        assert_eq!(typed("x", "{{ size }}k", &context).unwrap(), Value::from("64k"));
        assert!(typed("x", "{{ sise }}", &context).is_err());
    }

    #[test]
    fn an_expression_makes_a_number_of_others() {
        let of = |text: &str| number(text, &[("time", 5.0), ("queries.time", 3.0), ("row", -2.0)]);
        assert_eq!(of("time - queries.time"), Some(2.0));
        assert_eq!(of("1 / row if row > 0"), None, "nothing else is said");
        assert_eq!(of("1 / (row + 2)"), None, "infinite");
        assert_eq!(of("time - rows.time"), None, "not known");
        let names = expression_names("1 / (time - queries.time) if time > 0").unwrap();
        assert_eq!(Vec::from_iter(names), ["queries.time", "time"]);
    }

    #[test]
    fn names_come_with_their_attributes() {
        let names = names("{% for i in range(3) %}{{ nginx.port }}{{ i }}{% endfor %}{{ size }}").unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["nginx.port", "size"]);
    }

    #[test]
    fn text_is_not_escaped() {
        assert_eq!(render("x.html", "{{ a }}", &context! { a => "<&>" }).unwrap(), "<&>");
    }

    #[test]
    fn a_template_without_end_is_an_error() {
        let turns = "{% for a in range(100000) %}";
        let nested = |inner: &str| format!("{}{inner}{}", turns.repeat(3), "{% endfor %}".repeat(3));
        for (text, why) in [
            (nested(""), "more than 1000000 steps"),
            (nested(&"x".repeat(100_000)), "more than 16 MiB"),
            ("{{ 'x' * 100000000000 }}".to_owned(), "too large"),
        ] {
            let error = render("x", &text, &context! {}).unwrap_err();
            assert!(error.message.contains(why), "{error}");
        }
        assert!(holds("x", "range(100000)|map('string')|list|length > 0", &context! {}).is_ok());
    }

    #[test]
    fn a_flaw_points_at_its_line() {
        let text = "first\n{% if %}\n";
        let flaw = names(text).unwrap_err();
        assert_eq!(text[..flaw.range.start].matches('\n').count(), 1);
    }
}
