//! Replies as JSON: fixed and changing values in a fixed form.

use super::{Alike, PartKind};

/// Maximum depth; deeper documents do not count as JSON.
const DEPTH_MAX: u32 = 64;

/// A value and the bytes around it.
struct Node<'a> {
    text: &'a [u8],
    inner: Inner<'a>,
}

enum Inner<'a> {
    String,
    Number,
    /// `true`, `false` or `null`.
    Word,
    /// An object or a list: the bytes before each value, including keys, and the bytes after the last value.
    Within {
        between: Vec<&'a [u8]>,
        values: Vec<Node<'a>>,
    },
}

/// Reads JSON values.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self
            .peek()
            .is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        {
            self.at += 1;
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        self.at += string(&self.bytes[self.at..])? + 1;
        Some(())
    }

    fn value(&mut self, depth: u32) -> Option<Node<'a>> {
        let from = self.at;
        let inner = match self.peek()? {
            b'"' => {
                self.skip_string()?;
                Inner::String
            }
            open @ (b'{' | b'[') if depth < DEPTH_MAX => self.within(open, depth)?,
            _ => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = self.bytes[from..].iter().take_while(|byte| is_part(byte)).count();
                let word = &self.bytes[from..from + length];
                self.at += length;
                if matches!(word, b"true" | b"false" | b"null") {
                    Inner::Word
                } else {
                    let text = std::str::from_utf8(word).ok()?;
                    let is_number = begins_number(word) && text.parse::<f64>().is_ok();
                    is_number.then_some(Inner::Number)?
                }
            }
        };
        let text = &self.bytes[from..self.at];
        Some(Node { text, inner })
    }

    fn within(&mut self, open: u8, depth: u32) -> Option<Inner<'a>> {
        let close = if open == b'{' { b'}' } else { b']' };
        let (mut between, mut values) = (Vec::new(), Vec::new());
        let mut from = self.at;
        self.at += 1;
        self.skip_space();
        if self.peek()? != close {
            loop {
                self.skip_space();
                if open == b'{' {
                    (self.peek()? == b'"').then_some(())?;
                    self.skip_string()?;
                    self.skip_space();
                    (self.peek()? == b':').then_some(())?;
                    self.at += 1;
                    self.skip_space();
                }
                between.push(&self.bytes[from..self.at]);
                values.push(self.value(depth + 1)?);
                from = self.at;
                self.skip_space();
                match self.peek()? {
                    b',' => self.at += 1,
                    byte if byte == close => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        between.push(&self.bytes[from..self.at]);
        Some(Inner::Within { between, values })
    }
}

/// Length of a string, given the bytes after its first quotation mark; without the second mark.
pub fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            0..=0x1f => return None,
            _ => at += 1,
        }
    }
}

/// Length of the value that `bytes` begin with.
pub fn value(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader { bytes, at: 0 };
    reader.value(0)?;
    Some(reader.at)
}

pub fn begins_number(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

/// A complete object or list, with white space around it.
fn document(bytes: &[u8]) -> Option<(usize, Node<'_>)> {
    let mut reader = Reader { bytes, at: 0 };
    reader.skip_space();
    let from = reader.at;
    reader.peek().filter(|byte| matches!(byte, b'{' | b'['))?;
    let node = reader.value(0)?;
    reader.skip_space();
    (reader.at == bytes.len()).then_some((from, node))
}

/// The form of a document, without its values.
pub fn skeleton(bytes: &[u8]) -> Option<Vec<u8>> {
    fn add(node: &Node<'_>, to: &mut Vec<u8>) {
        let Inner::Within { between, values } = &node.inner else {
            return;
        };
        let mut values = values.iter();
        for text in between {
            to.extend_from_slice(text);
            if let Some(value) = values.next() {
                add(value, to);
            }
        }
    }
    let mut skeleton = Vec::new();
    add(&document(bytes)?.1, &mut skeleton);
    Some(skeleton)
}

/// The common content of documents.
pub fn common(replies: &[&[u8]]) -> Option<Alike> {
    let read: Option<Vec<_>> = replies.iter().map(|reply| document(reply)).collect();
    let read = read?;
    let before: Vec<&[u8]> = replies
        .iter()
        .zip(&read)
        .map(|(reply, (from, _))| &reply[..*from])
        .collect();
    let after = |(reply, (from, node)): (&&'_ [u8], &(usize, Node<'_>))| reply.len() - from - node.text.len();
    let after: Vec<usize> = replies.iter().zip(&read).map(after).collect();
    let ends: Vec<&[u8]> = replies
        .iter()
        .zip(&after)
        .map(|(reply, length)| &reply[reply.len() - length..])
        .collect();
    let is_same = |texts: &[&[u8]]| texts.iter().all(|text| *text == texts[0]);
    if !is_same(&before) || !is_same(&ends) {
        return None;
    }
    let nodes: Vec<&Node<'_>> = read.iter().map(|(_, node)| node).collect();
    let mut alike = Alike::default();
    alike.text(before[0]);
    add(&mut alike, &nodes);
    alike.text(ends[0]);
    Some(alike)
}

fn add(alike: &mut Alike, nodes: &[&Node<'_>]) {
    let first = nodes[0];
    let all = |is: fn(&Node<'_>) -> bool| nodes.iter().all(|node| is(node));
    if nodes.iter().all(|node| node.text == first.text) {
        return alike.text(first.text);
    }
    if all(|node| matches!(node.inner, Inner::String)) {
        alike.text(b"\"");
        alike.part(
            PartKind::String,
            nodes.iter().map(|node| &node.text[1..node.text.len() - 1]),
        );
        return alike.text(b"\"");
    }
    if let Some((between, values)) = alike_within(nodes) {
        for (index, text) in between.iter().enumerate() {
            alike.text(text);
            if let Some(values) = values.get(index) {
                add(alike, values);
            }
        }
        return;
    }
    let kind = match first.text[0] {
        b'{' if all(|node| node.text[0] == b'{') => PartKind::Object,
        b'[' if all(|node| node.text[0] == b'[') => PartKind::List,
        _ if all(|node| matches!(node.inner, Inner::Number)) => PartKind::Number,
        _ => PartKind::Value,
    };
    alike.part(kind, nodes.iter().map(|node| node.text));
}

type Within<'a, 'n> = (&'n [&'a [u8]], Vec<Vec<&'n Node<'a>>>);

/// The bytes between the values of objects or lists of one form, and the values by place.
fn alike_within<'a, 'n>(nodes: &[&'n Node<'a>]) -> Option<Within<'a, 'n>> {
    let parts = |node: &'n Node<'a>| match &node.inner {
        Inner::Within { between, values } => Some((between, values)),
        _ => None,
    };
    let parts: Option<Vec<_>> = nodes.iter().map(|node| parts(node)).collect();
    let parts = parts?;
    let (between, values) = parts[0];
    let is_same = parts.iter().all(|(other, _)| *other == between);
    let by_place = |place| parts.iter().map(|(_, values)| &values[place]).collect();
    is_same.then(|| (&between[..], (0..values.len()).map(by_place).collect()))
}
