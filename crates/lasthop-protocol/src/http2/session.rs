//! One connection's side of HTTP/2 (RFC 9113): its settings, its windows, the server's requests, and the calls under
//! way.

use std::rc::Rc;

use lasthop_trial::failure::Failure;

use super::{
    Requests,
    call::{Call, FIELDS_MAX},
    frame::{self, Frame, Framer},
    hpack::Decoder,
};
use crate::exchange::{Done, Exchange, Progress, excerpt};

/// Initial size of a window.
const WINDOW: i64 = 65_535;
/// Maximum size of a window.
const WINDOW_MAX: i64 = (1 << 31) - 1;
/// Bytes received before the server gets the room back: half of the window.
const RETURNED_AT: u32 = 1 << 30;
/// The last number of a stream that clients may use.
const STREAM_MAX: u32 = (1 << 31) - 1;
/// Maximum bytes of a header block, and maximum frames, which may be empty (RFC 9113, section 6.10).
const BLOCK_MAX: usize = 64 * 1024;
/// Maximum pings and settings answered during one batch.
const ANSWERS_MAX: u32 = 10_000;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const NO_ERROR: u32 = 0;
/// RST_STREAM code: the server has not begun the call.
const REFUSED_STREAM: u32 = 7;
/// RST_STREAM code: the rest is not needed.
const CANCEL: u32 = 8;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub struct Session {
    pub requests: Rc<Requests>,
    framer: Framer,
    decoder: Decoder,
    /// Bytes to send, from the beginning of the batch on.
    out: Vec<u8>,
    /// Whether the server's settings have come.
    is_settled: bool,
    /// How many bytes the connection, and each new stream, may send.
    window: i64,
    stream_window: i64,
    /// Bytes received since the server last got more room.
    received: u32,
    /// Stream of the first call of the batch, and of the next batch.
    first: u32,
    next: u32,
    calls: Vec<Call>,
    /// Calls without a complete reply that the server may still answer.
    open: usize,
    /// Calls of the batch that the leaving server has not taken.
    declined: u32,
    /// Whether the server takes no more calls.
    is_leaving: bool,
    /// An incomplete header block.
    block: Option<Block>,
    answers: u32,
}

/// A part of a header block.
struct Block {
    stream: u32,
    /// Whether the stream ends with the block.
    ends: bool,
    bytes: Vec<u8>,
    /// Number of frames in the block.
    frames: usize,
}

impl Session {
    pub fn new(requests: Rc<Requests>) -> Self {
        let calls = (0..requests.depth).map(|_| Call::default()).collect();
        Self {
            requests,
            framer: Framer::default(),
            decoder: Decoder::new(),
            out: Vec::new(),
            is_settled: false,
            window: WINDOW,
            stream_window: WINDOW,
            received: 0,
            first: 1,
            next: 1,
            calls,
            open: 0,
            declined: 0,
            is_leaving: false,
            block: None,
            answers: 0,
        }
    }

    /// Sends the client's first bytes: no dynamic table, which keeps the hot path short, no pushes, and windows too
    /// large to delay the server.
    fn introduce(&mut self) {
        self.out.extend_from_slice(PREFACE);
        write_settings(
            &[
                (HEADER_TABLE_SIZE, 0),
                (ENABLE_PUSH, 0),
                (INITIAL_WINDOW_SIZE, WINDOW_MAX as u32),
                (MAX_HEADER_LIST_SIZE, FIELDS_MAX as u32),
            ],
            &mut self.out,
        );
        // Settings change only the windows of streams; the connection's window needs an update (RFC 9113, section
        // 6.9.2).
        write_update((WINDOW_MAX - WINDOW) as u32, &mut self.out);
    }

    /// Begins `count` calls; the others of the batch are over.
    fn begin_calls(&mut self, count: usize) {
        let Self {
            requests,
            out,
            calls,
            next,
            ..
        } = self;
        out.clear();
        self.answers = 0;
        self.declined = 0;
        self.first = *next;
        let ends = if requests.body.is_empty() { frame::END_STREAM } else { 0 };
        let flags = frame::END_HEADERS | ends;
        for call in &mut calls[..count] {
            call.begin(requests.body.len(), self.stream_window);
            frame::write(frame::HEADERS, flags, *next, &requests.fields, out);
            *next += 2;
        }
        self.open = count;
        self.send();
    }

    /// Whether another batch may follow.
    fn goes_on(&self) -> bool {
        !self.is_leaving && self.next + 2 * (self.requests.depth - 1) <= STREAM_MAX
    }

    /// Sends as much of each message as the windows allow.
    fn send(&mut self) {
        let Self {
            requests,
            out,
            window,
            calls,
            first,
            ..
        } = self;
        for (call, stream) in calls.iter_mut().zip((*first..).step_by(2)) {
            while let Some(count) = call.may_send(*window) {
                let from = requests.body.len() - call.unsent;
                call.sent(count);
                *window -= count as i64;
                let flags = if call.unsent == 0 { frame::END_STREAM } else { 0 };
                frame::write(frame::DATA, flags, stream, &requests.body[from..from + count], out);
            }
        }
    }

    /// Takes bytes up to the end of the next reply, or all bytes.
    fn feed(&mut self, bytes: &[u8]) -> Result<Option<Done>, Failure> {
        // Taken out of `self`, because a frame borrows from the framer while the session acts on the frame.
        let mut framer = std::mem::take(&mut self.framer);
        let taken = self.take_frames(&mut framer, bytes);
        self.framer = framer;
        taken
    }

    fn take_frames(&mut self, framer: &mut Framer, bytes: &[u8]) -> Result<Option<Done>, Failure> {
        let mut at = 0;
        while at < bytes.len() {
            let Some(call) = self.take_frame(framer, bytes, &mut at)? else {
                continue;
            };
            let done = self.finish(call, at);
            if self.open > 0 {
                return Ok(Some(done));
            }
            // Frames after the last reply may concern the connection. Other bytes are left.
            let mut used = at;
            while at < bytes.len() && self.take_frame(framer, bytes, &mut at).is_ok() {
                used = at;
            }
            return Ok(Some(Done {
                used,
                keep: self.goes_on(),
                ..done
            }));
        }
        Ok(None)
    }

    /// Acts on the frame that ends in `bytes`, if any. Returns the call whose stream it ends.
    fn take_frame(&mut self, framer: &mut Framer, bytes: &[u8], at: &mut usize) -> Result<Option<usize>, Failure> {
        let (used, frame) = framer.next(&bytes[*at..])?;
        *at += used;
        frame.map_or(Ok(None), |frame| self.act(frame))
    }

    /// The outcome of a call whose stream has ended.
    fn finish(&mut self, index: usize, used: usize) -> Done {
        self.open -= 1;
        let call = &mut self.calls[index];
        // The server answered before it received everything. The client's side of the stream is open: without a reset
        // the server would wait for the rest.
        if call.unsent > 0 {
            call.unsent = 0;
            frame::write(
                frame::RST_STREAM,
                0,
                self.first + 2 * index as u32,
                &CANCEL.to_be_bytes(),
                &mut self.out,
            );
        }
        let fault = call.judge(&self.requests).err().map(Box::new);
        Done {
            used,
            keep: true,
            payload: call.received(),
            fault,
        }
    }

    /// Acts on a frame. Returns the call whose stream it ends.
    fn act(&mut self, frame: Frame<'_>) -> Result<Option<usize>, Failure> {
        // No other frame may come between those of a header block (RFC 9113, section 4.3).
        if self.block.is_some() != (frame.kind == frame::CONTINUATION) {
            return Err(Failure::protocol(
                "HTTP/2: a header block is interrupted, or continued without a beginning",
            ));
        }
        // Settings are the server's preface (RFC 9113, section 3.4).
        if !self.is_settled && frame.kind != frame::SETTINGS && self.next == 1 {
            return Err(Failure::protocol("HTTP/2: the server does not begin with its settings"));
        }
        match frame.kind {
            frame::DATA => return self.data(frame),
            frame::HEADERS => return self.headers(frame),
            frame::CONTINUATION => return self.continuation(frame),
            frame::RST_STREAM => return self.reset_by_server(frame),
            frame::SETTINGS => self.settings(frame)?,
            frame::PING => self.ping(frame)?,
            frame::GOAWAY => self.going_away(frame)?,
            frame::WINDOW_UPDATE => self.window_update(frame)?,
            frame::PUSH_PROMISE => return Err(Failure::protocol("HTTP/2: a push, which was forbidden")),
            // Priorities, and unknown types, which must be ignored (RFC 9113, section 4.1).
            _ => {}
        }
        Ok(None)
    }

    /// The call of an open stream.
    fn open_call(&self, stream: u32) -> Result<usize, Failure> {
        let ended = || Failure::protocol(format!("HTTP/2: stream {stream} goes on behind its end"));
        self.call(stream)?.ok_or_else(ended)
    }

    /// The call of a stream; `None` if it is over.
    fn call(&self, stream: u32) -> Result<Option<usize>, Failure> {
        if stream.is_multiple_of(2) || stream >= self.next {
            return Err(Failure::protocol(format!("HTTP/2: stream {stream} was not opened")));
        }
        let index = stream.checked_sub(self.first).map(|ahead| ahead as usize / 2);
        Ok(index.filter(|index| self.calls.get(*index).is_some_and(|call| !call.is_over)))
    }

    fn data(&mut self, frame: Frame<'_>) -> Result<Option<usize>, Failure> {
        // Padding counts for flow control too (RFC 9113, section 6.1). A stream gets no room back: it has 2 GiB for one
        // reply.
        self.received += frame.content.len() as u32;
        if self.received >= RETURNED_AT {
            write_update(self.received, &mut self.out);
            self.received = 0;
        }
        let body = frame.body()?;
        let index = self.open_call(frame.stream)?;
        let ends = frame.has(frame::END_STREAM);
        self.calls[index].take_data(&self.requests, body, ends)?;
        Ok(ends.then_some(index))
    }

    fn headers(&mut self, frame: Frame<'_>) -> Result<Option<usize>, Failure> {
        let block = frame.body()?;
        let ends = frame.has(frame::END_STREAM);
        if frame.has(frame::END_HEADERS) {
            return self.take_block(frame.stream, block, ends);
        }
        self.block = Some(Block {
            stream: frame.stream,
            ends,
            bytes: block.to_vec(),
            frames: 1,
        });
        Ok(None)
    }

    fn continuation(&mut self, frame: Frame<'_>) -> Result<Option<usize>, Failure> {
        let Some(mut block) = self.block.take().filter(|block| block.stream == frame.stream) else {
            return Err(Failure::protocol("HTTP/2: a header block goes on in another stream"));
        };
        block.bytes.extend_from_slice(frame.content);
        block.frames += 1;
        if block.bytes.len().max(block.frames) > BLOCK_MAX {
            return Err(Failure::protocol("HTTP/2: a header block is too long"));
        }
        if frame.has(frame::END_HEADERS) {
            return self.take_block(block.stream, &block.bytes, block.ends);
        }
        self.block = Some(block);
        Ok(None)
    }

    fn take_block(&mut self, stream: u32, block: &[u8], ends: bool) -> Result<Option<usize>, Failure> {
        let index = self.open_call(stream)?;
        let fields = self.requests.known.read(block, &mut self.decoder)?;
        self.calls[index].take_fields(&self.requests, fields, ends)?;
        Ok(ends.then_some(index))
    }

    fn reset_by_server(&mut self, frame: Frame<'_>) -> Result<Option<usize>, Failure> {
        let code = frame::number(exactly::<4>(&frame)?);
        let Some(index) = self.call(frame.stream)? else {
            return Ok(None);
        };
        if self.is_leaving && code == REFUSED_STREAM {
            self.decline(index);
            return self.still_answers(&[]).map(|()| None);
        }
        self.calls[index].fail(Failure::reset(format!("the server reset the stream: {}", reason(code))));
        Ok(Some(index))
    }

    fn settings(&mut self, frame: Frame<'_>) -> Result<(), Failure> {
        if frame.has(frame::ACK) {
            return Ok(());
        }
        let (settings, rest) = frame.content.as_chunks::<6>();
        if !rest.is_empty() || frame.stream != 0 {
            return Err(malformed("SETTINGS"));
        }
        for [high, low, value @ ..] in settings {
            self.set(u16::from_be_bytes([*high, *low]), u32::from_be_bytes(*value))?;
        }
        self.is_settled = true;
        self.answer(frame::SETTINGS, &[])?;
        self.send();
        Ok(())
    }

    fn set(&mut self, what: u16, value: u32) -> Result<(), Failure> {
        match what {
            MAX_CONCURRENT_STREAMS if value < self.requests.depth => {
                let depth = self.requests.depth;
                let text = format!("the server allows {value} streams at once on a connection; {depth} are asked for");
                return Err(Failure::refused(text));
            }
            INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => return Err(malformed("SETTINGS")),
            INITIAL_WINDOW_SIZE => {
                // The change also applies to the windows of open streams, which may become negative (RFC 9113, section
                // 6.9.2).
                let change = i64::from(value) - self.stream_window;
                self.stream_window += change;
                self.calls.iter_mut().for_each(|call| call.window += change);
            }
            _ => {}
        }
        Ok(())
    }

    fn ping(&mut self, frame: Frame<'_>) -> Result<(), Failure> {
        let content = exactly::<8>(&frame)?;
        if frame.has(frame::ACK) {
            Ok(())
        } else {
            self.answer(frame::PING, content)
        }
    }

    fn answer(&mut self, kind: u8, content: &[u8]) -> Result<(), Failure> {
        // `out` keeps every answer until the batch is over, so a flood of questions must have a limit.
        self.answers += 1;
        if self.answers > ANSWERS_MAX {
            return Err(Failure::protocol(
                "HTTP/2: the server sends pings or settings without end",
            ));
        }
        frame::write(kind, frame::ACK, 0, content, &mut self.out);
        Ok(())
    }

    /// Marks a call that the leaving server has not taken.
    fn decline(&mut self, index: usize) {
        let call = &mut self.calls[index];
        call.is_over = true;
        call.unsent = 0;
        self.open -= 1;
        self.declined += 1;
    }

    /// Fails if no call is left that a leaving server still answers.
    fn still_answers(&self, text: &[u8]) -> Result<(), Failure> {
        if self.open == 0 && self.declined > 0 {
            Err(left(NO_ERROR, text))
        } else {
            Ok(())
        }
    }

    /// Handles GOAWAY: the server answers the calls up to the last one it has taken. The next batch opens another
    /// connection.
    fn going_away(&mut self, frame: Frame<'_>) -> Result<(), Failure> {
        let Some((&[a, b, c, d, code @ ..], text)) = frame.content.split_first_chunk::<8>() else {
            return Err(malformed("GOAWAY"));
        };
        let last = u32::from_be_bytes([a, b, c, d]) & STREAM_MAX;
        let code = u32::from_be_bytes(code);
        self.is_leaving = true;
        if code != NO_ERROR && self.open > 0 {
            return Err(left(code, text));
        }
        for (index, stream) in (self.first..).step_by(2).take(self.calls.len()).enumerate() {
            if stream > last && !self.calls[index].is_over {
                self.decline(index);
            }
        }
        self.still_answers(text)
    }

    fn window_update(&mut self, frame: Frame<'_>) -> Result<(), Failure> {
        let increment = i64::from(frame::number(exactly::<4>(&frame)?) & STREAM_MAX);
        let window = match frame.stream {
            0 => &mut self.window,
            stream => match self.call(stream)? {
                Some(index) => &mut self.calls[index].window,
                None => return Ok(()),
            },
        };
        *window += increment;
        // Both are errors (RFC 9113, sections 6.9 and 6.9.1).
        if increment == 0 || *window > WINDOW_MAX {
            return Err(malformed("WINDOW_UPDATE"));
        }
        self.send();
        Ok(())
    }

    /// Pretends that all streams before `next` have been used.
    #[cfg(test)]
    pub fn use_up(&mut self, next: u32) {
        self.next = next;
    }
}

impl Exchange for Session {
    fn reset(&mut self) {
        *self = Self::new(Rc::clone(&self.requests));
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        if input.is_empty() {
            self.introduce();
        } else if !self.is_settled && input.starts_with(b"HTTP/") {
            return Err(Failure::protocol(format!(
                "the server does not speak HTTP/2: {}",
                excerpt(input)
            )));
        }
        self.feed(input)?;
        output.append(&mut self.out);
        // No message may be incomplete in either direction.
        Ok(self.is_settled && self.block.is_none() && self.framer.is_between())
    }

    fn begin(&mut self) {
        self.begin_calls(self.calls.len());
    }

    fn begin_again(&mut self, left: u32, _depth: u32) -> usize {
        self.calls.iter_mut().for_each(|call| call.is_over = true);
        self.begin_calls(left as usize);
        0
    }

    fn declined(&self, _outstanding: u32) -> u32 {
        self.declined
    }

    #[inline]
    fn request(&self) -> &[u8] {
        &self.out
    }

    /// Replies of a batch come in any order.
    fn next_reply(&mut self) {}

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        Ok(self.feed(bytes)?.map_or(Progress::More, Progress::Done))
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let text = format!(
            "the peer closed the connection before {} of {} replies",
            self.open,
            self.calls.len()
        );
        Err(Failure::reset(text))
    }
}

/// The first bytes of a server whose windows never delay a client.
pub fn generous_settings() -> Vec<u8> {
    let mut out = Vec::new();
    write_settings(&[(INITIAL_WINDOW_SIZE, WINDOW_MAX as u32)], &mut out);
    write_update((WINDOW_MAX - WINDOW) as u32, &mut out);
    out
}

/// Gives the server room for `bytes` more bytes on the connection.
pub fn write_update(bytes: u32, out: &mut Vec<u8>) {
    frame::write(frame::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes(), out);
}

fn write_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    let content: Vec<u8> = settings
        .iter()
        .flat_map(|(what, value)| what.to_be_bytes().into_iter().chain(value.to_be_bytes()))
        .collect();
    frame::write(frame::SETTINGS, 0, 0, &content, out);
}

fn exactly<'a, const N: usize>(frame: &Frame<'a>) -> Result<&'a [u8; N], Failure> {
    frame.content.try_into().map_err(|_| malformed("a control frame"))
}

fn malformed(what: &str) -> Failure {
    Failure::protocol(format!("HTTP/2: {what} is malformed"))
}

/// The failure of a request to a leaving server, which may say why.
fn left(code: u32, text: &[u8]) -> Failure {
    let text = if text.is_empty() {
        String::new()
    } else {
        format!(", {}", excerpt(text))
    };
    Failure::reset(format!(
        "the server ends the connection (GOAWAY): {}{text}",
        reason(code)
    ))
}

/// A code of a RST_STREAM or GOAWAY in words (RFC 9113, section 7).
fn reason(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES
        .get(code as usize)
        .map_or_else(|| format!("code {code}"), |name| (*name).to_owned())
}
