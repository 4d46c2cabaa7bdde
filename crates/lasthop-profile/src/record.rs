//! Records in a ring, in the kernel's layout (`perf_event_open(2)`).

use perf_event_open_sys::bindings::{
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER, PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    perf_event_sample_format,
};

/// Fields of every sample with a stack, in this order.
pub(crate) const WITH_STACK: perf_event_sample_format =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN;
pub(crate) const PLAIN: perf_event_sample_format = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID;
pub(crate) const WITH_FIELDS: perf_event_sample_format = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_RAW;
pub(crate) const WITH_TIME_AND_FIELDS: perf_event_sample_format = WITH_FIELDS | PERF_SAMPLE_TIME;

/// A record that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Sample(Sample<'a>),
    /// A new process; threads are left out.
    Fork {
        time: u64,
        parent: i32,
        child: i32,
    },
    /// Number of records that found the ring full.
    Lost(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    /// Number of the sample's event.
    pub event: u64,
    pub pid: i32,
    pub tid: i32,
    /// Further fields, which depend on the event's kind.
    pub rest: &'a [u8],
}

/// The addresses of a stack, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack {
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
}

/// Reads the records in a part of a ring. Truncated and other records are skipped.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        loop {
            // Four bytes of kind, two of flags, two of length, header included.
            let kind = u32::from_ne_bytes(*bytes.first_chunk()?);
            let length = usize::from(u16::from_ne_bytes(*bytes.get(6..)?.first_chunk()?));
            let body = bytes.get(8..length)?;
            bytes = &bytes[length..];
            if let Some(record) = parse(kind, body) {
                return Some(record);
            }
        }
    })
}

fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    let mut fields = Fields(body);
    match kind {
        PERF_RECORD_SAMPLE => Some(Record::Sample(Sample {
            event: fields.u64()?,
            pid: fields.i32()?,
            tid: fields.i32()?,
            rest: fields.0,
        })),
        PERF_RECORD_FORK => {
            let [child, parent] = [fields.i32()?, fields.i32()?];
            let _threads = fields.u64()?;
            let time = fields.u64()?;
            (child != parent).then_some(Record::Fork { time, parent, child })
        }
        PERF_RECORD_LOST => {
            let _event = fields.u64()?;
            Some(Record::Lost(fields.u64()?))
        }
        _ => None,
    }
}

impl Sample<'_> {
    /// The time of a sample that has one, and the sample without its time.
    pub(crate) fn timed(self) -> Option<(u64, Self)> {
        let mut fields = Fields(self.rest);
        let time = fields.u64()?;
        Some((time, Self { rest: fields.0, ..self }))
    }

    /// The stack of a sample that has one.
    pub(crate) fn stack(&self) -> Stack {
        let mut fields = Fields(self.rest);
        let count = fields.u64().unwrap_or(0);
        let mut stack = Stack::default();
        let mut in_kernel = true;
        for address in (0..count).map_while(|_| fields.u64()) {
            match address {
                PERF_CONTEXT_KERNEL => in_kernel = true,
                PERF_CONTEXT_USER => in_kernel = false,
                // Markers of other contexts are the largest numbers.
                PERF_CONTEXT_MAX.. => {}
                address if in_kernel => stack.kernel.push(address),
                address => stack.user.push(address),
            }
        }
        stack
    }

    /// The fields of a sample of a tracepoint.
    pub(crate) fn raw(&self) -> &[u8] {
        let mut fields = Fields(self.rest);
        let length = fields.i32().and_then(|length| usize::try_from(length).ok());
        length.and_then(|length| fields.0.get(..length)).unwrap_or_default()
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*field))
    }

    fn i32(&mut self) -> Option<i32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_ne_bytes(*field))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let length = 8 + 8 * words.len() as u16;
        let header = [&kind.to_ne_bytes()[..], &[0, 0], &length.to_ne_bytes()].concat();
        words
            .iter()
            .fold(header, |all, word| [&all[..], &word.to_ne_bytes()].concat())
    }

    /// A pair of four-byte numbers.
    fn pair(first: u32, second: u32) -> u64 {
        u64::from_ne_bytes([first.to_ne_bytes(), second.to_ne_bytes()].concat().try_into().unwrap())
    }

    #[test]
    fn stacks_are_parted_by_their_context() {
        let chain = [5, PERF_CONTEXT_KERNEL, 11, 12, PERF_CONTEXT_USER, 21];
        let bytes = record(PERF_RECORD_SAMPLE, &[&[7, pair(100, 101)], &chain[..]].concat());
        let Some(Record::Sample(sample)) = records(&bytes).next() else {
            panic!("no sample")
        };
        assert_eq!((sample.event, sample.pid, sample.tid), (7, 100, 101));
        let Stack { kernel, user } = sample.stack();
        assert_eq!((kernel, user), (vec![11, 12], vec![21]));
    }

    #[test]
    fn threads_and_unknown_records_are_passed_over() {
        let bytes = [
            record(PERF_RECORD_FORK, &[pair(5, 5), pair(6, 5), 1]),
            record(999, &[1, 2, 3]),
            record(PERF_RECORD_FORK, &[pair(9, 5), pair(9, 5), 44]),
            record(PERF_RECORD_LOST, &[1, 17]),
        ]
        .concat();
        let fork = Record::Fork {
            time: 44,
            parent: 5,
            child: 9,
        };
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [fork, Record::Lost(17)]);
        assert_eq!(records(&bytes[..bytes.len() - 1]).collect::<Vec<_>>(), [fork]);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for record in records(&bytes) {
                if let Record::Sample(sample) = record {
                    let _ = (sample.stack(), sample.raw().len());
                }
            }
        }
    }
}
