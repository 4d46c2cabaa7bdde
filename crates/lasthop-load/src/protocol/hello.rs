//! The server speaks first and closes: one request is one connection.

use super::{Done, Exchange, Progress, excerpt};
use crate::{failure::Failure, result::ErrorClass, spec::Hello};

pub struct HelloExchange {
    expect: Vec<u8>,
    received: usize,
}

impl HelloExchange {
    #[must_use]
    pub fn new(hello: &Hello) -> Self {
        Self { expect: hello.expect.clone().into_bytes(), received: 0 }
    }
}

impl Exchange for HelloExchange {
    fn reset(&mut self) {
        self.received = 0;
    }

    fn begin(&mut self) {
        self.received = 0;
    }

    fn request(&self) -> &[u8] {
        &[]
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if !self.expect[self.received..].starts_with(bytes) {
            return Err(Failure::content(format!(
                "got {} after {} right bytes of the {} expected",
                excerpt(bytes),
                self.received,
                self.expect.len()
            )));
        }
        self.received += bytes.len();
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        if self.received < self.expect.len() {
            let text = format!("the peer closed after {} of {} bytes", self.received, self.expect.len());
            return Err(Failure::new(ErrorClass::Reset, text));
        }
        Ok(Done { used: 0, keep: false, payload: self.received as u64, fault: None })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::same_at_every_cut, *};

    fn outcome(reply: &str) -> Result<u64, ErrorClass> {
        let mut exchange = HelloExchange::new(&Hello { expect: "Hello there!".to_owned() });
        // The message counts right bytes up to the wrong piece, which depends on the pieces: compare by the letter
        // only what is right.
        if "Hello there!".starts_with(reply) {
            return same_at_every_cut(&mut exchange, reply.as_bytes()).map(|done| done.0).map_err(|error| error.class);
        }
        super::super::testing::feed(&mut exchange, &[reply.as_bytes()]).map(|done| done.0).map_err(|error| error.class)
    }

    #[test]
    fn only_the_whole_text_is_right() {
        assert_eq!(outcome("Hello there!"), Ok(12));
        assert_eq!(outcome("Hello"), Err(ErrorClass::Reset));
        assert_eq!(outcome(""), Err(ErrorClass::Reset));
        assert_eq!(outcome("Hello there!!"), Err(ErrorClass::WrongContent));
        assert_eq!(outcome("Jello there!"), Err(ErrorClass::WrongContent));
    }
}
