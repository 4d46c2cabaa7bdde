//! Stacks of real servers: their start, and the error if it fails.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    common::{have, needs, script, shows},
    other_users::can_be_somebody_else,
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Bindings, SOCKET, ServiceBinding},
    container::{Network, RenderedContainer},
    engine::EngineKind,
    record::Stage,
    service::{Ready, ReadyCheck, RenderedService, Stop},
};
use lasthop_stack::{
    container::{engine::Engine, launch::Launch, site::Housing},
    guard::Guard,
    readiness,
    sandbox::{Sandbox, Wanted},
    stack::{Stack, StackPlan, StartError},
};
use lasthop_system::process::{self, Stat};
use lasthop_trial::address::{Address, Transport, UNIX_NAME_MAX};

struct Run {
    guard: Guard,
    sandbox: Sandbox,
    record: tempfile::TempDir,
}

fn wanted(name: &str, transport: Transport, program: &str) -> Wanted {
    Wanted {
        name: name.to_owned(),
        transport,
        program: program.into(),
        recipe: name.to_owned(),
        packages: BTreeMap::new(),
        socket: SOCKET.to_owned(),
        unprivileged: false,
        in_container: false,
        is_built: false,
        authority: None,
    }
}

/// The service, the stage, the cause and the end of the log of an error.
fn parts(error: &StartError) -> [&str; 4] {
    let stage = match error.stage {
        Stage::Prepare => "prepare",
        Stage::Start => "start",
        Stage::Ready => "ready",
        _ => "another stage",
    };
    [&error.service, stage, &error.cause, &error.log.tail]
}

impl Run {
    fn new() -> Self {
        let sandbox = Sandbox::create().unwrap();
        let guard = Guard::launch_from(Path::new(env!("CARGO_BIN_EXE_lasthop")), &sandbox).unwrap();
        Self {
            guard,
            sandbox,
            record: tempfile::tempdir().unwrap(),
        }
    }

    fn bind(&self, stack: usize, transport: Transport, program: &str) -> Bindings {
        let wanted = wanted("app", transport, program);
        self.sandbox.bind(self.record.path(), 0, stack, &[wanted]).unwrap()
    }

    fn start(&self, bindings: Bindings, service: RenderedService) -> Result<Stack, StartError> {
        Stack::start(
            &self.guard,
            &StackPlan {
                bindings,
                services: vec![service],
                containers: IndexMap::new(),
            },
        )
    }

    /// A service that is a shell script, which listens on TCP if at all.
    fn script(&self, script: &str) -> (Bindings, RenderedService) {
        self.script_of(0, script)
    }

    /// A service of another stack, with its own folders.
    fn script_of(&self, stack: usize, script: &str) -> (Bindings, RenderedService) {
        let bindings = self.bind(stack, Transport::Tcp, "/bin/sh");
        let service = service(&bindings.services["app"], &["/bin/sh", "-c", script]);
        (bindings, service)
    }
}

fn service(binding: &ServiceBinding, command: &[&str]) -> RenderedService {
    RenderedService {
        name: binding.name.clone(),
        recipe: "test".into(),
        command: command.iter().map(ToString::to_string).collect(),
        build: vec![],
        prepare: vec![],
        prepare_timeout: Duration::from_secs(20),
        environment: vec![],
        own_memory: false,
        workers: 1,
        files: vec![],
        ready: Ready {
            check: ReadyCheck::Connect,
            timeout: Duration::from_secs(20),
        },
        stop: Stop {
            signal: "QUIT".into(),
            timeout: Duration::from_secs(20),
        },
        endpoint: binding.endpoint(),
        secret: String::new(),
        conditions: vec![],
    }
}

fn nginx(bindings: &Bindings) -> RenderedService {
    let binding = &bindings.services["app"];
    let listen = binding.listen.to_string();
    let tls = binding.tls.as_ref().map_or_else(String::new, |files| {
        format!(
            "ssl_certificate {}; ssl_certificate_key {};",
            files.certificate.display(),
            files.key.display()
        )
    });
    let listen = if binding.tls.is_some() {
        format!("{listen} ssl")
    } else {
        listen
    };
    let text = format!(
        "user {user}; daemon off; worker_processes 2; pid {run}/pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off;\n\
         client_body_temp_path {run}/a; proxy_temp_path {run}/b; fastcgi_temp_path {run}/c;\n\
         uwsgi_temp_path {run}/d; scgi_temp_path {run}/e;\n\
         server {{ listen {listen}; {tls} location /up {{ return 204; }} }} }}\n",
        user = bindings.account.user,
        run = binding.runtime.display(),
    );
    RenderedService {
        files: vec![("nginx.conf".into(), text.into_bytes())],
        ready: Ready {
            check: ReadyCheck::Http {
                path: "/up".into(),
                status: 204,
            },
            timeout: Duration::from_secs(20),
        },
        ..service(
            binding,
            &["/usr/sbin/nginx", "-p", "./", "-c", "nginx.conf", "-e", "stderr"],
        )
    }
}

#[test]
fn nginx_starts_and_stops_on_every_transport_that_it_has_all_at_once() {
    let run = Run::new();
    let transports = [
        Transport::Unix,
        Transport::Tcp,
        Transport::Tcp6,
        Transport::Tls,
        Transport::TlsUnix,
    ];
    let plan = |(stack, transport): (usize, &Transport)| {
        let bindings = run.bind(stack, *transport, "/usr/sbin/nginx");
        StackPlan {
            services: vec![nginx(&bindings)],
            bindings,
            containers: IndexMap::new(),
        }
    };
    let plans: Vec<StackPlan> = transports.iter().enumerate().map(plan).collect();
    let stacks: Vec<Stack> = Stack::start_all(&run.guard, &plans)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for (stack, plan) in stacks.iter().zip(&plans) {
        let instance = stack.instance("app").unwrap();
        assert_eq!(stack.stack, plan.bindings.stack);
        assert_eq!(instance.log, plan.bindings.services["app"].directory.join("log"));
        assert!(readiness::answers(&instance.endpoint.address));
        assert!(stack.died().is_none());
    }
    let pids: Vec<i32> = stacks.iter().map(|stack| stack.instances[0].pid).collect();
    for result in Stack::stop_all(&stacks) {
        result.unwrap();
    }
    assert!(pids.iter().all(|pid| Stat::of(*pid).is_none()));
    assert!(
        plans
            .iter()
            .all(|plan| !readiness::answers(&plan.bindings.services["app"].address))
    );
}

#[test]
fn a_server_that_dies_at_start_shows_the_end_of_its_log() {
    let run = Run::new();
    let (bindings, service) = run.script("echo reading; echo 'bad option on line 3' >&2; exit 5");
    let error = run.start(bindings, service).unwrap_err();
    assert_eq!(
        parts(&error),
        [
            "app",
            "ready",
            "it ended with status 5 before it was ready",
            "reading\nbad option on line 3"
        ]
    );
}

#[test]
fn a_server_that_becomes_a_daemon_is_told_to_stay() {
    let run = Run::new();
    let (bindings, service) = run.script("sleep 1000 & exit 0");
    let error = run.start(bindings, service).unwrap_err().cause;
    assert!(
        error.contains("it ended with status 0 before it was ready; a server must stay in the foreground"),
        "{error}"
    );
}

#[test]
fn a_server_that_never_gets_ready_says_what_the_last_check_saw() {
    let run = Run::new();
    let (bindings, mut service) = run.script("echo still loading; exec sleep 1000");
    service.ready.timeout = Duration::from_secs(2);
    let error = run.start(bindings, service).unwrap_err();
    let cause = "it was not ready within 2.0 s; the last check failed: Connection refused (os error 111)";
    assert_eq!(parts(&error), ["app", "ready", cause, "still loading"]);
}

#[test]
fn a_wrong_status_is_not_ready() {
    let run = Run::new();
    // A busy machine needs longer just to start nginx.
    let mut errors = [200, 2_000, 20_000]
        .into_iter()
        .enumerate()
        .map(|(stack, milliseconds)| {
            let bindings = run.bind(stack, Transport::Unix, "/usr/sbin/nginx");
            let mut service = nginx(&bindings);
            service.ready = Ready {
                check: ReadyCheck::Http {
                    path: "/down".into(),
                    status: 200,
                },
                timeout: Duration::from_millis(milliseconds),
            };
            run.start(bindings, service).unwrap_err().cause
        });
    let said = "the last check failed: GET /down answered 404, not 200";
    assert!(errors.any(|error| error.contains(said)), "never: {said}");
}

#[test]
fn a_command_can_be_the_check() {
    let run = Run::new();
    let (bindings, mut service) = run.script("touch ready; exec sleep 1000");
    let file = bindings.services["app"].directory.join("ready");
    service.ready.check = ReadyCheck::Command(vec!["/usr/bin/test".into(), "-e".into(), file.display().to_string()]);
    let stack = run.start(bindings, service).unwrap();
    stack.stop().unwrap();
    let (bindings, mut service) = run.script_of(1, "exec sleep 1000");
    // Longer than the service's timeout: the deadline must not discard its result.
    service.ready.check = ReadyCheck::Command(vec!["/bin/sh".into(), "-c".into(), "sleep 0.1; exit 3".into()]);
    service.ready.timeout = Duration::from_millis(50);
    let error = run.start(bindings, service).unwrap_err().cause;
    assert!(
        error.contains("the last check failed: `/bin/sh -c sleep 0.1; exit 3` ended with status 3"),
        "{error}"
    );
}

#[test]
fn a_port_that_is_taken_is_never_measured() {
    let run = Run::new();
    let (bindings, service) = run.script("exec sleep 1000");
    let Address::Tcp(address) = bindings.services["app"].address else {
        unreachable!()
    };
    let _stranger = TcpListener::bind(address).unwrap();
    let error = run.start(bindings, service).unwrap_err();
    let [service, stage, cause, log] = parts(&error);
    assert_eq!([service, stage, log], ["app", "start", ""]);
    let pid = std::process::id();
    assert!(
        cause.starts_with(&format!("{address} is already answered by process {pid} (`")),
        "{cause}"
    );
    assert!(cause.ends_with("`); refusing to measure it"), "{cause}");
}

#[test]
fn a_stranger_that_takes_the_port_meanwhile_is_found_out() {
    let run = Run::new();
    let (bindings, service) = run.script("touch up; exec sleep 1000");
    let Address::Tcp(address) = bindings.services["app"].address else {
        unreachable!()
    };
    let up = bindings.services["app"].directory.join("up");
    let stranger = std::thread::spawn(move || {
        while !up.exists() {
            std::thread::yield_now();
        }
        TcpListener::bind(address).unwrap()
    });
    let error = run.start(bindings, service).unwrap_err().cause;
    let _listener = stranger.join().unwrap();
    shows(&error, [&format!("is answered by process {} (`", std::process::id())]);
}

#[test]
fn a_stranger_in_the_place_of_a_socket_is_found_out() {
    let run = Run::new();
    let bindings = run.bind(0, Transport::Unix, "/bin/sh");
    let binding = &bindings.services["app"];
    let (up, path) = (binding.directory.join("up"), binding.listen.path().unwrap().to_owned());
    let mut service = service(binding, &["/bin/sh", "-c", "touch up; exec sleep 1000"]);
    service.ready.timeout = Duration::from_millis(300);
    let stranger = std::thread::spawn(move || {
        while !up.exists() {
            std::thread::yield_now();
        }
        UnixListener::bind(path).unwrap()
    });
    let error = run.start(bindings, service).unwrap_err().cause;
    let listener = stranger.join().unwrap();
    shows(&error, [&format!("is answered by process {} (`", std::process::id())]);
    listener.set_nonblocking(true).unwrap();
    assert!(
        listener
            .accept()
            .is_ok_and(|(mut asked, _)| matches!(asked.read(&mut [0]), Ok(0))),
        "something was said to it"
    );
}

#[test]
fn clients_reach_the_server_whatever_is_put_in_the_place_of_its_socket() {
    needs!(have("nginx"), can_be_somebody_else());
    let run = Run::new();
    let bindings = run.bind(0, Transport::Unix, "/usr/sbin/nginx");
    let nginx = nginx(&bindings);
    let binding = bindings.services["app"].clone();
    let stack = run.start(bindings, nginx).unwrap();
    let socket = binding.listen.path().unwrap();
    let ask = || {
        let mut connection = UnixStream::connect(stack.instances[0].endpoint.address.path().unwrap()).unwrap();
        connection.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    let before = ask();
    assert!(before.starts_with("HTTP/1.1 "), "{before}");
    fs::rename(socket, socket.with_extension("away")).unwrap();
    let _stranger = UnixListener::bind(socket).unwrap();
    assert!(ask().starts_with("HTTP/1.1 "));
    fs::remove_file(socket).unwrap();
    std::os::unix::fs::symlink("/dev/null", socket).unwrap();
    assert!(ask().starts_with("HTTP/1.1 "));
    stack.stop().unwrap();
}

/// An engine's client that records its commands, and the process that stands for the container.
fn spied_engine(folder: &Path) -> Engine {
    let program = folder.join("podman");
    let lines = format!(
        "cd {}\necho \"$*\" >>asked\ncase $1 in\nrun) echo $$ >pid; exec sleep 1000;;\ncontainer) cat pid;;\nesac",
        folder.display()
    );
    script(&program, &lines);
    Engine {
        kind: EngineKind::Podman,
        program,
        version: String::new(),
        rootless: false,
        parts: String::new(),
    }
}

fn container(engine: Engine, bindings: &Bindings) -> Launch {
    Launch {
        engine,
        name: "the-container".into(),
        image: "image".into(),
        run: "run".into(),
        sandbox: "sandbox".into(),
        container: RenderedContainer {
            network: Network::Host,
            publish: None,
            volume: None,
            cpus: None,
            memory: None,
            sysctls: IndexMap::new(),
        },
        bridge: None,
        publish: None,
        volume: None,
        joined: None,
        holds_others: false,
        writable: vec![],
        readable: vec![],
        directory: bindings.services["app"].directory.clone(),
        cpus: vec![],
        user: "0:0".into(),
    }
}

/// The container may outlive the engine's client.
#[test]
fn a_container_that_is_refused_after_its_start_is_removed() {
    let run = Run::new();
    let folder = tempfile::tempdir().unwrap();
    let (bindings, service) = run.script("only the engine starts it");
    let Address::Tcp(address) = bindings.services["app"].address else {
        unreachable!()
    };
    let launch = container(spied_engine(folder.path()), &bindings);
    let up = folder.path().join("pid");
    let stranger = std::thread::spawn(move || {
        while !up.exists() {
            std::thread::yield_now();
        }
        TcpListener::bind(address).unwrap()
    });
    let containers = IndexMap::from([("app".to_owned(), Housing::Own(launch))]);
    let plan = StackPlan {
        bindings,
        services: vec![service],
        containers,
    };
    let error = Stack::start(&run.guard, &plan).unwrap_err().cause;
    let _listener = stranger.join().unwrap();
    assert!(error.contains("refusing to measure it"), "{error}");
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    let last = asked.lines().last().unwrap();
    assert!(
        last.starts_with("rm --force") && last.ends_with("the-container"),
        "{asked}"
    );
}

#[test]
fn a_socket_may_have_the_longest_path_that_the_kernel_allows() {
    let run = Run::new();
    let mut bindings = run.bind(0, Transport::Unix, "/usr/sbin/nginx");
    let place = tempfile::tempdir().unwrap();
    let rest = UNIX_NAME_MAX - place.path().as_os_str().len() - "//socket".len();
    let folder = place.path().join("x".repeat(rest));
    fs::create_dir(&folder).unwrap();
    let path = folder.join("socket");
    assert_eq!(path.as_os_str().len(), UNIX_NAME_MAX);
    bindings.services["app"].address = Address::Unix(path);
    let service = nginx(&bindings);
    run.start(bindings, service).unwrap().stop().unwrap();
}

#[test]
fn a_preparation_that_fails_names_the_command() {
    let run = Run::new();
    let (bindings, mut service) = run.script("exit 0");
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    service.prepare = vec![
        words(&["/bin/mkdir", "data"]),
        words(&["/bin/sh", "-c", "echo no space >&2; exit 2"]),
    ];
    let directory = bindings.services["app"].directory.clone();
    let error = run.start(bindings, service).unwrap_err();
    assert!(directory.join("data").is_dir());
    let cause = "`/bin/sh -c echo no space >&2; exit 2` ended with status 2";
    assert_eq!(parts(&error), ["app", "prepare", cause, "no space"]);
}

#[test]
fn a_preparation_that_hangs_is_killed_with_what_it_started() {
    let run = Run::new();
    let (bindings, mut service) = run.script("exit 0");
    service.prepare = vec![["/bin/sh", "-c", "sleep 1000 & sleep 1000"].map(str::to_owned).to_vec()];
    service.prepare_timeout = Duration::from_millis(300);
    let error = run.start(bindings, service).unwrap_err().cause;
    assert!(
        error.contains("did not end within 300ms (start.prepare_timeout of its recipe) and was killed"),
        "{error}"
    );
    assert_eq!(process::descendants(run.guard.pid()), Vec::<i32>::new());
}

/// The container may outlive the engine's client.
#[test]
fn the_container_of_a_preparation_that_hangs_is_removed() {
    let run = Run::new();
    let folder = tempfile::tempdir().unwrap();
    let (bindings, mut service) = run.script("only the engine starts it");
    service.prepare = vec![vec!["true".to_owned()]];
    service.prepare_timeout = Duration::from_millis(300);
    let launch = container(spied_engine(folder.path()), &bindings);
    let containers = IndexMap::from([("app".to_owned(), Housing::Own(launch))]);
    let error = Stack::start(
        &run.guard,
        &StackPlan {
            bindings,
            services: vec![service],
            containers,
        },
    )
    .unwrap_err();
    assert_eq!(error.stage, Stage::Prepare);
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    let last = asked.lines().last().unwrap();
    assert!(
        last.starts_with("rm --force") && last.ends_with("the-container-prepare-0"),
        "{asked}"
    );
}

#[test]
fn a_program_that_is_missing_and_a_file_that_leads_out_are_refused() {
    let run = Run::new();
    let (bindings, mut service) = run.script("exit 0");
    service.command[0] = "/nowhere/server".into();
    let error = run.start(bindings, service).unwrap_err();
    let cause = "cannot start `/nowhere/server`: No such file or directory (os error 2)";
    assert_eq!(parts(&error), ["app", "start", cause, ""]);
    let (bindings, mut service) = run.script_of(1, "exit 0");
    service.files = vec![(PathBuf::from("../../evil"), vec![])];
    let error = run.start(bindings, service).unwrap_err().cause;
    shows(&error, ["the file name ../../evil is outside the service's directory"]);
}

#[test]
fn files_environment_and_scripts_arrive() {
    let run = Run::new();
    let (bindings, mut service) = run.script("exec ./app/run");
    let directory = bindings.services["app"].directory.clone();
    service.files = vec![(
        "app/run".into(),
        b"#!/bin/sh\necho \"$GREETING\" > said\nexec sleep 1000\n".to_vec(),
    )];
    service.environment = vec![("GREETING".into(), "hello there".into())];
    let said = directory.join("said").display().to_string();
    service.ready.check = ReadyCheck::Command(vec!["/bin/grep".into(), "-qx".into(), "hello there".into(), said]);
    service.stop.signal = "TERM".into();
    run.start(bindings, service).unwrap().stop().unwrap();
    assert_eq!(fs::read_to_string(directory.join("said")).unwrap(), "hello there\n");
}

/// The servers' account could make a link to any file of root, which clients would then read as an authority, or send
/// to another host.
#[test]
fn an_authority_of_the_server_is_copied_and_no_link_is_followed() {
    let run = Run::new();
    for (stack, (make, expected)) in [("cp -- $0 ca.pem", "mine"), ("ln -s -- $0 ca.pem", "")]
        .into_iter()
        .enumerate()
    {
        let mut bindings = run.bind(stack, Transport::Tls, "/bin/sh");
        let binding = bindings.services.get_mut("app").unwrap();
        let (theirs, trusted) = (
            binding.runtime.join("ca.pem"),
            run.sandbox.path().join(format!("{stack}.pem")),
        );
        binding.own_authority = Some(theirs);
        binding.tls.as_mut().unwrap().authority.clone_from(&trusted);
        let secret = run.record.path().join("secret");
        fs::write(&secret, "mine").unwrap();
        let mut service = service(binding, &["/bin/sh", "-c", "exec sleep 1000"]);
        let script = format!("cd {} && {make}", binding.runtime.display());
        service.prepare = vec![
            ["/bin/sh", "-c", &script, &secret.display().to_string()]
                .map(str::to_owned)
                .into(),
        ];
        service.ready.check = ReadyCheck::Command(vec!["/bin/true".into()]);
        service.stop.signal = "TERM".into();
        match run.start(bindings, service) {
            Ok(stack) => stack.stop().unwrap(),
            Err(error) => assert!(
                expected.is_empty() && error.cause.contains("are to trust"),
                "{}",
                error.cause
            ),
        }
        assert_eq!(fs::read_to_string(trusted).unwrap_or_default(), expected);
    }
}

#[test]
fn when_a_later_service_fails_the_earlier_ones_are_stopped() {
    let run = Run::new();
    let wanted = ["app", "late"].map(|name| wanted(name, Transport::Unix, "/usr/sbin/nginx"));
    let bindings = run.sandbox.bind(run.record.path(), 0, 0, &wanted).unwrap();
    let first = nginx(&bindings);
    let late = service(&bindings.services["late"], &["/bin/false"]);
    let address = bindings.services["app"].address.clone();
    let plan = StackPlan {
        bindings,
        services: vec![first, late],
        containers: IndexMap::new(),
    };
    let error = Stack::start(&run.guard, &plan).unwrap_err();
    assert_eq!(error.service, "late");
    assert!(!readiness::answers(&address));
}

#[test]
fn a_service_that_dies_while_it_runs_is_noticed() {
    let run = Run::new();
    let bindings = run.bind(0, Transport::Tcp, "/usr/sbin/nginx");
    let service = nginx(&bindings);
    let stack = run.start(bindings, service).unwrap();
    // SAFETY: kill has no memory effects; the process belongs to this test.
    assert_eq!(unsafe { libc::kill(stack.instances[0].pid, libc::SIGKILL) }, 0);
    while stack.died().is_none() {
        std::thread::yield_now();
    }
    let (instance, exit) = stack.died().unwrap();
    assert_eq!(
        (instance.name.as_str(), exit.to_string().as_str()),
        ("app", "was ended by signal 9 (SIGKILL)")
    );
}
