//! Completions that a shell loads.

use std::{path::Path, process::Command};

use crate::common::{have, needs};

#[test]
fn bash_completes_commands_and_options() {
    needs!(have("bash"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/completions/lasthop.bash");
    let script = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _lasthop lasthop \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                  echo \"${COMPREPLY[*]}\"";
    for (words, completed) in [
        (&["lasthop", "surv"][..], "survey"),
        (&["lasthop", "run", "--prec"], "--precision"),
        (&["lasthop", "report", "--format", "mark"], "markdown"),
    ] {
        let output = Command::new("bash")
            .arg("-c")
            .arg(script)
            .arg(&file)
            .args(words)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), completed, "{output:?}");
    }
}
