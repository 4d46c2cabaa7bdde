//! Several requests in a file, as editors have them to try a server (`.http`): they are written by hand, and each can be
//! sent alone from there.

use lasthop_protocol::{http::BODY_MAX, several::REQUESTS_MAX};

/// A request of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// A path, or a URL.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub weight: u32,
    /// The status that is right, where it is said.
    pub status: Option<u16>,
}

/// Where in a request a line is.
enum Part {
    Before,
    Head,
    Body,
}

/// The requests of a file. `read` gives the text of a file that is named in the place of a body, and is told how many bytes it
/// may have.
pub fn parse(text: &str, read: impl Fn(&str, u64) -> Result<String, String>) -> Result<Vec<Asked>, String> {
    let mut asked: Vec<Asked> = Vec::new();
    let mut part = Part::Before;
    // What comments say of the next request.
    let mut weight = 1;
    let mut status = None;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("line {number}: {what}");
        let is_comment = line.starts_with('#') || line.starts_with("//");
        if line.starts_with("###") {
            part = Part::Before;
            continue;
        }
        match (&part, asked.last_mut()) {
            (Part::Body, Some(request)) => {
                if request.body.is_empty() && begun(line).is_some() {
                    return Err(wrong("a request where a body may be; put `###` between two requests"));
                }
                request.body.push_str(line);
                request.body.push('\n');
            }
            _ if is_comment => match line.trim_start_matches(['#', '/', ' ']).split_once(' ') {
                Some(("@weight", value)) => weight = read_number(value, 1..=1_000_000).map_err(|text| wrong(&text))?,
                Some(("@status", value)) => {
                    status = Some(read_number(value, 200..=599).map_err(|text| wrong(&text))? as u16);
                }
                _ => {}
            },
            (Part::Head, Some(_)) if line.trim().is_empty() => part = Part::Body,
            (Part::Before, _) if line.trim().is_empty() => {}
            (previous, last) => {
                if line.contains("{{") {
                    return Err(wrong("variables (`{{…}}`) cannot be used"));
                }
                if let Some((method, target)) = begun(line) {
                    if asked.len() == REQUESTS_MAX {
                        return Err(wrong(&format!("there are more than {REQUESTS_MAX} requests")));
                    }
                    part = Part::Head;
                    asked.push(Asked {
                        method: method.to_owned(),
                        target: target.to_owned(),
                        headers: Vec::new(),
                        body: String::new(),
                        weight: std::mem::replace(&mut weight, 1),
                        status: status.take(),
                    });
                } else if let (Part::Head, Some(request), Some((name, value))) = (previous, last, line.split_once(':'))
                {
                    request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
                } else {
                    return Err(wrong("expected `METHOD /path`, `/path` or, below one, `Name: value`"));
                }
            }
        }
    }
    // Together, because a file may be named many times.
    let mut room = BODY_MAX;
    for request in &mut asked {
        let body = request.body.trim_end_matches(['\r', '\n']);
        match body.strip_prefix("< ") {
            Some(file) => request.body = read(file.trim(), room)?,
            None => request.body.truncate(body.len()),
        }
        let left = room.checked_sub(request.body.len() as u64);
        room = left.ok_or_else(|| format!("the bodies of all requests are longer than {} MiB", BODY_MAX >> 20))?;
    }
    if asked.is_empty() {
        return Err("there is no request in it".to_owned());
    }
    Ok(asked)
}

/// Method and target of a line that begins a request.
fn begun(line: &str) -> Option<(&str, &str)> {
    let is_target = |word: &str| word.starts_with('/') || word.starts_with("http://") || word.starts_with("https://");
    let is_method = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [target] if is_target(target) => Some(("GET", target)),
        [method, target] if is_method(method) && is_target(target) => Some((method, target)),
        [method, target, version] if is_method(method) && is_target(target) && version.starts_with("HTTP/") => {
            Some((method, target))
        }
        _ => None,
    }
}

fn read_number(text: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Asked>, String> {
        parse(text, |file, _| Ok(format!("<{file}>")))
    }

    #[test]
    fn requests_are_read_as_editors_write_them() {
        let text = "# a comment\n# @weight 3\nGET /users?page=2 HTTP/1.1\nAccept: application/json\nX-A:b:c\n\n\
                    ### the next one\n// @status 201\nPOST http://h:1/users\n\n{\"a\":\n\n1}\n\n###\n###\n\
                    PUT /file\n\n< ./body.json\n";
        let all = parsed(text).unwrap();
        let short = |one: &Asked| {
            (
                one.method.clone(),
                one.target.clone(),
                one.body.clone(),
                one.weight,
                one.status,
            )
        };
        let as_text = |method: &str, target: &str, body: &str, weight, status| {
            (method.to_owned(), target.to_owned(), body.to_owned(), weight, status)
        };
        assert_eq!(
            all.iter().map(short).collect::<Vec<_>>(),
            [
                as_text("GET", "/users?page=2", "", 3, None),
                as_text("POST", "http://h:1/users", "{\"a\":\n\n1}", 1, Some(201)),
                as_text("PUT", "/file", "<./body.json>", 1, None),
            ]
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(all[0].headers, [pair("Accept", "application/json"), pair("X-A", "b:c")]);
    }

    #[test]
    fn a_list_of_paths_is_enough() {
        let all = parsed("/a\n# @weight 2\n/b\nHEAD /c\n").unwrap();
        let short: Vec<_> = all
            .iter()
            .map(|one| (one.method.as_str(), one.target.as_str(), one.weight))
            .collect();
        assert_eq!(short, [("GET", "/a", 1), ("GET", "/b", 2), ("HEAD", "/c", 1)]);
    }

    #[test]
    fn there_are_no_more_requests_and_bodies_than_a_load_takes() {
        assert_eq!(parsed(&"/a\n".repeat(REQUESTS_MAX)).unwrap().len(), REQUESTS_MAX);
        let error = parsed(&"/a\n".repeat(REQUESTS_MAX + 1)).unwrap_err();
        assert_eq!(error, "line 100001: there are more than 100000 requests");
        // Each of these has half of the room that all have together.
        let half = |_: &str, room: u64| {
            assert!(room <= BODY_MAX);
            Ok("x".repeat(BODY_MAX as usize / 2))
        };
        let named = "PUT /\n\n< body\n###\n";
        assert!(parse(&named.repeat(2), half).is_ok());
        let error = parse(&named.repeat(3), half).unwrap_err();
        assert_eq!(error, "the bodies of all requests are longer than 64 MiB");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, wanted) in [
            ("", "no request"),
            ("get /\n", "line 1: expected `METHOD /path`"),
            ("GET /\nno colon\n", "line 2: expected"),
            ("Accept: x\nGET /\n", "line 1: expected"),
            ("GET /{{name}}\n", "line 1: variables"),
            ("/a\n\n/b\n", "line 3: a request where a body may be"),
            ("# @weight 0\n/a\n", "line 1: `0` is not a number from 1 to 1000000"),
            ("# @status 99\n/a\n", "line 1: `99` is not"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
    }
}
