//! Several requests in a file, in the format of editors that try out a server (`.http`). Such files are written by
//! hand, and editors can send each request alone. Features that only an editor has are refused with their line; no
//! request is sent that differs from its meaning in an editor.

use lasthop_protocol::{content::Content, http::BODY_MAX, several::REQUESTS_MAX};

use super::variables::Variables;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRequest {
    /// The line that the request begins on, from 1.
    pub line: usize,
    pub method: String,
    /// A path, or a URL.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Content,
    pub weight: u32,
    /// The expected status, if given.
    pub status: Option<u16>,
}

/// The part of a request that a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum RequestPart {
    Before,
    Head,
    Body,
    /// After a body, where an editor handles the reply.
    Behind,
    /// In a script that handles the reply.
    Script,
}

/// A line of a body.
struct Line<'a> {
    number: usize,
    text: &'a str,
}

/// The requests of a file. `read` returns the content of a file named in a body, up to the given number of bytes.
/// Random values of variables follow from `seed`.
pub fn parse(
    text: &str,
    seed: u64,
    read: impl Fn(&str, u64) -> Result<Vec<u8>, String>,
) -> Result<Vec<FileRequest>, String> {
    let mut variables = Variables::of(text, seed);
    // A limit on all bodies together, because a file may be named many times.
    let mut room = BODY_MAX;
    let mut requests: Vec<FileRequest> = Vec::new();
    let mut body: Vec<Line<'_>> = Vec::new();
    let mut part = RequestPart::Before;
    // Settings from comments for the next request.
    let mut weight = 1;
    let mut status = None;
    let mut end = |requests: &mut Vec<FileRequest>, lines: &mut Vec<Line<'_>>, variables: &mut Variables<'_>| {
        let lines = std::mem::take(lines);
        let Some(request) = requests.last_mut().filter(|_| !lines.is_empty()) else {
            return Ok::<(), String>(());
        };
        let whole = body_of(lines, &request.headers, variables, |name, number| {
            read(name, room).map_err(|cause| at(number, &cause))
        })?;
        let left = room.checked_sub(whole.len() as u64);
        room = left.ok_or_else(|| format!("the bodies of all requests are longer than {} MiB", BODY_MAX >> 20))?;
        request.body = Content(whole);
        Ok(())
    };
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| at(number, what);
        if line.starts_with("###") && part != RequestPart::Script {
            end(&mut requests, &mut body, &mut variables)?;
            part = RequestPart::Before;
            continue;
        }
        match part {
            RequestPart::Script => {
                if line.trim_end().ends_with("%}") {
                    part = RequestPart::Behind;
                }
            }
            RequestPart::Head | RequestPart::Body | RequestPart::Behind if handles(line) => {
                let is_open = line.starts_with("> {%") && !line.contains("%}");
                part = if is_open {
                    RequestPart::Script
                } else {
                    RequestPart::Behind
                };
            }
            RequestPart::Behind if !is_comment(line) && !line.trim().is_empty() => {
                return Err(wrong(
                    "a line behind what handles the reply; put `###` between two requests",
                ));
            }
            RequestPart::Behind => {}
            RequestPart::Body => {
                let is_blank = |line: &Line<'_>| line.text.trim().is_empty() || is_comment(line.text);
                if body.iter().all(is_blank) && begun(line).is_some() {
                    return Err(wrong("a request where a body may be; put `###` between two requests"));
                }
                body.push(Line { number, text: line });
            }
            _ if is_comment(line) => match line.trim_start().trim_start_matches(['#', '/', ' ']).split_once(' ') {
                Some(("@weight", value)) => weight = read_number(value, 1..=1_000_000).map_err(|text| wrong(&text))?,
                Some(("@status", value)) => {
                    status = Some(read_number(value, 200..=599).map_err(|text| wrong(&text))? as u16);
                }
                _ => {}
            },
            RequestPart::Head if line.trim().is_empty() => part = RequestPart::Body,
            RequestPart::Before if line.trim().is_empty() || defined(line).is_some() => {}
            RequestPart::Before | RequestPart::Head => {
                if line.starts_with("< {%") {
                    return Err(wrong("a script before a request cannot be run"));
                }
                let shown = variables.rendered(line, number)?;
                let last = requests.last_mut().filter(|_| part == RequestPart::Head);
                let is_rest = |request: &FileRequest| request.headers.is_empty() && continues(line);
                if let Some(request) = last.filter(|request| is_rest(request)) {
                    let words: Vec<&str> = shown.split_whitespace().collect();
                    let rest = match words[..] {
                        [rest] => rest,
                        [rest, version] if version.starts_with("HTTP/") => rest,
                        _ => return Err(wrong("a blank within a target: write `%20`")),
                    };
                    request.target.push_str(rest);
                } else if let Some((method, target)) = begun(&shown) {
                    if requests.len() == REQUESTS_MAX {
                        return Err(wrong(&format!("there are more than {REQUESTS_MAX} requests")));
                    }
                    if UNLIKE_HTTP.contains(&method) {
                        return Err(wrong(&format!(
                            "a request of {method} cannot be sent, only those of HTTP"
                        )));
                    }
                    part = RequestPart::Head;
                    requests.push(FileRequest {
                        line: number,
                        method: method.to_owned(),
                        target: target.to_owned(),
                        headers: Vec::new(),
                        body: Content::default(),
                        weight: std::mem::replace(&mut weight, 1),
                        status: status.take(),
                    });
                } else {
                    let request = requests.last_mut().filter(|_| part == RequestPart::Head);
                    let (request, header) = request.zip(header(&shown)).ok_or_else(|| wrong(EXPECTED))?;
                    request.headers.push(header);
                }
            }
        }
    }
    if part == RequestPart::Script {
        return Err("the script at the end of the file has no end (`%}`)".to_owned());
    }
    end(&mut requests, &mut body, &mut variables)?;
    if requests.is_empty() {
        return Err("there is no request in it".to_owned());
    }
    Ok(requests)
}

const EXPECTED: &str = "expected `METHOD /path`, `/path` or, below one, `Name: value`";

/// Words that editors accept instead of a method, for requests other than HTTP.
const UNLIKE_HTTP: [&str; 4] = ["GRAPHQL", "GRPC", "RSOCKET", "WEBSOCKET"];

/// The text of an error on a line.
pub fn at(number: usize, what: &str) -> String {
    format!("line {number}: {what}")
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('#') || line.starts_with("//")
}

/// Name and value of `@name = value`.
pub fn defined(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim_start().strip_prefix('@')?.split_once('=')?;
    let name = name.trim_end();
    (!name.is_empty() && !name.contains(char::is_whitespace)).then(|| (name, value.trim()))
}

/// Whether a line tells an editor what to do with the reply: run a script, write or compare a file, or check a
/// condition.
fn handles(line: &str) -> bool {
    let is_file = |name: &str| [".js", ".mjs", ".cjs", ".ts"].iter().any(|end| name.ends_with(end));
    let is_script = line
        .strip_prefix("> ")
        .is_some_and(|rest| rest.starts_with("{%") || is_file(rest.trim_end()));
    is_script
        || [">> ", ">>! ", "<> ", "?? "]
            .iter()
            .any(|start| line.starts_with(start))
}

/// Whether a line continues the target above, as editors write long queries.
fn continues(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with(['?', '&']) || (text.len() < line.len() && text.starts_with('/'))
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = name.trim();
    // `http://…` begins no header: it is a URL, followed by other words in some lists.
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !value.starts_with("//");
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}

/// The body made from these lines, without empty ones at the end.
fn body_of(
    mut lines: Vec<Line<'_>>,
    headers: &[(String, String)],
    variables: &mut Variables<'_>,
    read: impl Fn(&str, usize) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    let is_empty = |line: &Line<'_>| line.text.trim().is_empty();
    // Comments between the body and the next request belong to the next request.
    let content = lines.iter().rposition(|line| !is_empty(line) && !is_comment(line.text));
    let content = content.map_or(0, |last| last + 1);
    if content == 0 || lines.get(content).is_some_and(is_empty) {
        let told = |line: &Line<'_>| {
            is_comment(line.text) && ["@weight ", "@status "].iter().any(|word| line.text.contains(word))
        };
        if let Some(line) = lines[content..].iter().find(|line| told(line)) {
            return Err(at(
                line.number,
                "put this comment below the `###` of the request that it is about",
            ));
        }
        lines.truncate(content);
    }
    if let Some(line) = lines.iter().find(|line| is_comment(line.text)) {
        let text = "a comment in a body, which not every editor leaves out: put the body into a file (`< FILE`)";
        return Err(at(line.number, text));
    }
    if let Some(line) = lines.iter().find(|line| defined(line.text).is_some()) {
        return Err(at(line.number, "a variable where a body may be; put `###` before it"));
    }
    let is_of = |name: &str, media: &str| {
        headers
            .iter()
            .any(|(given, value)| given.eq_ignore_ascii_case(name) && value.to_ascii_lowercase().starts_with(media))
    };
    if is_of("x-request-type", "graphql") {
        return Err(at(
            lines.first().map_or(0, |line| line.number),
            "a query of GraphQL: write the JSON that it stands for",
        ));
    }
    let is_multipart = is_of("content-type", "multipart/");
    let is_form = is_of("content-type", "application/x-www-form-urlencoded");
    let mut body: Vec<u8> = Vec::new();
    let mut ended_in_file = false;
    for (index, line) in lines.iter().enumerate() {
        let Line { number, text } = *line;
        if is_form && index > 0 && !body.ends_with(b"&") && !text.trim_start().starts_with('&') {
            return Err(at(
                number,
                "a line of a form neither begins with `&` nor follows one that ends with it",
            ));
        }
        if index > 0 {
            // Parts of a body end in CR LF (RFC 2046, 4.1.1), and a form has no lines.
            body.extend_from_slice(if is_multipart {
                b"\r\n"
            } else if is_form {
                b""
            } else {
                b"\n"
            });
        }
        ended_in_file = false;
        if let Some(name) = text.strip_prefix("< ") {
            let name = variables.rendered(name.trim(), number)?;
            body.extend(read(&name, number)?);
            ended_in_file = true;
        } else if let Some((encoding, name)) = text.strip_prefix("<@").and_then(|rest| rest.split_once(' ')) {
            if !["", "utf8", "utf-8"].contains(&encoding) {
                return Err(at(
                    number,
                    &format!("the encoding `{encoding}` is not supported, only UTF-8"),
                ));
            }
            let name = variables.rendered(name.trim(), number)?;
            let text = String::from_utf8(read(&name, number)?)
                .map_err(|_| at(number, &format!("{name} is not UTF-8; `< {name}` sends its bytes")))?;
            body.extend(variables.rendered(&text, number)?.into_bytes());
            ended_in_file = true;
        } else {
            let shown = variables.rendered(text, number)?;
            body.extend(if is_form { form(&shown) } else { shown }.into_bytes());
        }
    }
    // The content of a file is sent unchanged.
    while !ended_in_file && matches!(body.last(), Some(b'\r' | b'\n')) {
        body.pop();
    }
    if is_multipart && !body.is_empty() {
        body.extend_from_slice(b"\r\n");
    }
    Ok(body)
}

/// A line of a form without blanks for readability. Blanks in values are encoded.
fn form(line: &str) -> String {
    let pairs = line.split('&').map(|pair| {
        let parts: Vec<&str> = pair.splitn(2, '=').map(str::trim).collect();
        parts.join("=")
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Method and target, if a line begins a request.
fn begun(line: &str) -> Option<(&str, &str)> {
    let is_url = |word: &str| {
        let scheme = word.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        scheme.is_some_and(|scheme| scheme == "http" || scheme == "https")
    };
    let is_target = |word: &str| word.starts_with('/') || is_url(word);
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

    fn parsed(text: &str) -> Result<Vec<FileRequest>, String> {
        parse(text, 1, |file, _| match file {
            "missing" => Err("cannot read the body missing: No such file".to_owned()),
            "image.png" => Ok(b"\x89PNG\r\n\xff\n".to_vec()),
            "named" => Ok(b"{{name}} in a file\n".to_vec()),
            _ => Ok(format!("<{file}>").into_bytes()),
        })
    }

    #[test]
    fn requests_are_read_as_editors_write_them() {
        let text = "# a comment\n# @weight 3\nGET /users?page=2 HTTP/1.1\nAccept: application/json\nX-A:b:c\n\n\
                    ### the next one\n// @status 201\nPOST http://h:1/users\n\n{\"a\":\n\n1}\n\n###\n###\n\
                    PUT /file\n\n< ./body.json\n";
        let all = parsed(text).unwrap();
        let short = |one: &FileRequest| {
            (
                one.method.clone(),
                one.target.clone(),
                String::from_utf8(one.body.to_vec()).unwrap(),
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

    /// Target and body of each request.
    fn short(text: &str) -> Vec<(String, Vec<u8>)> {
        let all = parsed(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        all.into_iter().map(|one| (one.target, one.body.0)).collect()
    }

    #[test]
    fn variables_are_put_in_wherever_they_are() {
        let text = "@base = http://h:1\n@name = Ann\n\n### first\nPOST {{base}}/users\nX-Name: {{name}}\n\n{\"a\": \"{{name}}\"}\n\
                    ###\nPUT {{base}}/named\n\n<@ named\n### raw\nPUT {{base}}/raw\n\n< named\n";
        let all = parsed(text).unwrap();
        assert_eq!(all[0].headers, [("X-Name".to_owned(), "Ann".to_owned())]);
        let pair = |target: &str, body: &str| (target.to_owned(), body.as_bytes().to_vec());
        assert_eq!(
            short(text),
            [
                pair("http://h:1/users", r#"{"a": "Ann"}"#),
                pair("http://h:1/named", "Ann in a file\n"),
                pair("http://h:1/raw", "{{name}} in a file\n"),
            ]
        );
    }

    #[test]
    fn a_query_may_go_on_in_further_lines() {
        let text =
            "GET /search\n    ?q=one\n    # a comment\n    &page=2\nAccept: x\n###\nGET http://h\n  /a\n  /b HTTP\n";
        let error = parsed(text).unwrap_err();
        assert!(error.starts_with("line 9: "), "{error}");
        let text = text.replace(" HTTP", "\n?c=d");
        assert_eq!(
            short(&text).into_iter().map(|one| one.0).collect::<Vec<_>>(),
            ["/search?q=one&page=2", "http://h/a/b?c=d"]
        );
    }

    #[test]
    fn files_are_sent_as_they_are_also_within_parts() {
        let text = "POST /upload\nContent-Type: multipart/form-data; boundary=B\n\n--B\nContent-Disposition: form-data; \
                    name=\"f\"; filename=\"image.png\"\n\n< image.png\n--B--\n\n###\nPUT /\n\n< image.png\n";
        let image = b"\x89PNG\r\n\xff\n";
        let before = b"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"image.png\"\r\n\r\n";
        assert_eq!(
            short(text),
            [
                ("/upload".to_owned(), [&before[..], image, b"\r\n--B--\r\n"].concat()),
                ("/".to_owned(), image.to_vec()),
            ]
        );
    }

    #[test]
    fn a_form_is_one_line() {
        let head = "POST /\ncontent-type: application/x-www-form-urlencoded\n\n";
        for form in ["name=a=b\n&pass=c\n", "name = a=b &\npass = c\n", "name=a=b&pass=c"] {
            assert_eq!(short(&format!("{head}{form}"))[0].1, b"name=a=b&pass=c", "{form}");
        }
    }

    #[test]
    fn what_handles_a_reply_is_not_sent() {
        let text = "GET /a\n\n> {%\n  client.test(\"x\", () => {})\n  ### no request\n%}\n\n###\nPOST /b\n\n{}\n\n\
                    > ./check.js\n?? status == 200\n> a.mjs\n>> out.json\n<> a.200.json\n# a comment\n### \nPOST /c\n\nx\n\n# a comment\n// another\n\
                    ###\nPOST /d\n\n> a quote\n### e\nGET /e\n> {% client.log(1) %}\n";
        let pair = |target: &str, body: &str| (target.to_owned(), body.as_bytes().to_vec());
        assert_eq!(
            short(text),
            [
                pair("/a", ""),
                pair("/b", "{}"),
                pair("/c", "x"),
                pair("/d", "> a quote"),
                pair("/e", "")
            ]
        );
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
        // Each of these bodies has half of the common limit.
        let half = |_: &str, room: u64| {
            assert!(room <= BODY_MAX);
            Ok(vec![b'x'; BODY_MAX as usize / 2])
        };
        let named = "PUT /\n\n< body\n###\n";
        assert!(parse(&named.repeat(2), 1, half).is_ok());
        let error = parse(&named.repeat(3), 1, half).unwrap_err();
        assert_eq!(error, "the bodies of all requests are longer than 64 MiB");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, wanted) in [
            ("", "no request"),
            ("get /\n", "line 1: expected `METHOD /path`"),
            ("GET /\nno colon\n", "line 2: expected"),
            ("Accept: x\nGET /\n", "line 1: expected"),
            ("GET /{{name}}\n", "line 1: the variable `name` has no value"),
            (
                "POST /\n\n{\"a\": {{token}}}\n",
                "line 3: the variable `token` has no value",
            ),
            ("POST /\n\n< missing\n", "line 3: cannot read the body missing"),
            ("http://h/a\nhttp://h/b POST x=1\n", "line 2: expected `METHOD /path`"),
            ("< {% client.log() %}\nGET /\n", "line 1: a script before a request"),
            ("GRAPHQL http://h/\n", "line 1: a request of GRAPHQL"),
            (
                "POST /\nX-REQUEST-TYPE: GraphQL\n\nquery { a }\n",
                "line 4: a query of GraphQL",
            ),
            ("POST /\n\n{\n// a\n}\n", "line 4: a comment in a body"),
            (
                "POST /\n\n{}\n\n# @weight 2\n###\nGET /\n",
                "line 5: put this comment below the `###`",
            ),
            ("POST /\n\n{}\n@a = 1\n", "line 4: a variable where a body may be"),
            ("POST /\n\n<@latin1 file\n", "line 3: the encoding `latin1`"),
            ("POST /\n\n<@ image.png\n", "line 3: image.png is not UTF-8"),
            (
                "POST /\nContent-Type: application/x-www-form-urlencoded\n\na=1\nb=2\n",
                "line 5: a line of a form",
            ),
            (
                "GET /\n\n> {% a %}\nGET /b\n",
                "line 4: a line behind what handles the reply",
            ),
            ("GET /\n\n> {%\n a\n", "the script at the end of the file has no end"),
            ("/a\n\n/b\n", "line 3: a request where a body may be"),
            ("# @weight 0\n/a\n", "line 1: `0` is not a number from 1 to 1000000"),
            ("# @status 99\n/a\n", "line 1: `99` is not"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
    }
}
