//! Sends JSON packets and file descriptors over a pair of Unix sockets.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};
use serde::{Serialize, de::DeserializeOwned};

/// The largest packet in bytes. The sender refuses larger packets.
const PACKET: usize = 160 * 1024;
/// The most file descriptors per packet.
const DESCRIPTORS: usize = 3;

/// One end of the channel. Packet boundaries are kept in both directions.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Two connected ends. A child inherits neither unless it is passed explicitly. `patience` limits how long a send
    /// waits for the other side to read.
    pub fn pair(patience: Duration) -> io::Result<(Self, OwnedFd)> {
        // Packets keep their boundaries, and unlike datagram sockets the pair reports a closed peer.
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&ours, sockopt::Timeout::Send, Some(patience))?;
        Ok((Self(ours), theirs))
    }

    /// Takes over an inherited end. Refuses any other kind of descriptor.
    pub fn inherited(end: OwnedFd) -> io::Result<Self> {
        match sockopt::socket_type(&end) {
            Ok(SocketType::SEQPACKET) => Ok(Self(end)),
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a lasthop channel",
            )),
            Err(error) => Err(error.into()),
        }
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Closes the channel in both directions.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }

    /// Sends a message with file descriptors.
    ///
    /// # Errors
    ///
    /// The other end is gone, or the message is longer than [`PACKET`] bytes.
    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packet = serde_json::to_vec(message)?;
        if packet.len() > PACKET {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "command and environment are longer than 160 KiB",
            ));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &[IoSlice::new(&packet)], &mut beside, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// Waits for a message; `None` if the other end is gone.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut packet = vec![0; PACKET];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut packet)],
                &mut beside,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let received = match received {
            Ok(received) => received,
            // The error of a Unix socket whose peer was closed with packets unread.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // First of all: the descriptors are open in this process by now, and dropping them closes them.
        let mut descriptors = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        // No message is empty.
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet was cut off"));
        }
        Ok(Some((serde_json::from_slice(&packet[..received.bytes])?, descriptors)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn descriptors_travel_beside_the_message() {
        let (ours, theirs) = Channel::pair(PATIENCE).unwrap();
        let theirs = Channel::inherited(theirs).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        ours.send(&"here", &[reader.as_fd()]).unwrap();
        drop(reader);
        let (word, mut descriptors) = theirs.receive::<String>().unwrap().unwrap();
        assert_eq!(word, "here");
        io::Write::write_all(&mut &writer, b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        File::from(descriptors.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        drop(ours);
        assert!(theirs.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn a_packet_of_the_largest_size_arrives_and_a_larger_one_is_refused() {
        let (ours, theirs) = Channel::pair(PATIENCE).unwrap();
        let theirs = Channel::inherited(theirs).unwrap();
        ours.send(&"x".repeat(PACKET - 2), &[]).unwrap();
        assert_eq!(theirs.receive::<String>().unwrap().unwrap().0.len(), PACKET - 2);
        assert!(
            ours.send(&"x".repeat(PACKET), &[])
                .unwrap_err()
                .to_string()
                .contains("160 KiB")
        );
    }

    #[test]
    fn anything_else_is_not_a_channel() {
        assert!(Channel::inherited(File::open("/dev/null").unwrap().into()).is_err());
        let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Channel::inherited(stream.into()).is_err());
    }
}
