//! The reply to a statement: result sets as text or in the binary form of prepared statements, or an OK packet.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response.html>
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>

use lasthop_trial::failure::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::packet::{END, Framer, OK, Reader};
use crate::{
    exact::Exact,
    exchange::excerpt,
    statement::{self, FIRST_MAX},
};

/// The correct result. Every given field must hold. An error is never correct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MysqlExpect {
    /// Number of columns of the first result set; 0 without one.
    pub columns: Option<u64>,
    /// Number of rows in all result sets.
    pub rows: Option<u64>,
    /// First column of the first row, as text.
    pub first: Option<String>,
    /// Whether the first column of the first row is NULL. `first` is then missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub null: bool,
    /// Number of rows that a statement changed.
    pub changed: Option<u64>,
    /// All packets of the reply, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Exact>,
}

impl MysqlExpect {
    /// Whether the first value is checked by itself.
    pub fn reads_first(&self) -> bool {
        self.first.is_some() || self.null
    }

    /// In words: the expected parts of the result.
    pub fn parts(&self) -> Vec<String> {
        let Self {
            columns,
            rows,
            first,
            null,
            changed,
            ..
        } = self;
        let count = |number: u64, of: &str| format!("{number} {of}{}", if number == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        parts.extend(rows.map(|rows| count(rows, "row")));
        parts.extend(columns.map(|columns| count(columns, "column")));
        parts.extend(changed.map(|changed| count(changed, "changed row")));
        parts.extend(statement::first_in_words(first.as_deref(), *null));
        parts
    }
}

/// Length of a packet of 0xfe that ends the descriptions of columns or the rows; an OK packet in its place is longer.
const EOF_LENGTH: usize = 5;
/// Length of a first column from which on a row also begins with 0xfe.
const LONG: usize = 0xff_ffff;
/// Status flag: another result set follows.
const MORE_RESULTS: u64 = 8;
const NULL: u8 = 0xfb;
/// Maximum columns of a result set. A table has at most 4,096.
const COLUMNS_MAX: u64 = 0xffff;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ResultPart {
    /// Number of columns, or OK.
    #[default]
    Head,
    /// The number of column descriptions still to come.
    Columns(u64),
    /// All columns are described. An EOF packet follows, unless the server omits EOF packets.
    Described,
    Rows,
}

/// The part of a column's type that reading a binary value needs.
#[derive(Clone, Copy, Debug)]
struct Column {
    kind: u8,
    is_unsigned: bool,
}

/// A reply, as far as received.
#[derive(Debug, Default)]
pub struct Reply {
    /// Whether rows are binary.
    is_binary: bool,
    /// Whether the first value is read.
    is_first_read: bool,
    part: ResultPart,
    /// Number of columns of the current result set, and the type of the first column.
    width: u64,
    column: Option<Column>,
    /// Columns of the first result set.
    pub columns: Option<u64>,
    /// Rows of all result sets.
    pub rows: u64,
    pub changed: u64,
    /// The first value, if it is read.
    pub first: Option<First>,
}

/// The first column of the first row, as text; `None` is NULL.
pub type First = Option<Vec<u8>>;

impl Reply {
    pub fn new(is_binary: bool, is_first_read: bool) -> Self {
        Self {
            is_binary,
            is_first_read,
            ..Self::default()
        }
    }

    /// Whether to keep as much as possible of the next packet.
    pub fn needs_all(&self) -> bool {
        self.is_first_read && self.rows == 0 && self.part != ResultPart::Head
    }

    /// Acts on a complete packet that is no error; true at the end of the reply.
    pub fn feed(&mut self, packet: &Framer) -> Result<bool, Failure> {
        let payload = packet.payload();
        let is_end = payload.first() == Some(&END) && packet.length() < LONG;
        match self.part {
            ResultPart::Head => return self.take_head(payload),
            ResultPart::Columns(left) => {
                self.describe(payload)?;
                self.part = if left > 1 {
                    ResultPart::Columns(left - 1)
                } else {
                    ResultPart::Described
                };
            }
            ResultPart::Described if is_end && packet.length() == EOF_LENGTH => self.part = ResultPart::Rows,
            ResultPart::Described | ResultPart::Rows if is_end => return self.end(payload, packet.length()),
            ResultPart::Described | ResultPart::Rows => {
                self.part = ResultPart::Rows;
                if self.needs_all() {
                    self.first = Some(self.first_value(payload)?);
                }
                self.rows += 1;
            }
        }
        Ok(false)
    }

    fn take_head(&mut self, payload: &[u8]) -> Result<bool, Failure> {
        if payload.first() == Some(&OK) {
            self.columns = self.columns.or(Some(0));
            return self.end(payload, payload.len());
        }
        // A request for a local file, which the client never offers, is not a number either.
        let columns = Reader(payload)
            .length_encoded()
            .filter(|columns| (1..=COLUMNS_MAX).contains(columns));
        let columns = columns.ok_or_else(|| unexpected(payload))?;
        self.columns = self.columns.or(Some(columns));
        self.width = columns;
        self.part = ResultPart::Columns(columns);
        Ok(false)
    }

    fn describe(&mut self, payload: &[u8]) -> Result<(), Failure> {
        if self.is_binary && self.needs_all() && self.column.is_none() {
            self.column = Some(column(payload).ok_or_else(|| unexpected(payload))?);
        }
        Ok(())
    }

    /// Reads the end of a part. An EOF packet has warnings and status; an OK packet also has the rows changed and the
    /// last number assigned.
    fn end(&mut self, payload: &[u8], length: usize) -> Result<bool, Failure> {
        let mut reader = Reader(payload.get(1..).unwrap_or_default());
        let status = if length == EOF_LENGTH {
            reader.bytes(2).and_then(|_| reader.number(2))
        } else {
            let changed = reader.length_encoded();
            // Saturating: a server may claim any number of changed rows.
            self.changed = self.changed.saturating_add(changed.unwrap_or_default());
            changed
                .and_then(|_| reader.length_encoded())
                .and_then(|_| reader.number(2))
        };
        let status = status.ok_or_else(|| unexpected(payload))?;
        self.part = ResultPart::Head;
        self.column = None;
        Ok(status & MORE_RESULTS == 0)
    }

    fn first_value(&self, row: &[u8]) -> Result<First, Failure> {
        let mut reader = Reader(row);
        if !self.is_binary {
            return if row.first() == Some(&NULL) {
                Ok(None)
            } else {
                text(reader.text(), row).map(Some)
            };
        }
        // A zero, then a bit for each column that is NULL, starting with the third bit.
        let nulls = reader
            .bytes(1 + (self.width as usize + 9) / 8)
            .ok_or_else(|| unexpected(row))?;
        match self.column {
            Some(column) if nulls[0] == OK => (nulls[1] & 4 == 0).then(|| column.value(reader, row)).transpose(),
            _ => Err(unexpected(row)),
        }
    }
}

impl Column {
    fn value(self, mut reader: Reader<'_>, row: &[u8]) -> Result<Vec<u8>, Failure> {
        let bytes = match self.kind {
            TINY => 1,
            SHORT | YEAR => 2,
            LONG_INTEGER | MEDIUM | FLOAT => 4,
            LONG_LONG | DOUBLE => 8,
            kind @ (TIMESTAMP | DATE | TIME | DATETIME) => {
                return Err(Failure::content(format!(
                    "the first value has the type {kind}, a date or time, which lasthop does not compare in the mode \
                     `prepared`: expect no first value, or write `CAST(… AS CHAR)`"
                )));
            }
            _ => return text(reader.text(), row),
        };
        let number = reader.number(bytes).ok_or_else(|| unexpected(row))?;
        let text = match self.kind {
            FLOAT => f32::from_bits(number as u32).to_string(),
            DOUBLE => f64::from_bits(number).to_string(),
            _ => self.integer(number, 8 * bytes as u32),
        };
        Ok(text.into_bytes())
    }

    fn integer(self, number: u64, bits: u32) -> String {
        let shift = 64 - bits;
        if self.is_unsigned {
            number.to_string()
        } else {
            // Shifts up and down to extend the sign to 64 bits.
            ((number << shift).cast_signed() >> shift).to_string()
        }
    }
}

/// Types of columns whose values are not text.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html>
const TINY: u8 = 1;
const SHORT: u8 = 2;
const LONG_INTEGER: u8 = 3;
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
const TIMESTAMP: u8 = 7;
const LONG_LONG: u8 = 8;
const MEDIUM: u8 = 9;
const DATE: u8 = 10;
const TIME: u8 = 11;
const DATETIME: u8 = 12;
const YEAR: u8 = 13;
const UNSIGNED: u64 = 32;

/// Reads six names, a length, then collation, length, type and flags.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html>
fn column(payload: &[u8]) -> Option<Column> {
    let mut reader = Reader(payload);
    for _ in 0..6 {
        reader.text()?;
    }
    let _ = (reader.length_encoded()?, reader.bytes(6)?);
    Some(Column {
        kind: reader.number(1)? as u8,
        is_unsigned: reader.number(2)? & UNSIGNED > 0,
    })
}

fn text(value: Option<&[u8]>, row: &[u8]) -> Result<Vec<u8>, Failure> {
    value.map(<[u8]>::to_vec).ok_or_else(|| unexpected(row))
}

pub fn unexpected(payload: &[u8]) -> Failure {
    Failure::protocol(format!("a packet {} was not expected", excerpt(payload)))
}

/// A server's error: its number, SQLSTATE if there is one, and message.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html>
pub fn server_error(during: &str, payload: &[u8]) -> Failure {
    let mut reader = Reader(payload.get(1..).unwrap_or_default());
    let number = reader.number(2).unwrap_or_default();
    let state = match reader.0 {
        [b'#', state @ ..] if state.len() >= 5 => {
            reader.0 = &state[5..];
            format!(", SQLSTATE {}", state[..5].escape_ascii())
        }
        _ => String::new(),
    };
    let message = String::from_utf8_lossy(reader.0);
    Failure::refused(format!("{during}: error {number}{state}: {message}"))
}

/// The common content of complete replies, at least one; without the first value if it cannot be compared.
pub fn agreed(replies: &[&[u8]], is_binary: bool) -> Result<MysqlExpect, Failure> {
    let all: Result<Vec<Reply>, Failure> = replies.iter().map(|reply| found(reply, is_binary)).collect();
    let all = all?;
    let one = &all[0];
    let agree = |is: &dyn Fn(&Reply) -> bool| all.iter().all(is);
    let has_columns = agree(&|other| other.columns == one.columns);
    let value = one.first.as_ref().filter(|_| agree(&|other| other.first == one.first));
    let changed = (one.columns == Some(0)).then_some(one.changed);
    Ok(MysqlExpect {
        columns: one.columns.filter(|_| has_columns),
        rows: Some(one.rows).filter(|rows| agree(&|other| other.rows == *rows)),
        null: value == Some(&None),
        first: value
            .and_then(Option::as_ref)
            .filter(|value| value.len() <= FIRST_MAX)
            .and_then(|value| String::from_utf8(value.clone()).ok()),
        changed: changed.filter(|changed| has_columns && agree(&|other| other.changed == *changed)),
        reply: replies
            .iter()
            .all(|reply| *reply == replies[0])
            .then(|| Exact::of(replies[0])),
    })
}

fn found(reply: &[u8], is_binary: bool) -> Result<Reply, Failure> {
    read(reply, Reply::new(is_binary, true)).or_else(|_| read(reply, Reply::new(is_binary, false)))
}

fn read(bytes: &[u8], mut reply: Reply) -> Result<Reply, Failure> {
    let mut framer = Framer::default();
    framer.expect(bytes.get(3).copied().unwrap_or_default());
    let mut at = 0;
    while at < bytes.len() {
        let (used, whole) = framer.feed(&bytes[at..], reply.needs_all())?;
        at += used;
        if whole && reply.feed(&framer)? {
            break;
        }
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of MySQL's documentation of the binary form: one column, one row, a server with EOF packets.
    const BINARY: &[u8] = b"\x01\0\0\x01\x01\x1a\0\0\x02\x03def\0\0\0\x04col1\0\x0c\x08\0\x06\0\0\0\xfd\0\0\x1f\0\0\x05\0\0\x03\xfe\0\0\x02\0\x09\0\0\x04\0\0\x06foobar\x05\0\0\x05\xfe\0\0\x02\0";

    /// The learnt expectation without the reply's bytes.
    fn learnt(reply: &[u8], is_binary: bool) -> MysqlExpect {
        let expect = agreed(&[reply, reply], is_binary).unwrap();
        assert_eq!(expect.reply, Some(Exact::of(reply)));
        MysqlExpect { reply: None, ..expect }
    }

    fn expect(columns: u64, rows: u64, first: &str) -> MysqlExpect {
        let columns = Some(columns);
        let rows = Some(rows);
        let first = Some(first.into());
        MysqlExpect {
            columns,
            rows,
            first,
            ..MysqlExpect::default()
        }
    }

    #[test]
    fn the_documented_example_is_read() {
        assert_eq!(learnt(BINARY, true), expect(1, 1, "foobar"));
    }

    /// Packets with these payloads.
    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut number = 1;
        for payload in payloads {
            number = super::super::packet::write(payload, number, &mut bytes);
        }
        bytes
    }

    fn definition(kind: u8, flags: u8) -> Vec<u8> {
        [
            b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x14\0\0\0".as_slice(),
            &[kind, flags, 0, 0, 0, 0],
        ]
        .concat()
    }

    const DONE: &[u8] = b"\xfe\0\0\x02\0\0\0";
    const MORE: &[u8] = b"\xfe\0\0\x0a\0\0\0";

    #[test]
    fn text_is_read_with_and_without_eof_packets() {
        let eof = b"\xfe\0\0\x02\0";
        let column = definition(8, 0);
        for reply in [
            packets(&[b"\x02", &column, &column, b"\x017\x018", b"\x019\xfb", DONE]),
            packets(&[b"\x02", &column, &column, eof, b"\x017\x018", b"\x019\xfb", eof]),
        ] {
            assert_eq!(learnt(&reply, false), expect(2, 2, "7"));
        }
        let none = MysqlExpect {
            first: None,
            rows: Some(0),
            ..expect(1, 0, "")
        };
        assert_eq!(learnt(&packets(&[b"\x01", &column, DONE]), false), none);
        assert_eq!(learnt(&packets(&[b"\x01", &column, eof, eof]), false), none);
        let null = MysqlExpect {
            rows: Some(1),
            null: true,
            ..none
        };
        assert_eq!(learnt(&packets(&[b"\x01", &column, b"\xfb", DONE]), false), null);
    }

    #[test]
    fn several_results_are_one_reply() {
        let column = definition(8, 0);
        let reply = packets(&[
            b"\x01",
            &column,
            MORE,
            b"\x01",
            &column,
            b"\x015",
            MORE,
            b"\0\x03\0\x02\0\0\0",
        ]);
        assert_eq!(learnt(&reply, false), expect(1, 1, "5"));
    }

    #[test]
    fn changed_rows_are_counted() {
        let reply = packets(&[b"\0\x03\0\x02\0\0\0"]);
        let changed = |changed| MysqlExpect {
            first: None,
            changed: Some(changed),
            ..expect(0, 0, "")
        };
        assert_eq!(learnt(&reply, false), changed(3));
        // Two results: 2^64 - 1 and 2 do not make 1.
        let most = packets(&[
            b"\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\0\x0a\0\0\0",
            b"\0\x02\0\x02\0\0\0",
        ]);
        assert_eq!(learnt(&most, false), changed(u64::MAX));
    }

    #[test]
    fn binary_values_are_what_their_text_would_be() {
        let value = |kind: u8, flags: u8, bytes: &[u8]| {
            let row = [&[0, 0], bytes].concat();
            learnt(&packets(&[b"\x01", &definition(kind, flags), &row, DONE]), true).first
        };
        let unsigned = UNSIGNED as u8;
        for (kind, flags, bytes, text) in [
            (LONG_LONG, 0, &[0xff; 8][..], "-1"),
            (LONG_LONG, unsigned, &[0xff; 8], "18446744073709551615"),
            (LONG_INTEGER, 0, &[0xfe, 0xff, 0xff, 0xff], "-2"),
            (SHORT, unsigned, &[1, 0x80], "32769"),
            (TINY, 0, &[0x80], "-128"),
            (YEAR, unsigned, &[0xe8, 7], "2024"),
            (DOUBLE, 0, &1.5f64.to_le_bytes(), "1.5"),
            (FLOAT, 0, &(-0.25f32).to_le_bytes(), "-0.25"),
            (246, 0, b"\x0512.50", "12.50"),
        ] {
            assert_eq!(value(kind, flags, bytes).as_deref(), Some(text), "{kind}");
        }
        // A date is not text; the rest of the reply is read all the same.
        assert_eq!(value(DATE, 0, &[4, 0xe8, 7, 1, 2]), None);
        let null = packets(&[b"\x01", &definition(LONG_LONG, 0), &[0, 4], DONE]);
        assert!(learnt(&null, true).null);
    }

    #[test]
    fn of_replies_that_differ_what_stays_is_learnt() {
        let column = definition(253, 0);
        let reply =
            |first: &[u8], second: &[u8]| packets(&[b"\x02", &column, &column, &[first, second].concat(), DONE]);
        let learnt = |one: &[u8], other: &[u8]| agreed(&[one, other, one], false).unwrap();
        let null = learnt(&reply(b"\xfb", b"\x01a"), &reply(b"\xfb", b"\x01b"));
        assert_eq!(
            null,
            MysqlExpect {
                first: None,
                null: true,
                ..expect(2, 1, "")
            }
        );
        assert_eq!(
            learnt(&reply(b"\x017", b"\x01a"), &reply(b"\x017", b"\xfb")),
            expect(2, 1, "7")
        );
        // Different values that are not text are not taken for equal, nor NULL for a text.
        for (one, other) in [(b"\x01\xff", &b"\x01\xfe"[..]), (b"\x01a", b"\xfb"), (b"\x01a", b"\0")] {
            let other = learnt(&reply(one, b"\xfb"), &reply(other, b"\xfb"));
            assert_eq!(
                other,
                MysqlExpect {
                    first: None,
                    ..expect(2, 1, "")
                }
            );
        }
    }

    #[test]
    fn errors_are_told_with_and_without_a_state() {
        let with = server_error("query", b"\xff\x15\x04#28000Access denied");
        assert_eq!(with.message, "query: error 1045, SQLSTATE 28000: Access denied");
        let without = server_error("authentication", b"\xff\x10\x04Too many connections");
        assert_eq!(without.message, "authentication: error 1040: Too many connections");
    }
}
