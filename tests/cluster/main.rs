//! `lasthop fleet` in a real Kubernetes of two nodes, which `script/cluster` creates on this machine.
//!
//! One test starts the cluster and runs all others in it, one after the other.

#[path = "../common/mod.rs"]
mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use common::{Lasthop, have, have_python, list, needs, output, shows, signal, skip, texts, user_data, words};
use serde_json::Value;
use tempfile::TempDir;

/// Options of a short run of few cases.
const SHORT: &str = "--only transport=unix,tcp --set pattern=echo --trial 20ms";
/// An image with the servers of an experiment.
const STACK: &str = "localhost/stack:1";

#[test]
fn in_a_cluster() {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let tools = ["etcd", "containerd", "runc", "go", "nginx", "unshare"];
    needs!(
        tools.into_iter().all(have),
        have_python("nginx-gunicorn"),
        root || skip("namespaces of the test's own need root")
    );
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let images = TempDir::new().unwrap();
    let environment = user_data().join("python/nginx-gunicorn");
    let plain = image(
        images.path(),
        &format!("localhost/lasthop:{}", env!("CARGO_PKG_VERSION")),
        &[],
    );
    let stack = image(images.path(), STACK, &[&environment, Path::new("/usr/sbin/nginx")]);
    let status = Command::new(source.join("script/cluster"))
        .arg("run")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--test-threads=1"])
        .env(
            "LASTHOP_CLUSTER_IMAGES",
            format!("{}:{}", plain.display(), stack.display()),
        )
        .status();
    assert!(status.unwrap().success(), "tests in the cluster failed");
}

/// An image of this executable and other files of this machine.
fn image(folder: &Path, name: &str, content: &[&Path]) -> PathBuf {
    let file = folder.join(name.replace(['/', ':'], "-"));
    let made = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/image.py"))
        .args([name.as_ref(), file.as_os_str(), env!("CARGO_BIN_EXE_lasthop").as_ref()])
        .args(content)
        .status();
    assert!(made.unwrap().success(), "the image {name} was not made");
    file
}

fn kubectl(arguments: &[&str]) -> String {
    output(Command::new("kubectl").args(arguments))
}

/// All objects that a fleet run could leave.
fn inventory() -> String {
    let kinds = "jobs,pods,services,configmaps,secrets,serviceaccounts,endpointslices,persistentvolumeclaims";
    kubectl(&["get", kinds, "--all-namespaces", "--no-headers", "--output", "name"])
}

/// Removes leftovers of a failed test, so that one failure is reported once.
fn begin() -> (Lasthop, String) {
    remove_all();
    (Lasthop::new(), inventory())
}

/// Removes the Jobs of all fleet runs, with their objects.
fn remove_all() {
    let all = ["jobs,pods,services", "--selector", "lasthop/fleet"];
    eventually("nothing of a fleet run is left", || {
        // Repeated, because a Job may reach the cluster late.
        kubectl(&["delete", "jobs", "--selector", "lasthop/fleet"]);
        kubectl(&[&["get", "--output", "name"], &all[..]].concat()).is_empty()
    });
}

/// Waits until a condition holds.
#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute and a half: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn fleet<'a>(budget: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["fleet", "run", "sockets", "--budget", budget]
        .into_iter()
        .chain(SHORT.split(' '))
        .chain(more.iter().copied())
        .collect()
}

#[test]
#[ignore = "runs inside the cluster"]
fn every_node_has_a_record_and_nothing_is_left() {
    let (lasthop, before) = begin();
    strict();
    let more = ["--per-node", "2", "--format", "json", "--namespace", "strict"];
    let ran = lasthop.run(fleet("4s", &more)).ok();
    kubectl(&["delete", "namespace", "strict"]);
    let report = ran.json();
    let names = texts(&report["machines"], "name");
    assert_eq!(names, ["n1", "n1", "n2", "n2"]);
    assert_eq!(
        report["by"],
        serde_json::json!(["instance-type"]),
        "the kind is the nodes' label"
    );
    assert_eq!(ran.stderr.matches("complete and verified").count(), 4, "{}", ran.stderr);
    for run in lasthop.runs() {
        let name = run.file_name().unwrap().to_str().unwrap();
        assert!(lasthop.run(["report", name]).ok().stdout.contains("Unix socket"));
    }
    assert_eq!(inventory(), before);
}

/// A namespace that admits only Pods of the strictest standard.
fn strict() {
    kubectl(&["create", "namespace", "strict"]);
    kubectl(&words(
        "label namespace strict pod-security.kubernetes.io/enforce=restricted",
    ));
}

/// The files below a folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => {
                    found.insert(
                        entry.strip_prefix(folder).unwrap().to_owned(),
                        fs::read(&entry).unwrap(),
                    );
                }
            }
        }
    }
    found
}

/// The record in the Pod, as the worker sees it.
fn record_in_pod() -> BTreeMap<PathBuf, Vec<u8>> {
    let is_worker = |process: &PathBuf| {
        fs::read(process.join("cmdline")).is_ok_and(|words| words.starts_with(b"/lasthop\0fleet\0worker\0"))
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let worker = processes
        .into_iter()
        .find(is_worker)
        .expect("the worker waits for its reader");
    let mut runs = fs::read_dir(worker.join("root/tmp/lasthop/runs")).unwrap();
    files(&runs.next().unwrap().unwrap().path())
}

#[test]
#[ignore = "runs inside the cluster"]
fn an_exported_job_has_the_record_in_its_log_as_it_was_in_the_pod() {
    let (lasthop, before) = begin();
    let exported = lasthop
        .run(
            [
                "fleet", "export", "sockets", "--node", "n1", "--cpus", "1", "--budget", "4s",
            ]
            .into_iter()
            .chain(SHORT.split(' ')),
        )
        .ok();
    let manifest = lasthop.home().join("job.yaml");
    fs::write(&manifest, exported.stdout).unwrap();
    kubectl(&["create", "--filename", manifest.to_str().unwrap()]);
    let log = || kubectl(&["logs", "--selector", "lasthop/fleet", "--tail=-1", "--ignore-errors"]);
    let pods = || {
        kubectl(&words(
            "get pods --selector lasthop/fleet --output jsonpath={.items[*].status.phase}",
        ))
    };
    eventually("the Pod runs", || pods() == "Running");
    let saved = lasthop.home().join("log");
    let collected = || {
        // An incomplete record of an unfinished log is kept, and would be in the way.
        lasthop.runs().iter().for_each(|part| fs::remove_dir_all(part).unwrap());
        fs::write(&saved, log()).unwrap();
        let collect = lasthop.command(["fleet", "collect", saved.to_str().unwrap()]).output();
        collect.unwrap().status.success()
    };
    eventually("the log has the whole record", collected);
    let class = kubectl(&words(
        "get pods --selector lasthop/fleet --output jsonpath={.items[*].status.qosClass}",
    ));
    assert_eq!(class, "Guaranteed");
    let mut there = record_in_pod();
    let here = files(&lasthop.runs()[0]);
    // The seal, which proves nothing here.
    assert!(there.remove(Path::new("seal")).is_some());
    assert!(here.keys().eq(there.keys()), "{:?} and {:?}", here.keys(), there.keys());
    assert!(here == there, "the files are the same, byte for byte");
    assert!(here.contains_key(Path::new("end.json")) && here.contains_key(Path::new("headline.txt")));
    remove_all();
    assert_eq!(inventory(), before);
}

#[test]
#[ignore = "runs inside the cluster"]
fn layouts_of_pods_are_compared() {
    let (lasthop, before) = begin();
    strict();
    let run = format!(
        "fleet run nginx-gunicorn --pods --image {STACK} --set connections=1 --namespace strict --budget 8s \
         --trial 30ms --format json"
    );
    let ran = lasthop.run(words(&run)).ok();
    kubectl(&["delete", "namespace", "strict"]);
    let report = ran.json();
    assert_eq!(list(&report["machines"]).len(), 2, "{}", ran.stderr);
    let runs = lasthop.runs();
    for run in &runs {
        let header: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        let endpoints: Vec<&String> = header["given"]["endpoints"].as_object().unwrap().keys().collect();
        assert_eq!(endpoints.len(), 4, "{endpoints:?}");
        let text = lasthop
            .run(["report", run.to_str().unwrap(), "--format", "csv"])
            .ok()
            .stdout;
        shows(&text, ["tcp", "unix", "service", "other-node"]);
    }
    assert_eq!(inventory(), before);
}

#[test]
#[ignore = "runs inside the cluster"]
fn an_experiment_of_ones_own_goes_along() {
    let (lasthop, before) = begin();
    lasthop.run(["new", "mine", "--from", "sockets"]).ok();
    let arguments = ["fleet", "run", "./mine", "--node", "n1", "--budget", "4s"];
    let ran = lasthop.run(arguments.into_iter().chain(SHORT.split(' '))).ok();
    let runs = lasthop.runs();
    assert_eq!(runs.len(), 1, "{}", ran.stderr);
    let header: Value = serde_json::from_slice(&fs::read(runs[0].join("run.json")).unwrap()).unwrap();
    assert_eq!(
        header["origin"]["experiment"], "/etc/lasthop/experiment/mine",
        "{header}"
    );
    assert_eq!(inventory(), before);
}

#[test]
#[ignore = "runs inside the cluster"]
fn what_cannot_start_says_why_in_the_words_of_the_cluster() {
    let (lasthop, before) = begin();
    let fails = |more: &[&str], why: &str| {
        let ran = lasthop.run(fleet("4s", more));
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        ran.fails(1, why);
    };
    fails(
        &["--image", "localhost/none:1"],
        "n2 failed: ImagePullBackOff: Back-off pulling image",
    );
    fails(
        &["--cpus", "99", "--wait", "20s"],
        "n1 failed: Unschedulable: 0/2 nodes are available",
    );
    fails(&["--node", "n1", "--memory", "8Mi"], "n1 failed: OOMKilled");
    fails(
        &["--nodes", "pool=none"],
        "no node is ready and has the labels `pool=none`",
    );
    kubectl(&["create", "namespace", "limited"]);
    kubectl(&["create", "quota", "none", "--namespace", "limited", "--hard=pods=0"]);
    fails(
        &["--node", "n1", "--namespace", "limited", "--wait", "20s"],
        "is forbidden: exceeded quota: none",
    );
    assert_eq!(rights(&lasthop), "nothing allowed, everything said");
    kubectl(&["delete", "namespace", "limited"]);
    assert_eq!(inventory(), before);
}

/// A kubeconfig of a new user in a namespace, without rights.
fn user(lasthop: &Lasthop, namespace: &str) -> PathBuf {
    kubectl(&["create", "serviceaccount", "nobody", "--namespace", namespace]);
    let token = kubectl(&["create", "token", "nobody", "--namespace", namespace]);
    let config = fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let admin = config
        .split("token: \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let own = lasthop.home().join("kubeconfig");
    fs::write(&own, config.replace(admin, token.trim())).unwrap();
    own
}

#[test]
#[ignore = "runs inside the cluster"]
fn the_rights_that_the_documentation_lists_are_enough() {
    let (lasthop, before) = begin();
    kubectl(&["create", "namespace", "listed"]);
    let own = user(&lasthop, "listed");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md")).unwrap();
    let (_, table) = page.split_once("```text\nRole ").unwrap();
    let rows = table.lines().take_while(|line| *line != "```");
    for (number, row) in rows.enumerate() {
        let fields: Vec<&str> = row
            .split("  ")
            .map(str::trim)
            .filter(|field| !field.is_empty())
            .collect();
        let role = if fields[0] == "ClusterRole" {
            "clusterrole"
        } else {
            "role"
        };
        let at = usize::from(fields[0] == "ClusterRole" || fields[0] == "(in the namespace)");
        let resource = format!("--resource={}", fields[at].replace(" (batch)", ".batch"));
        let verbs = format!("--verb={}", fields[at + 1].replace(' ', ""));
        let name = format!("listed-{number}");
        kubectl(&["create", role, &name, &resource, &verbs, "--namespace", "listed"]);
        let binding = format!("{role}binding");
        let of = format!("--{role}={name}");
        let whom = "--serviceaccount=listed:nobody";
        kubectl(&["create", &binding, &name, &of, whom, "--namespace", "listed"]);
    }
    let arguments = ["fleet", "run", "nginx-gunicorn", "--pods", "--image", STACK, "--nodes"];
    let more = "kubernetes.io/hostname=n1 --namespace listed --budget 8s --trial 30ms".split(' ');
    let mut run = lasthop.command(arguments.into_iter().chain(more));
    let output = run.env("KUBECONFIG", &own).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("not removed"), "{said}");
    kubectl(&["delete", "clusterrole,clusterrolebinding", "listed-5"]);
    kubectl(&["delete", "namespace", "listed"]);
    assert_eq!(inventory(), before);
}

/// The message to a user without rights in a namespace.
fn rights(lasthop: &Lasthop) -> &'static str {
    let own = user(lasthop, "limited");
    let run = |arguments: Vec<&str>| {
        let output = lasthop.command(arguments).env("KUBECONFIG", &own).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(fleet("4s", &["--namespace", "limited"]));
    assert!(
        code == Some(1) && said.contains("cannot list the nodes: Error from server (Forbidden): nodes is forbidden"),
        "{said}"
    );
    let (code, said) = run(fleet("4s", &["--namespace", "limited", "--node", "n1"]));
    assert!(
        code == Some(1)
            && said.contains("n1 failed: Error from server (Forbidden)")
            && said.contains("jobs.batch is forbidden"),
        "{said}"
    );
    assert!(!said.contains("not removed"), "nothing was made: {said}");
    "nothing allowed, everything said"
}

#[test]
#[ignore = "runs inside the cluster"]
fn ctrl_c_removes_everything() {
    let (lasthop, before) = begin();
    let child = lasthop
        .command(fleet("60s", &[]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("two records begin", || lasthop.runs().len() == 2);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    shows(&said, ["interrupted; what was in the cluster has been removed"]);
    assert_eq!(inventory(), before);
}

#[test]
#[ignore = "runs inside the cluster"]
fn ctrl_c_twice_removes_everything_and_does_not_wait_for_that() {
    let (lasthop, before) = begin();
    let child = lasthop
        .command(fleet("60s", &[]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("two records begin", || lasthop.runs().len() == 2);
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("removing what the run made in the cluster"), "{said}");
    eventually("the cluster has removed what it was asked to", || inventory() == before);
}

#[test]
#[ignore = "runs inside the cluster"]
fn a_killed_client_leaves_what_ends_by_itself_and_goes_with_its_jobs() {
    let (lasthop, before) = begin();
    let mut left = 0;
    for moment in [50, 150, 300, 600, 1_000, 1_500, 2_500, 4_000, 6_000, 8_000] {
        let mut child = lasthop.start(fleet("5s", &[]));
        // The varied moments themselves; no event is expected by then.
        thread::sleep(Duration::from_millis(moment));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        let jobs: Value = serde_json::from_str(&kubectl(&["get", "jobs", "--output", "json"])).unwrap();
        left += list(&jobs["items"]).len();
        for job in list(&jobs["items"]) {
            let spec = &job["spec"];
            assert!(
                spec["activeDeadlineSeconds"].is_u64() && spec["ttlSecondsAfterFinished"].is_u64(),
                "{spec}"
            );
        }
        remove_all();
        assert_eq!(inventory(), before, "killed after {moment} ms");
    }
    assert!(left >= 2, "the client was never killed while it had Jobs");
    // Jobs own all other objects, which go with them.
    let run = format!("fleet run nginx-gunicorn --pods --image {STACK} --node n1 --budget 60s");
    let mut child = lasthop.start(words(&run));
    let services = || kubectl(&["get", "services", "--selector", "lasthop/fleet", "--output", "name"]);
    eventually("there is a Service", || !services().is_empty());
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    remove_all();
    assert_eq!(inventory(), before);
    // What a killed client left on this machine goes with the next start.
    lasthop.run(["clean"]).ok();
    lasthop.wait_until_gone();
}

/// The last of the tests by name, because it leaves a single node.
#[test]
#[ignore = "runs inside the cluster"]
fn z_a_lost_node_does_not_take_the_others_with_it() {
    let (lasthop, before) = begin();
    let mut run = lasthop.command(fleet("25s", &[]));
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("two records begin", || lasthop.runs().len() == 2);
    let cluster = PathBuf::from(std::env::var("CLUSTER").unwrap());
    let kubelet: i32 = fs::read_to_string(cluster.join("n2/kubelet.pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // SAFETY: kill has no preconditions; the kubelet is of this cluster.
    assert_eq!(unsafe { libc::kill(kubelet, libc::SIGKILL) }, 0);
    let output = child.wait_with_output().unwrap();
    let (report, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("n2 failed: the node was lost: NodeStatusUnknown: Kubelet stopped posting"),
        "{said}"
    );
    assert!(said.contains("what came of its record is"), "{said}");
    assert!(report.contains("Unix socket"), "the other node is reported: {report}");
    assert_eq!(inventory(), before);
}
