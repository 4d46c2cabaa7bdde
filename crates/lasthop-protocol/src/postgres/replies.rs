//! Replies on one connection.

use std::rc::Rc;

use lasthop_trial::failure::Failure;

use super::{
    login::Login,
    message::{Framer, Requests, is_notice, server_error, unexpected},
    result::{BETWEEN_TAGS, first_column},
};
use crate::{check::BodyCheck, checked::Replies, exchange::excerpt, statement::first_is};

pub struct PostgresReplies {
    requests: Rc<Requests>,
    login: Login,
    framer: Framer,
    rows: u64,
    /// Bytes of the expected command tags received.
    tagged: usize,
    reply: BodyCheck,
    fault: Option<Failure>,
}

impl PostgresReplies {
    pub fn new(requests: Rc<Requests>) -> Self {
        Self {
            requests,
            login: Login::default(),
            framer: Framer::default(),
            rows: 0,
            tagged: 0,
            reply: BodyCheck::default(),
            fault: None,
        }
    }

    /// Acts on a complete message of a reply; true at the end of the reply.
    fn take_message(&mut self) -> Result<bool, Failure> {
        match self.framer.kind() {
            b'D' => {
                if self.rows == 0 {
                    self.check_first();
                }
                self.rows += 1;
            }
            // An error does not end the reply: the server still reports that it is ready.
            b'E' => self.blame(server_error("query", &self.framer.body)),
            b'C' => self.check_tag(),
            b'Z' => return Ok(true),
            // Descriptions, notices, settings, notifications, and the steps of the extended form.
            b'T' | b'N' | b'S' | b'A' | b'1' | b'2' | b'3' | b'n' | b't' | b's' | b'I' => {}
            other => return Err(unexpected(other)),
        }
        Ok(false)
    }

    /// Keeps the first failure of a reply.
    fn blame(&mut self, failure: Failure) {
        self.fault.get_or_insert(failure);
    }

    fn check_first(&mut self) {
        let expect = &self.requests.spec.expect;
        if !expect.reads_first() {
            return;
        }
        let want = expect.first.as_deref().map(str::as_bytes);
        if let Err(failure) = first_is(first_column(&self.framer.body), want) {
            self.blame(failure);
        }
    }

    fn check_tag(&mut self) {
        let Some(want) = self.requests.spec.expect.tag.as_deref() else {
            return;
        };
        let left = want.get(self.tagged..).unwrap_or_default();
        let got = self.framer.body.strip_suffix(&[0]).unwrap_or(&self.framer.body);
        let next = left.split(BETWEEN_TAGS).next().unwrap_or_default();
        if self.tagged < want.len() && got == next.as_bytes() {
            self.tagged += (next.len() + BETWEEN_TAGS.len()).min(left.len());
            return;
        }
        let next = if self.tagged < want.len() {
            excerpt(next.as_bytes())
        } else {
            "none".to_owned()
        };
        self.blame(Failure::content(format!(
            "the command tag is {}, expected {next}",
            excerpt(got)
        )));
    }
}

impl Replies for PostgresReplies {
    fn reset(&mut self) {
        self.login = Login::default();
    }

    fn secured(&mut self, certificate: &[u8], _: &[u8]) {
        // Without a password there is nothing to bind.
        if self.requests.spec.password.is_some() {
            self.login.secured(certificate);
        }
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        self.login.go_on(&self.requests, input, output)
    }

    fn password_asked(&self) -> Option<bool> {
        Some(self.login.asked)
    }

    fn request(&self) -> &[u8] {
        &self.requests.request
    }

    fn begin(&mut self) {
        self.framer.reset();
        self.rows = 0;
        self.tagged = 0;
        self.reply.reset();
        self.fault = None;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let first_row = self.rows == 0 && self.requests.spec.expect.reads_first();
        let (used, whole) = self
            .framer
            .feed(bytes, |kind| matches!(kind, b'E' | b'C') || (kind == b'D' && first_row))?;
        // The type is a message's first byte, so the first piece reveals it.
        if !is_notice(self.framer.kind()) {
            self.reply.feed(&self.requests.reply, &bytes[..used]);
        }
        Ok((used, whole && self.take_message()?))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let expect = &self.requests.spec.expect;
        if let Some(rows) = expect.rows.filter(|rows| *rows != self.rows) {
            return Err(Failure::content(format!("{} rows, expected {rows}", self.rows)));
        }
        if self.rows == 0 && expect.reads_first() {
            return Err(Failure::content("no row, expected one"));
        }
        let tags = expect.tag.as_deref().unwrap_or_default();
        if let Some(left @ [_, ..]) = tags.as_bytes().get(self.tagged..) {
            return Err(Failure::content(format!("no command tag, expected {}", excerpt(left))));
        }
        self.reply.finish(&self.requests.reply)
    }

    fn end(&mut self, received: u64) -> Result<(), Failure> {
        // A fatal error is the server's last message, and tells more than the closed connection.
        let closed = || Failure::reset(format!("the peer closed after {received} bytes of a reply"));
        Err(self.fault.take().unwrap_or_else(closed))
    }
}
