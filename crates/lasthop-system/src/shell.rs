//! Words for a POSIX shell.

/// Any text as one word for a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;
    use crate::command;

    #[test]
    fn quoted_text_is_one_word_for_a_shell() {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("printf %s {}", quoted("a 'b' $c\n"))]);
        assert_eq!(
            command::run(command, Duration::from_secs(10), command::Life::Bound)
                .unwrap()
                .output,
            "a 'b' $c\n"
        );
        assert_eq!(quoted("daemon off; 100%"), "'daemon off; 100%'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
