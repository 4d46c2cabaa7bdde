//! The part of a configuration that is worth copying: some of its blocks in braces.

use lasthop_model::quantity::joined;

/// The blocks that begin with one of these words; the whole text where there is none.
pub fn excerpt(text: &str, words: &[String]) -> String {
    let mut blocks = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if !words
            .iter()
            .filter_map(|word| code.strip_prefix(word.as_str()))
            .any(|rest| rest.starts_with([' ', '{']))
        {
            continue;
        }
        let indent = line.len() - code.len();
        let mut block = vec![line];
        let mut depth = depth_of(line);
        while depth > 0 {
            let Some(next) = lines.next() else { break };
            depth += depth_of(next);
            block.push(next);
        }
        let kept = block.iter().filter(|line| !line.trim().is_empty()).map(|line| {
            let inner = line.get(indent..).filter(|_| line[..indent].trim().is_empty());
            inner.unwrap_or(line)
        });
        blocks.push(joined(kept, "\n"));
    }
    if blocks.is_empty() {
        text.to_owned()
    } else {
        format!("{}\n", blocks.join("\n\n"))
    }
}

/// Braces opened less braces closed, comments aside.
fn depth_of(line: &str) -> i32 {
    let code = line.split(" #").next().unwrap_or_default();
    code.chars()
        .map(|character| i32::from(character == '{') - i32::from(character == '}'))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_the_link_is_kept() {
        let text = "http {\n    access_log off;\n    upstream application {\n        server unix:/x;  # }\n        keepalive 32;\n    }\n\
                    \n    server {\n        listen 80;\n        location / {\n            proxy_pass http://application;\n        }\n    }\n}\n";
        let wanted = "upstream application {\n    server unix:/x;  # }\n    keepalive 32;\n}\n\nlocation / {\n    proxy_pass \
                      http://application;\n}\n";
        let words = ["upstream".to_owned(), "location".to_owned()];
        assert_eq!(excerpt(text, &words), wanted);
        assert_eq!(excerpt("events {}\n", &words), "events {}\n");
    }
}
