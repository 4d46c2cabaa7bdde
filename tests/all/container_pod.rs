//! The Pod of a layout runs under `podman kube play`, answers, and leaves nothing.

use crate::common;

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use common::{
    engines::{World, have_engine},
    have, have_python,
};

/// A certificate where the Pod looks for it.
fn certificate(folder: &std::path::Path) {
    fs::create_dir(folder).unwrap();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", "tls.key", "-out", "tls.crt"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Bounded: a podman that hangs is to fail the test.
fn podman(world: &World, arguments: &[&str]) -> String {
    let output = world.inside("timeout").args(["90", "podman"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The body of a reply, as soon as there is one.
fn answer(world: &World, authority: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut curl = world.inside("curl");
        curl.args(["-s", "-f", "--max-time", "5", "--cacert", authority, "https://localhost:8080/"]);
        let output = curl.args(["--connect-to", &format!("::{}", address(world))]).output().unwrap();
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        assert!(Instant::now() < deadline, "{}", podman(world, &["pod", "logs", "lasthop-containers"]));
    }
}

/// The Pod's own address.
fn address(world: &World) -> String {
    let infra = podman(world, &["pod", "inspect", "-f", "{{.InfraContainerID}}", "lasthop-containers"]);
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    format!("{}:8080", podman(world, &["inspect", "-f", format, infra.trim()]).trim())
}

/// podman 4.3 with cgroupfs leaves the Pod's own folders where the layout is hybrid; only empty ones can be removed.
fn remove_cgroups(pod: &str) {
    for controller in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        let _ = fs::remove_dir(controller.path().join("libpod_parent").join(pod));
    }
}

/// The documents of a YAML file.
fn documents<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    text.split("---\n").filter(|document| document.contains(&format!("\nkind: {kind}\n"))).collect()
}

#[test]
fn the_password_of_a_run_is_in_a_secret_and_nowhere_else() {
    if !have("redis-server") || !have_engine("podman") {
        return;
    }
    let world = World::new("podman");
    let run = ["run", "redis-published-port", "--engine", "podman", "--only", "path=bridge", "--budget", "5s", "-q"];
    world
        .run(&[&run[..], &["--set", "connections=1", "--rounds", "1", "--blocks", "2", "--trial", "20ms"]].concat())
        .ok();
    let text = world.run(&["export", "last", "--kubernetes"]).ok().stdout;
    let password = text.split(" >").nth(1).and_then(|rest| rest.split(' ').next()).expect("redis.conf has it");
    assert!(password.len() >= 16, "{password}");
    let (secrets, others) =
        (documents(&text, "Secret"), [documents(&text, "ConfigMap"), documents(&text, "Pod")].concat());
    assert!(secrets.iter().any(|secret| secret.contains("\nstringData:\n") && secret.contains(password)), "{text}");
    assert!(!others.is_empty() && !others.iter().any(|other| other.contains(password)), "{text}");
    assert!(text.contains("secret: { secretName: lasthop-redis-published-port-redis"), "{text}");
    assert!(text.contains("put your own password into the Secrets"), "{text}");
    world.lasthop.assert_nothing_left();
}

#[test]
fn a_pod_is_played_answers_and_is_gone() {
    if !have("nginx") || !have("curl") || !have("openssl") || !have_python("containers") || !have_engine("podman") {
        return;
    }
    let world = World::new("podman");
    let only = "path=shared-volume,bridge,no-container-unix";
    let run = ["run", "containers", "--engine", "podman", "--only", only, "--budget", "5s", "--blocks", "2", "-q"];
    world.run(&run).ok();
    let export = |case: &str| world.run(&["export", "containers", "--kubernetes", "--case", case]);
    export("no-container-unix").fails(1, "so it cannot be a Pod");
    export("udp").fails(1, "its cases: ");
    world.run(&["export", "redis", "--kubernetes"]).fails(2, "no run of `redis` is recorded");
    let tls = world.root().join("tls");
    certificate(&tls);
    let before = world.inventory();
    for case in ["shared-volume", "bridge"] {
        let text = export(case).ok().stdout;
        let private = world.lasthop.sandboxes().display().to_string();
        assert!(!text.contains(&private), "{text}");
        assert_eq!(text.contains("server unix:/run/gunicorn/gunicorn.sock"), case == "shared-volume", "{text}");
        let own = format!("hostPath: {{ path: \"{}\" }}", tls.display());
        let text = text.replace("hostPath: { path: \"/etc/ssl/nginx\" }", &own);
        let file = world.root().join("pod.yaml");
        fs::write(&file, &text).unwrap();
        podman(&world, &["kube", "play", file.to_str().unwrap()]);
        let body = answer(&world, tls.join("tls.crt").to_str().unwrap());
        assert!(body.starts_with("{\"timestamp\":\"20") && body.contains("\"random\":"), "{body}");
        let id = podman(&world, &["pod", "inspect", "-f", "{{.ID}}", "lasthop-containers"]);
        podman(&world, &["kube", "down", file.to_str().unwrap()]);
        remove_cgroups(id.trim());
        // As its own comment says.
        let removal = text.split('`').find(|part| part.starts_with("podman volume rm ")).unwrap();
        podman(&world, &removal.split(' ').skip(1).collect::<Vec<_>>());
        let after = world.inventory();
        for what in ["containers", "volumes", "mounts", "cgroups"] {
            assert_eq!(after[what], before[what], "{what}");
        }
    }
}
