//! Channels are no named sockets: what happens when the other side is slow, silent, gone, or hands over nonsense.

use crate::common;

use std::{
    io::Read as _,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use common::{Running, With, echo, run, spec};
use lasthop_load::{
    engine::Case,
    serve::Pattern,
    transport::{Socket, Stream, offer},
};
use lasthop_protocol::{
    spec::Spec,
    wire::{Stage, TrialPhases},
};
use lasthop_trial::{
    address::{Address, Endpoint, Transport},
    result::ErrorClass,
};
use socket2::{Domain, SockAddr, Type};

const TRIAL: TrialPhases = TrialPhases::without_warm_up(50_000_000);

/// A server that hands a channel to each client and serves it as told.
struct Serving {
    endpoint: Endpoint,
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Serving {
    /// `serve` gets each client's channel; its result is kept until the end.
    fn start(kind: Transport, serve: impl Fn(Stream) -> Option<Stream> + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = listening(&path);
        listener.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = Address::Channel(kind, path.clone());
        let (done, until) = channel::<()>();
        let body = move || {
            let mut kept = Vec::new();
            while until.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                if let Ok((client, _)) = listener.accept() {
                    let control = Socket::waiting(OwnedFd::from(client));
                    kept.extend(serve(offer(kind, control).unwrap()));
                }
            }
        };
        let endpoint = Endpoint::plain(address);
        Self {
            endpoint,
            done: Some(done),
            thread: Some(thread::spawn(body)),
            _folder: folder,
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.done.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn listening(path: &Path) -> socket2::Socket {
    let listener = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(&SockAddr::unix(path).unwrap()).unwrap();
    listener.listen(16).unwrap();
    listener
}

fn hasty(endpoint: &Endpoint) -> Spec {
    spec(endpoint, echo(64)).timeouts_ms(2_000, 200)
}

/// Echoes `times` messages, then falls silent.
fn echoing(mut stream: Stream, times: usize) -> Stream {
    stream.guard().unwrap();
    let mut buffer = [0; 64];
    for _ in 0..times {
        let mut filled = 0;
        while filled < buffer.len() {
            match stream.receive(&mut buffer[filled..]).unwrap() {
                0 => return stream,
                count => filled += count,
            }
        }
        stream.send_all(&buffer).unwrap();
    }
    stream
}

#[test]
fn a_server_that_never_answers_is_given_up_at_the_deadline() {
    for kind in Transport::CHANNELS {
        let server = Serving::start(kind, Some);
        let begin = Instant::now();
        let error = Case::prepare(&hasty(&server.endpoint)).map(drop).unwrap_err();
        assert_eq!(
            (error.stage, error.class),
            (Stage::Verify, Some(ErrorClass::Timeout)),
            "{kind:?}: {error}"
        );
        assert!(begin.elapsed() >= Duration::from_millis(200), "{kind:?}");
    }
}

#[test]
fn a_server_that_ends_while_it_is_waited_for_is_noticed() {
    for kind in Transport::CHANNELS {
        // The channel is dropped: it ends after two messages, while the third is awaited.
        let server = Serving::start(kind, |stream| {
            drop(echoing(stream, 2));
            None
        });
        let patient = spec(&server.endpoint, echo(64)).timeouts_ms(60_000, 60_000);
        let mut case = Case::prepare(&patient).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let result = case.watched_trial(TRIAL, || true).unwrap();
        let classes: Vec<_> = result.errors.keys().copied().collect();
        assert_eq!(classes, [ErrorClass::Reset], "{kind:?}: {:?}", result.errors);
    }
}

#[test]
fn a_trial_that_is_cut_short_waits_for_nobody() {
    for kind in Transport::CHANNELS {
        let server = Serving::start(kind, |stream| Some(echoing(stream, 2)));
        let patient = spec(&server.endpoint, echo(64)).timeouts_ms(60_000, 60_000);
        let mut case = Case::prepare(&patient).unwrap();
        let begin = Instant::now();
        let mut looks = 0;
        let long = TrialPhases::without_warm_up(60_000_000_000);
        let result = case.watched_trial(long, || {
            looks += 1;
            looks < 5
        });
        assert_eq!(result.unwrap().requests_total, 2, "{kind:?}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{kind:?}");
    }
}

#[test]
fn another_kind_than_the_one_asked_for_is_refused() {
    for (offered, wanted) in [(Transport::Pipe, Transport::Shm), (Transport::Shm, Transport::Pipe)] {
        let server = Serving::start(offered, Some);
        let path = server.endpoint.address.path().unwrap().to_owned();
        let endpoint = Endpoint::plain(Address::Channel(wanted, path));
        let error = Case::prepare(&hasty(&endpoint)).map(drop).unwrap_err();
        assert_eq!(error.stage, Stage::Connect, "{offered:?} for {wanted:?}: {error}");
        // Advice about certificates would mislead.
        assert_eq!(
            error.class,
            Some(ErrorClass::Protocol),
            "{offered:?} for {wanted:?}: {error}"
        );
    }
}

/// A server that hands over `given` descriptors to each client.
fn handing(given: impl Fn() -> Vec<OwnedFd> + Send + 'static) -> (Endpoint, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = listening(&path);
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let (given, mut space) = (
                given(),
                [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))],
            );
            let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
            let mut rights = rustix::net::SendAncillaryBuffer::new(&mut space);
            rights.push(rustix::net::SendAncillaryMessage::ScmRights(&given));
            let flags = rustix::net::SendFlags::empty();
            rustix::net::sendmsg(&client, &[std::io::IoSlice::new(&[0])], &mut rights, flags).unwrap();
            // The client's watch ends its wait.
            let _ = (&client).read(&mut [0]);
        }
    });
    (Endpoint::plain(Address::Channel(Transport::Pipe, path)), folder)
}

#[test]
fn what_is_no_pipe_is_not_taken_for_one() {
    let (endpoint, _folder) = handing(|| {
        let null = || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .unwrap()
        };
        vec![null().into(), null().into()]
    });
    let error = Case::prepare(&hasty(&endpoint)).map(drop).unwrap_err();
    assert_eq!(error.cause, "what the server hands over is no pipe");
}

/// A named pipe that the server may only read from. The client may write there, and must not.
#[test]
fn a_pipe_of_others_is_not_written_to() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("theirs");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o644.into()).unwrap();
    // Holds the pipe open, so that opening it elsewhere does not wait.
    let theirs = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let (read, (_reader, write)) = (std::fs::File::open(&path).unwrap(), rustix::pipe::pipe().unwrap());
    let (endpoint, _folder) = handing(move || vec![read.try_clone().unwrap().into(), write.try_clone().unwrap()]);
    let error = Case::prepare(&hasty(&endpoint)).map(drop).unwrap_err();
    assert_eq!(
        (error.stage, error.class),
        (Stage::Verify, Some(ErrorClass::Timeout)),
        "{error}"
    );
    rustix::fs::fcntl_setfl(&theirs, rustix::fs::OFlags::NONBLOCK).unwrap();
    let nothing = (&theirs).read(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "nothing was written");
}

#[test]
fn a_client_that_ends_frees_the_server() {
    for kind in Transport::CHANNELS {
        let server = Running::start(Pattern::Echo, kind);
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        for _ in 0..20 {
            run(&spec(&server.endpoint, echo(100_000)), TRIAL).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        // Other tests of this program have threads, too; 20 clients would have left 40 threads.
        while threads() >= 40 {
            assert!(Instant::now() < deadline, "{kind:?}: {} threads", threads());
            thread::sleep(Duration::from_millis(10));
        }
    }
}
