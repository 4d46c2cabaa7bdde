//! The pair of links between lasthop's network namespace and that of a run. It is named after the sandbox, so that a
//! cleanup finds it.

use std::path::Path;

use lasthop_system::{interrupt, namespace::ip};

/// Name of the file in a sandbox that marks a run with such a pair.
pub const RECORD: &str = "veth";

/// Removes the pair of the run with this sandbox, if there is one. Returns whether it existed.
pub fn remove(sandbox: &Path) -> bool {
    let _shield = interrupt::shield();
    sandbox.join(RECORD).exists() && ip(None, &["link", "delete", &link_name(sandbox)]).is_ok()
}

/// Name of the outer link: `lh-abcdef` for the sandbox `lasthop-abcdef`, because names of links have at most 15 bytes.
pub fn link_name(sandbox: &Path) -> String {
    let name = sandbox.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "lh-{}",
        name.rsplit('-')
            .next()
            .unwrap_or_default()
            .chars()
            .take(12)
            .collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_named_by_the_sandbox() {
        assert_eq!(link_name(Path::new("/tmp/lasthop-abcdef")), "lh-abcdef");
    }
}
