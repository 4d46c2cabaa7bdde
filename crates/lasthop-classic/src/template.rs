//! Templates and expressions of tools: minijinja, where printing an undefined name is an error.

use std::{collections::BTreeMap, sync::LazyLock};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter, value::ValueKind,
};

/// Variables of templates and expressions.
pub type Names = BTreeMap<String, Value>;

/// Name of the template of a command line, which quotes each printed value, because a value is one word.
pub const COMMAND_LINE: &str = "arguments";

pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_keep_trailing_newline(true);
    environment.set_auto_escape_callback(|name| match name {
        COMMAND_LINE => AutoEscape::Custom(COMMAND_LINE),
        _ => AutoEscape::None,
    });
    environment.set_formatter(|output, state, value| match state.auto_escape() {
        // Missing values print nothing.
        _ if value.is_undefined() || value.is_none() => Ok(()),
        AutoEscape::Custom(_) => output.write_str(&quoted(value)?).map_err(Error::from),
        _ => escape_formatter(output, state, value),
    });
    environment
});

/// A value as a word of a command line; a list as several words.
fn quoted(value: &Value) -> Result<String, Error> {
    let words = if value.kind() == ValueKind::Seq {
        value.try_iter()?.map(|word| word.to_string()).collect()
    } else {
        vec![value.to_string()]
    };
    shlex::try_join(words.iter().map(String::as_str))
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

fn words(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

/// Renders a template.
pub fn render(name: &str, text: &str, names: &Names) -> Result<String, String> {
    ENVIRONMENT
        .render_named_str(name, text, names)
        .map_err(|error| words(&error))
}

/// The value of an expression.
pub fn evaluate(text: &str, names: &Names) -> Result<Value, String> {
    let read = ENVIRONMENT.compile_expression(text);
    read.and_then(|expression| expression.eval(names))
        .map_err(|error| words(&error))
}
