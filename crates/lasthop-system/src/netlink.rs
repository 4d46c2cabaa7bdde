//! Requests to the kernel by netlink (`netlink(7)`), and the format of its answers.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, recv, sendto,
    socket_with,
};

/// Longer than any message of a dump, in bytes: the kernel fills up to 32 KiB at a time.
pub(crate) const BUFFER: usize = 64 * 1024;

// include/uapi/linux/netlink.h
const HEADER: usize = 16;
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The first kind of message that is not netlink's own.
const FIRST_KIND: u16 = 16;
/// Masks out the two upper bits of an attribute's type, which say how its value is encoded.
const TYPE_MASK: u16 = 0x3fff;

/// A netlink socket. `None` as protocol is that of links, addresses and routes.
pub(crate) fn socket(protocol: impl Into<Option<Protocol>>, flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags,
        protocol.into(),
    )?)
}

/// Requests all objects of a kind.
#[derive(Debug)]
pub(crate) struct Dumps {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Dumps {
    /// Opens a socket to the network namespace of the calling thread, which the socket keeps.
    pub(crate) fn open(protocol: impl Into<Option<Protocol>>) -> io::Result<Self> {
        Ok(Self {
            socket: socket(protocol, SocketFlags::empty())?,
            buffer: vec![0; BUFFER],
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request, and passes on the body of each message of the answer.
    pub(crate) fn ask(&mut self, kind: u16, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + request.len());
        message.extend(((HEADER + request.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(REQUEST_DUMP.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(request);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message, SendFlags::empty(), &kernel)?;
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            for (kind, body) in Messages(&self.buffer[..length]) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => return Err(refusal(body)),
                    FIRST_KIND.. => each(body),
                    _ => {}
                }
            }
        }
    }
}

/// The error in a struct nlmsgerr, which begins with a negative error number.
fn refusal(body: &[u8]) -> io::Error {
    let number = u32_at(body, 0).map_or(0, |number| (number as i32).wrapping_neg());
    io::Error::from_raw_os_error(number)
}

/// The messages of a datagram: type and body of each.
pub(crate) struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u32_at(self.0, 0)? as usize;
        let kind = u16_at(self.0, 4)?;
        let body = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    }
}

/// The attributes of a message, or of an attribute: type and value of each (struct nlattr).
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

impl<'a> Attributes<'a> {
    /// The value of the first attribute of a type.
    pub(crate) fn value(&self, wanted: u16) -> Option<&'a [u8]> {
        Attributes(self.0).find_map(|(kind, value)| (kind == wanted).then_some(value))
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_length_ends() {
        assert_eq!(Messages(&[0; 64]).count() + Attributes(&[0; 64]).count(), 0);
    }

    #[test]
    fn attributes_are_found_by_their_type_alone() {
        // A nested attribute (0x8000) of type 1 with one byte, and a truncated one of type 2.
        let bytes = [5u16.to_ne_bytes(), 0x8001u16.to_ne_bytes()].concat();
        let bytes = [&bytes[..], &[7, 0, 0, 0, 9, 0, 2, 0]].concat();
        assert_eq!(Attributes(&bytes).value(1), Some(&[7][..]));
        assert_eq!(Attributes(&bytes).value(2), None);
    }
}
