//! `lasthop survey` beside stacks of real programs: each link is found, named correctly and counted, and none is
//! invented.

use std::{
    fs,
    net::{TcpStream, UdpSocket},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{
        Lasthop, Ran, edit,
        engines::{World, have_engine, take_environment},
        have, have_python, have_setup, needs, output, shows, signal, words,
    },
    compare::folder,
    driver_at::have_namespaces,
    load_peers::{Server, free_port, have_postgres},
    other_users::{STRANGER, addresses, can_be_somebody_else},
    survey::{Link, Redis, Watching, has, links_of, survey, the_only},
    survey_measure::{commands, is_loaded},
};

/// The servers of an experiment until dropped: the driver stays in its first, long trial.
struct Stack<'a> {
    lasthop: &'a Lasthop,
    run: Child,
}

/// Options of a long run, with a rate that is negligible, or chosen by the test.
fn lasting<'a>(experiment: &'a str, choices: &[&'a str], rate: &'a str) -> Vec<&'a str> {
    let long = words("--rounds=1 --blocks=2 --trial=20m --warm-up=1s --budget=1h --no-headroom --rate");
    [&["run", experiment], choices, &long[..], &[rate]].concat()
}

impl<'a> Stack<'a> {
    fn start(lasthop: &'a Lasthop, mut command: Command) -> Self {
        let before = lasthop.runs().len();
        let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut stack = Self { lasthop, run };
        let deadline = Instant::now() + Duration::from_secs(300);
        let is_up = || {
            let lines = lasthop.runs().get(before).map(|run| run.join("trials.jsonl"));
            let lines = lines.and_then(|path| fs::read_to_string(path).ok());
            lines.is_some_and(|text| text.contains("{\"round\""))
        };
        while !is_up() {
            assert!(
                stack.run.try_wait().unwrap().is_none(),
                "the run of {command:?} has ended"
            );
            assert!(Instant::now() < deadline, "no round in five minutes");
            thread::sleep(Duration::from_millis(20));
        }
        stack
    }

    fn of(lasthop: &'a Lasthop, experiment: &str, choices: &[&str]) -> Self {
        Self::start(lasthop, lasthop.command(lasting(experiment, choices, "1")))
    }

    /// The listening address of a service.
    #[track_caller]
    fn address(&self, service: &str) -> String {
        let found = addresses(self.lasthop, service).pop();
        found.unwrap_or_else(|| panic!("{service} is not there"))
    }
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        signal(&self.run, libc::SIGINT);
        let _ = self.run.wait();
        self.lasthop.wait_until_gone();
    }
}

/// A link of a stack: the service at its end, its name, its shape, and requests over the link per request to the stack
/// if segments show them.
type Known = (&'static str, &'static str, &'static str, Option<f64>);

/// Loads a stack, and checks that the survey finds exactly these links. Returns them in this order.
#[track_caller]
fn every_link(stack: &Stack<'_>, front: &str, path: &str, known: &[Known]) -> Vec<Link> {
    const REQUESTS: u32 = 1_000;
    let places: Vec<String> = known.iter().map(|(service, ..)| stack.address(service)).collect();
    let watching = Watching::start(&places.iter().map(String::as_str).collect::<Vec<_>>());
    let url = format!("http://{}{path}", stack.address(front));
    let load = format!("load {url} -n {REQUESTS} -c 1 --rate 500 -d 2m --quiet");
    Lasthop::new().run(words(&load)).ok();
    let mut links = watching.links();
    assert_eq!(links.len(), known.len(), "{links:#?}");
    links.sort_by_key(|link| places.iter().position(|place| link.link["address"] == *place));
    for (link, (_, name, shape, per_request)) in links.iter().zip(known) {
        assert_eq!((link.name().as_str(), link.shape()), (*name, *shape), "{link:#?}");
        let kept = if *shape == "per-request" { 0.1 } else { 0.05 };
        match per_request {
            Some(each) => link.requested((f64::from(REQUESTS) * each) as u32, kept),
            None => assert!(link.requests().is_nan(), "{link:#?}"),
        }
    }
    links
}

/// A copy of an experiment with replaced texts, under its own name, because its packages are installed for that name.
#[track_caller]
fn edited(lasthop: &Lasthop, experiment: &str, edits: &[(&str, &str, &str)]) -> String {
    lasthop.run(["new", experiment, "--from", experiment]).ok();
    let folder = lasthop.home().join(experiment);
    for (file, old, new) in edits {
        edit(&folder.join(file), old, new);
    }
    format!("./{experiment}")
}

/// One connection per request, or kept connections, from one nginx to four processes that count as one server.
#[test]
fn workers_are_one_server() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    for (choices, shape) in [
        (["worker=sync", "reuse=per-request"], "per-request"),
        (["worker=gthread", "reuse=keep-alive"], "keep-alive"),
    ] {
        let lasthop = Lasthop::new();
        let four = [("experiment.toml", "workers = 1\n", "workers = 4\n")];
        let experiment = edited(&lasthop, "nginx-gunicorn", &four);
        let one = [
            "--only=transport=tcp",
            "--set=connections=1",
            "--set",
            choices[0],
            "--set",
            choices[1],
        ];
        let stack = Stack::of(&lasthop, &experiment, &one);
        let links = every_link(
            &stack,
            "nginx",
            "/",
            &[("gunicorn", "nginx → gunicorn", shape, Some(1.0))],
        );
        assert_eq!(links[0].link["server"]["processes"], 5, "with their parent: {links:#?}");
    }
}

#[test]
fn node_asks_redis() {
    needs!(have_setup("node-redis"));
    let lasthop = Lasthop::new();
    let one = ["--only=transport=tcp", "--set=connections=1", "--set=statements=1"];
    let stack = Stack::of(&lasthop, "node-redis", &one);
    let known = ("redis", "node server.js → redis-server", "keep-alive", Some(1.0));
    every_link(&stack, "node", "/1", &[known]);
    every_link(&stack, "node", "/5", &[(known.0, known.1, known.2, Some(5.0))]);
}

/// PDO checks a kept connection before each use. On a connection that begins with a login, requests cannot be counted,
/// and the survey gives no number.
#[test]
fn php_asks_mariadb() {
    needs!(have_setup("php-mariadb"));
    for (reuse, shape, per_request) in [
        ("reuse=keep-alive", "keep-alive", Some(6.0)),
        ("reuse=per-request", "sessions", None),
    ] {
        let lasthop = Lasthop::new();
        let one = [
            "--only=transport=tcp",
            "--set=connections=1",
            "--set=statements=5",
            "--set",
            reuse,
        ];
        let stack = Stack::of(&lasthop, "php-mariadb", &one);
        let known = ("mariadb", "php-fpm → mariadbd", shape, per_request);
        every_link(&stack, "nginx", "/5", &[known]);
    }
}

/// Two links; the pooler keeps the connections of the second.
#[test]
fn go_asks_postgresql_through_pgbouncer() {
    needs!(have_setup("go-postgres"), have("pgbouncer"), have_postgres("postgres"));
    let lasthop = Lasthop::new();
    let pooler = "[services.pgbouncer]\nrecipe = \"pgbouncer\"\nneeds = [\"postgres\"]\n\
                  settings = { server = \"host={{ postgres.host }} port={{ postgres.port }}\" }\n";
    let postgres = "[services.postgres]\nrecipe = \"postgres\"\n";
    let behind = format!("{postgres}listen = \"tcp\"\n\n{pooler}");
    let dsn = "postgres://lasthop:{{ secret }}@{{ pgbouncer.host }}:{{ pgbouncer.port }}/lasthop\
               ?default_query_exec_mode=simple_protocol";
    let edits = [
        ("experiment.toml", "to = \"postgres\"", "to = \"pgbouncer\""),
        ("experiment.toml", "needs = [\"postgres\"]", "needs = [\"pgbouncer\"]"),
        ("experiment.toml", postgres, &behind),
        ("dsn.j2", "{{ postgres.dsn }}", dsn),
    ];
    let experiment = edited(&lasthop, "go-postgres", &edits);
    let one = words("--only=transport=tcp --set=connections=1 --set=statements=1 --set=pool=1");
    let stack = Stack::of(&lasthop, &experiment, &one);
    let known = [
        ("pgbouncer", "server → pgbouncer", "keep-alive", Some(1.0)),
        ("postgres", "pgbouncer → postgres", "keep-alive", Some(1.0)),
    ];
    every_link(&stack, "go", "/1", &known);
}

#[test]
fn memcached_is_asked() {
    needs!(have("memcached"));
    let port = free_port();
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-u", "nobody", "-p", &port.to_string()]);
    let at = format!("127.0.0.1:{port}");
    let _server = Server::start(&mut command, || std::net::TcpStream::connect(&at).is_ok());
    let watching = Watching::start(&[&at]);
    let url = format!("memcached://{at}");
    let load = format!("load {url} -n 2000 -c 2 --rate 1000 -d 2m --quiet --no-reference");
    Lasthop::new().run(words(&load)).ok();
    let links = watching.links();
    has(&links, "lasthop → memcached", "tcp");
    the_only(&links).requested(2_000, 0.05);
}

/// HAProxy sends requests to one server and the other in turns: three links.
#[test]
fn haproxy_has_a_link_to_each_server() {
    needs!(have("haproxy"), have("redis-server"));
    let (servers, folder, port) = ([Redis::start(), Redis::start()], folder(), free_port());
    let lines: String = servers
        .iter()
        .map(|server| format!("  server s{0} 127.0.0.1:{0}\n", server.port))
        .collect();
    let text = format!(
        "defaults\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\
         listen front\n  bind 127.0.0.1:{port}\n  balance roundrobin\n{lines}"
    );
    let file = folder.path().join("haproxy.cfg");
    fs::write(&file, text).unwrap();
    let at = format!("127.0.0.1:{port}");
    let mut command = Command::new("haproxy");
    command
        .env("PATH", "/usr/sbin:/usr/bin:/bin")
        .args(["-db", "-f"])
        .arg(&file);
    let _proxy = Server::start(&mut command, || std::net::TcpStream::connect(&at).is_ok());
    let watching = Watching::start(&[&at, &servers[0].colon(), &servers[1].colon()]);
    let url = format!("redis://{at}");
    let load = format!("load {url} --command PING --no-reference -n 4000 -c 4 --rate 2000 -d 2m -q");
    Lasthop::new().run(words(&load)).ok();
    let links = watching.links();
    assert_eq!(links.len(), 3, "{links:#?}");
    let (front, behind): (Vec<&Link>, Vec<&Link>) = links.iter().partition(|link| link.link["address"] == *at);
    assert_eq!(front[0].name(), "lasthop → haproxy");
    front[0].requested(4_000, 0.05);
    for link in &behind {
        assert_eq!(link.name(), "haproxy → redis-server");
        link.requested(2_000, 0.05);
    }
}

#[test]
fn a_connected_socket_of_udp_has_a_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    client.connect(address).unwrap();
    let links = Watching::start(&[&address.to_string()]).links();
    let link = &the_only(&links).link;
    assert_eq!((&link["transport"], &link["client"]), (&"udp".into(), &link["server"]));
    assert!(link["load"].is_null(), "{link}");
}

/// If lasthop sees only its own processes, the other end may be on any machine.
#[test]
fn a_link_whose_other_end_is_out_of_sight_is_left_out() {
    needs!(have_namespaces(), have("unshare"));
    let lasthop = Lasthop::new();
    let choices = ["--driver-at=netns:new", "--only=pattern=echo", "--only=transport=tcp"];
    let stack = Stack::start(&lasthop, lasthop.command(lasting("sockets", &choices, "200")));
    let at = stack.address("server");
    let has_it = |command: &mut Command| {
        let ran = Ran::from(command.stdin(Stdio::null()).output().unwrap()).ok();
        let links = links_of(&ran.json());
        links.iter().any(|link| link.link["address"] == *at)
    };
    let plain = lasthop.command(["survey", "--for", "2s", "--quiet", "--format", "json"]);
    let mut alone = Command::new("unshare");
    alone.args(["--pid", "--fork", "--mount-proc", "--"]);
    alone.arg(plain.get_program()).args(plain.get_args());
    take_environment(&mut alone, &plain);
    assert!(!has_it(&mut alone));
    let mut plain = plain;
    assert!(has_it(&mut plain));
}

/// Other users' processes have no names, the user's own have, and the survey says what is missing.
#[test]
fn an_ordinary_user_sees_what_he_may() {
    needs!(can_be_somebody_else(), have("redis-server"));
    let (redis, place) = (Redis::start(), folder());
    let program = place.path().join("lasthop");
    fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let lasthop = Lasthop::new();
    let as_stranger = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir("/").stdin(Stdio::null());
        take_environment(&mut command, &lasthop.command(arguments));
        command.uid(STRANGER).gid(STRANGER);
        command
    };
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let load = format!("load {url} --command PING --rate 500 -d 5m --quiet");
    let driver = as_stranger(&words(&load)).stdout(Stdio::null()).spawn().unwrap();
    is_loaded(|| commands(TcpStream::connect(("127.0.0.1", redis.port)).unwrap()), 300);
    let colon = redis.colon();
    let once = ["survey", "--for", "2s", "--quiet", "--format", "json", "--only", &colon];
    let ran = Ran::from(as_stranger(&once).output().unwrap());
    signal(&driver, libc::SIGINT);
    Server(driver);
    let seen = ran.ok().json();
    let links = links_of(&seen);
    has(&links, "lasthop → ?", "tcp");
    assert_eq!(the_only(&links).shape(), "keep-alive");
    let missing = seen["missing"].to_string();
    shows(&missing, ["processes of other users", "CAP_NET_ADMIN"]);
}

/// The links to the port of a service in a container, while the driver sends requests.
fn in_containers(world: &World, experiment: &str, service: &str, choices: &[&str]) -> Vec<Link> {
    let engine = ["--engine", world.engine];
    let stack = Stack::start(
        &world.lasthop,
        world.lasthop(&lasting(experiment, &[&engine, choices].concat(), "200")),
    );
    let other = Lasthop::new();
    let address = stack.address(service);
    let (_, port) = address.rsplit_once(':').unwrap();
    let command = world.lasthop_of(&other, &survey(&[&format!(":{port}")]));
    let watching = Watching::begin(other, command);
    thread::sleep(Duration::from_secs(1));
    let mut links = watching.links();
    links.retain(|link| link.requests() > 100.0);
    drop(stack);
    links
}

/// Checks that the container of an end has its name in the engine.
#[track_caller]
fn has_a_name(link: &Link, end: &str) {
    let place = link.link[end]["place"].as_str().unwrap_or_default();
    assert!(place.starts_with("container lasthop-"), "{link:#?}");
}

/// Checks that a port published by the packet filter has one link, from the client to the server in the container.
#[track_caller]
fn is_translated(links: &[Link]) {
    let link = the_only(links);
    assert_eq!(link.name(), "lasthop → redis-server");
    let [from, to] = ["published", "address"].map(|key| link.link[key].as_str().unwrap_or_default());
    assert!(!from.is_empty() && from != to, "{link:#?}");
    assert_eq!(link.link["crosses"], true);
    has_a_name(link, "server");
}

/// A redirection by a rule of the packet filter alone, in namespaces of the test's own. Each connection ends before a
/// look.
#[test]
fn a_redirected_port_without_a_container() {
    needs!(have_engine("podman"));
    let world = World::new("podman");
    let rule = "-t nat -A OUTPUT -p tcp --dport 8000 -j REDIRECT --to-ports 8001";
    output(world.inside("iptables").args(rule.split(' ')));
    let serve = ["serve", "--pattern", "echo", "--tcp", "127.0.0.1:8001"];
    let answers = || world.run(&["load", "echo://127.0.0.1:8001", "-n", "1", "--quiet"]).code == Some(0);
    let _server = Server::start(&mut world.lasthop(&serve), answers);
    let other = Lasthop::new();
    let command = world.lasthop_of(&other, &survey(&["127.0.0.1:8000"]));
    let watching = Watching::begin(other, command);
    let load = words("load echo://127.0.0.1:8000 -n 2000 --reuse per-request -d 2m -q");
    world.run(&load).ok();
    let links = watching.links();
    let link = the_only(&links);
    assert_eq!(link.link["address"], "127.0.0.1:8001", "{link:#?}");
    assert_eq!(link.shape(), "per-request");
    link.requested(2_000, 0.1);
}

fn every_link_of_containers(engine: &'static str, is_published: fn(&[Link])) {
    needs!(
        have("redis-server"),
        have("nginx"),
        have_python("containers"),
        have_engine(engine)
    );
    let world = World::new(engine);
    let redis = |path| {
        in_containers(
            &world,
            "redis-published-port",
            "redis",
            &["--only", path, "--set=connections=1"],
        )
    };
    is_published(&redis("path=published-port"));
    is_translated(&redis("path=published-host"));
    let links = in_containers(&world, "containers", "gunicorn", &["--only=path=bridge"]);
    let link = the_only(&links);
    assert_eq!(
        (link.name().as_str(), &link.link["crosses"]),
        ("nginx → gunicorn", &true.into())
    );
    assert!(link.link["published"].is_null(), "{link:#?}");
    has_a_name(link, "client");
    has_a_name(link, "server");
}

#[test]
fn every_link_of_containers_of_podman() {
    every_link_of_containers("podman", is_translated);
}

/// Docker's proxy has two links.
#[test]
fn every_link_of_containers_of_docker() {
    every_link_of_containers("docker", |links| {
        assert_eq!(links.len(), 2, "{links:#?}");
        let by_name = |name: &str| links.iter().find(|link| link.name() == name).expect(name);
        assert_eq!(by_name("lasthop → docker-proxy").link["crosses"], false);
        let behind = by_name("docker-proxy → redis-server");
        assert_eq!(behind.link["crosses"], true);
        has_a_name(behind, "server");
    });
}
