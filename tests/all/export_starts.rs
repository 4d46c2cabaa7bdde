//! What `lasthop export` writes starts as it says, and answers: in namespaces in which /srv and /run are empty, and which end
//! with all of their processes.

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Lasthop, go_cache, go_is_warm, have, skip};
use lasthop_plan::{catalog::Catalog, model::Experiment};

/// Whose rights the servers have, besides that to read what `lasthop setup` installed for root.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search \
                      --ambient-caps=+dac_read_search";
/// A record is all that an export needs.
const SETTINGS: [&str; 9] = [
    "--rounds",
    "1",
    "--blocks",
    "1",
    "--trial",
    "20ms",
    "--budget",
    "60s",
    "--no-headroom",
];

const APPLICATION: &str = "through an application";

/// One level of each factor, and of the transports those without TLS.
fn selection(experiment: &Experiment) -> (Vec<String>, Vec<String>) {
    let plain = |level: &String| ["unix", "tcp", "unixgram", "udp"].contains(&level.as_str());
    let mut transports = Vec::new();
    let mut words = Vec::new();
    for (name, factor) in &experiment.factors {
        let mut levels: Vec<String> = factor.usual().iter().map(ToString::to_string).collect();
        if name == "transport" {
            levels.retain(plain);
            transports = levels.clone();
        } else {
            levels.truncate(1);
        }
        words.extend(["--only".to_owned(), format!("{name}={}", levels.join(","))]);
    }
    (words, transports)
}

/// Folders of servers in an export, in start order.
fn servers(experiment: &Experiment, out: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for service in experiment.services.keys() {
        let numbered = |name: &String| {
            name.strip_prefix(service)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let folders = fs::read_dir(out)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir());
        let mut names: Vec<String> = folders
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .filter(numbered)
            .collect();
        names.sort();
        found.extend(
            names
                .into_iter()
                .filter(|name| !found.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    found
}

/// The server's part of the script.
fn start(out: &Path, record: &Path, name: &str) -> String {
    let exported = out.join(name);
    let mut script = format!(
        "mkdir -p /srv/{name} /run/{name}\n\
         for app in {1}/services/*/*/{name}/app; do if [ -d $app ]; then cp -r $app /srv/{name}; fi; done\n\
         cp -r {0}/. /srv/{name}\n\
         chown -R 65534:65534 /srv/{name} /run/{name}; cd /srv/{name}\n",
        exported.display(),
        record.display()
    );
    if let Ok(command) = fs::read_to_string(exported.join("command.sh")) {
        if command.contains("go build") {
            // Nobody can write to what is warm, and would compile everything.
            script += "[ -d /run/objects ] || cp -r \"$GOCACHE\" /run/objects; chown -R 65534:65534 /run/objects; \
                       export GOCACHE=/run/objects\n";
        }
        script += &format!("{NOBODY} sh ./command.sh &\n");
        if exported.join("set.sh").exists() {
            let at = if command.contains("--unixsocket") {
                format!("-s /run/{name}/{name}.sock")
            } else {
                "-p 6379".to_owned()
            };
            script += &format!("(until sh set.sh {at}; do sleep 0.1; done) >/dev/null 2>&1 &\n");
        }
    } else if exported.join("postgresql.conf").exists() {
        let data = format!("/run/{name}/data");
        script += &format!(
            "{NOBODY} initdb -D {data} --auth=trust --username=lasthop --no-sync --no-locale >/dev/null\n\
             echo 'CREATE DATABASE lasthop' | {NOBODY} postgres --single -D {data} postgres >/dev/null\n\
             cat postgresql.conf >> {data}/postgresql.conf; {NOBODY} postgres -D {data} &\n"
        );
    } else if exported.join("my.cnf").exists() {
        let data = format!("/run/{name}/data");
        script += &format!(
            "{NOBODY} mariadb-install-db --no-defaults --datadir={data} --skip-test-db --skip-name-resolve >/dev/null\n\
             printf '%s;\n' 'CREATE DATABASE lasthop' \"CREATE USER lasthop IDENTIFIED BY 'YOUR_PASSWORD'\" 'GRANT SELECT ON lasthop.* TO lasthop' > accounts.sql\n\
             {NOBODY} mariadbd --defaults-file=/srv/{name}/my.cnf --datadir={data} --init-file=/srv/{name}/accounts.sql \
             --skip-name-resolve --innodb-use-native-aio=OFF --pid-file=/run/{name}/pid &\n"
        );
    } else {
        let text = fs::read_to_string(exported.join("nginx.conf")).unwrap();
        let (upstreams, locations): (Vec<&str>, Vec<&str>) =
            text.split("\n\n").partition(|block| block.starts_with("upstream"));
        let paths =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|path| format!("{path}_temp_path {path};"));
        let whole = format!(
            "daemon off; pid pid; events {{}}\nhttp {{ access_log off; {}\n{}\nserver {{ listen 127.0.0.1:80{};\n{}\n}} }}\n",
            paths.join(" "),
            upstreams.join("\n"),
            if text.contains("grpc_pass") { " http2" } else { "" },
            locations.join("\n")
        );
        fs::write(exported.join("whole.conf"), whole).unwrap();
        script += &format!(
            "cp {}/whole.conf .; nginx -e stderr -p /run/{name} -c /srv/{name}/whole.conf &\n",
            exported.display()
        );
    }
    script
}

/// How a client reaches the application, as the export says.
fn client(experiment: &Experiment, out: &Path) -> String {
    let load = format!("'{}' load --duration 100ms", env!("CARGO_BIN_EXE_lasthop"));
    let target = &experiment.load.target;
    let Ok(name) = fs::read_to_string(out.join(format!("{target}.dsn"))) else {
        // A proxy that is exported as a whole has the first port that the application has left.
        let tcp = fs::read_to_string(out.join("README.md"))
            .unwrap()
            .contains("share the loopback interface")
            && experiment.group != APPLICATION;
        let port = if out.join(target).join("command.sh").exists() {
            8000 + u16::from(tcp)
        } else {
            80
        };
        let path = match experiment.name.as_str() {
            "file-transfer" => "file/1024",
            "nginx-grpc" => "lasthop.Echo/Call",
            _ if experiment.group == APPLICATION => "1",
            _ => "",
        };
        let scheme = match experiment.load.protocol.as_str() {
            "websocket" => "ws",
            protocol => protocol,
        };
        return format!("{load} {scheme}://127.0.0.1:{port}/{path}");
    };
    let name = name.trim();
    let password = |file: &str, before: &str| {
        let text = fs::read_to_string(out.join(file)).unwrap_or_default();
        text.split_once(before)
            .map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default().to_owned())
    };
    match experiment.load.protocol.as_str() {
        "http" => format!("{load} {name}"),
        "postgres" => {
            let in_files = [
                ("pgpool/pool_passwd", ":TEXT"),
                ("pgbouncer/userlist.txt", "\"lasthop\" "),
            ];
            let password = in_files
                .iter()
                .find_map(|(file, before)| password(file, before))
                .unwrap_or_default();
            let password = password.trim_matches('"');
            format!("env PGPASSWORD={password} psql \"{name}\" -c 'SELECT 1'")
        }
        "mysql" => {
            let place = name
                .strip_prefix("mysql://lasthop@")
                .unwrap()
                .trim_end_matches("/lasthop");
            let place = match place.strip_prefix('(').and_then(|path| path.strip_suffix(')')) {
                Some(path) => format!("--socket={path}"),
                None => place
                    .rsplit_once(':')
                    .map(|(host, port)| format!("--host={host} --port={port}"))
                    .unwrap(),
            };
            format!(
                "env MYSQL_PWD=YOUR_PASSWORD mariadb --no-defaults --user=lasthop {place} --execute='SELECT 1' lasthop"
            )
        }
        "redis" => {
            let password = password("redis/redis.conf", "lasthop on >").unwrap();
            let at = name
                .strip_prefix("unix://")
                .map_or_else(|| format!("-u {name}"), |path| format!("-s {path}"));
            format!("env REDISCLI_AUTH={password} redis-cli -e --user lasthop {at} PING")
        }
        "grpc" => format!(
            "{load} {}/lasthop.Echo/Call",
            with_scheme("grpc", &name.replacen(".sock", ".sock:", 1))
        ),
        "statsd" => format!("{load} '{name}'"),
        "raw" => format!(
            "{load} {} --send 'zPING\\0' --until-close --expect 'PONG\\0'",
            with_scheme("raw", name)
        ),
        "memcached" => format!("{load} {} --command 'set key value'", with_scheme("memcached", name)),
        _ => format!("{load} {}", with_scheme("hello", name)),
    }
}

fn with_scheme(scheme: &str, address: &str) -> String {
    let over = if address.starts_with("unix:") { "+" } else { "://" };
    format!("{scheme}{over}{address}")
}

/// Folders of the programs that ran, which an account may not have on its PATH.
fn programs(record: &Path) -> Vec<String> {
    let environment: serde_json::Value =
        serde_json::from_slice(&fs::read(record.join("environment.json")).unwrap()).unwrap();
    let programs = environment["programs"].as_object().unwrap().values();
    // The tools of a server are beside what a link to it leads to.
    let folder = |path: PathBuf| path.parent().unwrap().display().to_string();
    // Records tell no home folder.
    let home = std::env::var("HOME").unwrap();
    programs
        .map(|program| PathBuf::from(program["path"].as_str().unwrap().replacen('~', &home, 1)))
        .flat_map(|path| [folder(path.clone()), folder(path.canonicalize().unwrap_or(path))])
        .collect()
}

/// Starts an export and asks the application; says what went wrong.
fn answers(experiment: &Experiment, out: &Path, record: &Path) -> Result<(), String> {
    let mut script = "set -eu; mount -t tmpfs none /srv; mount -t tmpfs none /run; mount -t tmpfs none /dev/shm; ip link set lo up\n".to_owned();
    script += &servers(experiment, out)
        .iter()
        .map(|name| start(out, record, name))
        .collect::<String>();
    script += &format!(
        "tries=0; until {} >/run/answer 2>&1; do\n tries=$((tries + 1)); [ $tries -lt 200 ] || {{ cat /run/answer; exit 1; }}\n \
         sleep 0.1\ndone\n",
        client(experiment, out)
    );
    let usual = std::env::var("PATH").unwrap();
    // Beside a program there may be another Go than the one whose cache is warm.
    let go = std::env::split_paths(&usual)
        .find(|folder| folder.join("go").is_file())
        .unwrap_or_default();
    let path = format!("{}:{}:{usual}", go.display(), programs(record).join(":"));
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--net",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ]);
    let output = command.env("PATH", path).env("GOCACHE", go_cache()).output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{said}\n{script}"))
    }
}

#[expect(clippy::print_stderr, reason = "a skip is said")]
fn starts(lasthop: &Lasthop, name: &str, experiment: &Experiment) {
    let (only, transports) = selection(experiment);
    let words = ["run".to_owned(), name.to_owned(), "-q".to_owned()]
        .into_iter()
        .chain(only);
    let ran = lasthop.run(words.chain(SETTINGS.map(str::to_owned)));
    if ran.stderr.contains("no package manager has it") {
        eprintln!("SKIPPED: {name}: {}", ran.stderr);
        return;
    }
    if ran.stderr.contains("was not found") {
        skip(&format!("{name}: {}", ran.stderr));
        return;
    }
    ran.ok();
    let record = lasthop.runs().pop().unwrap();
    for case in transports {
        let out = lasthop.home().join(format!("{}-{case}", experiment.name));
        lasthop
            .run(["export", name, "--case", &case, "--into", out.to_str().unwrap()])
            .ok();
        answers(experiment, &out, &record).unwrap_or_else(|said| panic!("{name}, {case}: {said}"));
    }
}

fn can_be_started() -> bool {
    rustix::process::geteuid().is_root() || skip("only root can make the namespaces in which an export is started")
}

#[test]
fn each_proxy_that_is_exported_starts_and_answers() {
    if !can_be_started() {
        return;
    }
    let lasthop = Lasthop::new();
    let mut experiment = Catalog::new(None).load("fronts").unwrap();
    for level in experiment.factors["front"].levels.clone() {
        experiment.name = format!("fronts-{level}");
        experiment.factors["front"].default = Some(vec![level]);
        starts(&lasthop, "fronts", &experiment);
    }
    lasthop.assert_nothing_left();
}

#[test]
fn what_is_exported_starts_and_answers() {
    if !can_be_started() {
        return;
    }
    if have("go") {
        go_is_warm("go-http");
        go_is_warm("grpc-go");
    }
    let lasthop = Lasthop::new();
    lasthop.run(["new", "my-stack"]).ok();
    let folder = lasthop.home().join("my-stack");
    let catalog = Catalog::new(None);
    let own = folder.to_str().unwrap().to_owned();
    for name in std::iter::once(own)
        .chain(catalog.names())
        .filter(|name| name != "fronts")
    {
        let experiment = catalog.load(&name).unwrap();
        // The packages of one are in a cache of modules, which an export does not name; those of the other are read by a
        // compiler that asks whether it may, and access(2) knows no capabilities of nobody.
        if ["go-postgres", "java-postgres"].contains(&name.as_str()) {
            continue;
        }
        if experiment.services.values().all(|service| service.container.is_none()) {
            starts(&lasthop, &name, &experiment);
        }
    }
    lasthop.assert_nothing_left();
}
