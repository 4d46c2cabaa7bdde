//! Values of options that are nobody else's business.

use std::path::PathBuf;

/// `RECIPE=PATH`
pub fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((recipe, path)) if !recipe.is_empty() && !path.is_empty() => Ok((recipe.to_owned(), PathBuf::from(path))),
        _ => Err("expected RECIPE=PATH, for example nginx=/opt/nginx/sbin/nginx".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_recipe_and_path() {
        assert_eq!(program("nginx=/x").unwrap(), ("nginx".to_owned(), PathBuf::from("/x")));
        assert!(program("nginx").is_err());
        assert!(program("=x").is_err());
    }
}
