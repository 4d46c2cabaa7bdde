//! Exports a case whose services all ran in containers as a Pod: YAML for `podman kube play` and Kubernetes.
//!
//! All containers of a Pod share one network, so a bridge or a published port between two of them becomes loopback, as
//! the comment in the YAML says. A Unix socket is in an `emptyDir` that all share. Rendered files and the application
//! are ConfigMaps, or Secrets where the password of the run is in one of them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use lasthop_load::spec::Address;
use lasthop_model::place::PlaceContainer;

use super::{Chosen, ExportError, Replacements, Served, choose, winner};
use crate::{analyse::summary::Summary, record::RunData};

/// Where the service that clients reach listens in the Pod.
const FRONT: u16 = 8080;

/// The Pod of `case`, or of the winner.
/// Errors: there is no such case, a service of it ran outside of a container, or the record lacks what is needed.
pub fn pod(record: &Path, data: &RunData, summary: &Summary, case: Option<&str>) -> Result<String, ExportError> {
    let won = winner(summary);
    let Chosen { plan, served, .. } = choose(record, data, won.as_ref(), case)?;
    let outside: Vec<&str> =
        served.iter().filter(|one| one.place.container.is_none()).map(|one| one.name.as_str()).collect();
    if !outside.is_empty() {
        return Err(ExportError::NoContainers { case: plan.case.clone(), outside: outside.join(", ") });
    }
    if served.iter().filter_map(container).any(|container| container.shared) {
        return Err(ExportError::OneContainer(plan.case.clone()));
    }
    let on_host = served.iter().filter_map(container).filter(|container| container.host_network).count();
    if on_host != 0 && on_host != served.len() {
        return Err(ExportError::MixedNetworks(plan.case.clone()));
    }
    let name = format!("lasthop-{}", label(&summary.experiment));
    let pod =
        Pod { replaced: replacements(&served, &plan.load.target), name, host_network: on_host != 0, served: &served };
    let mut maps = BTreeMap::new();
    for one in &served {
        pod.config_maps(one, &mut maps)?;
    }
    let mut text = pod.comment(summary, &plan.case, &maps);
    for (name, map) in &maps {
        let (kind, data) = if map.secret { ("Secret", "stringData") } else { ("ConfigMap", "data") };
        let _ = write!(text, "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{data}:\n");
        for (file, content) in &map.files {
            let _ = writeln!(text, "  {}: {}", quoted(file), quoted(content));
        }
        text.push_str("---\n");
    }
    text.push_str(&pod.document(&plan.load.target, &maps));
    Ok(text)
}

fn container(served: &Served) -> Option<&PlaceContainer> {
    served.place.container.as_ref()
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

/// A name that Kubernetes takes.
fn label(text: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

/// What stands in the run's private places, and what is put there in the Pod.
fn replacements(served: &[Served], target: &str) -> Replacements {
    let mut pairs = Vec::new();
    for (number, one) in served.iter().enumerate() {
        let (name, place) = (&one.name, &one.place);
        match &place.endpoint.address {
            Address::Tcp(address) | Address::Udp(address) => {
                let front = name == target;
                let port = if front { FRONT } else { 9000 + number as u16 };
                let host = if front { "0.0.0.0" } else { "127.0.0.1" };
                pairs.push((address.to_string(), format!("{host}:{port}")));
                pairs.push((format!("0.0.0.0:{}", address.port()), format!("{host}:{port}")));
                pairs.push((address.port().to_string(), port.to_string()));
            }
            Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
                pairs.push((path.display().to_string(), format!("/run/{name}/{name}.sock")))
            }
            named => pairs.push((named.bare(), name.clone())),
        }
        for folder in [&place.directory, &one.folder] {
            pairs.push((folder.display().to_string(), format!("/srv/{name}")));
        }
        pairs.push((place.runtime.display().to_string(), format!("/run/{name}")));
        if let Some([certificate, key]) = &place.tls {
            pairs.push((certificate.display().to_string(), format!("/etc/ssl/{name}/tls.crt")));
            pairs.push((key.display().to_string(), format!("/etc/ssl/{name}/tls.key")));
        }
    }
    Replacements::of(pairs)
}

/// A folder of a service, as a ConfigMap or a Secret.
struct Map {
    service: String,
    folder: PathBuf,
    /// Whether the password of the run is in one of its files.
    secret: bool,
    files: BTreeMap<String, String>,
}

struct Pod<'a> {
    name: String,
    host_network: bool,
    served: &'a [Served],
    replaced: Replacements,
}

impl Pod<'_> {
    /// Rendered files and the application: one map for each folder, for a key of a map cannot hold a slash.
    fn config_maps(&self, served: &Served, maps: &mut BTreeMap<String, Map>) -> Result<(), ExportError> {
        let mut paths: Vec<PathBuf> = served.place.files.iter().map(|path| served.folder.join(path)).collect();
        below(&served.folder.join("app"), &mut paths);
        for path in paths {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(|_| ExportError::NotText(path.clone()))?;
            if !file.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter)) {
                return Err(ExportError::NotText(path));
            }
            let folder = path.parent().unwrap_or(&path).strip_prefix(&served.folder).unwrap_or(Path::new(""));
            let name = label(&format!("{}-{}-{}", self.name, served.name, folder.display()));
            let service = served.name.clone();
            let folder = Path::new("/srv").join(&service).join(folder);
            let map =
                maps.entry(name).or_insert_with(|| Map { service, folder, secret: false, files: BTreeMap::new() });
            map.secret |= served.place.holds_secret(&text);
            map.files.insert(file, self.replaced.apply(&text));
        }
        Ok(())
    }

    fn comment(&self, summary: &Summary, case: &str, maps: &BTreeMap<String, Map>) -> String {
        let names = maps.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
        let mut lines = vec![
            format!(
                "{}: case {case} of run {}, as a Pod. Play it with `podman kube play FILE`,",
                summary.experiment, summary.run
            ),
            format!(
                "end it with `podman kube down FILE`; podman 4 keeps the volumes of ConfigMaps and Secrets: `podman volume rm {names}`."
            ),
            "What must be true:".to_owned(),
            "- the images are the run's, which exist only on this machine: push your own and put their names here"
                .to_owned(),
            "- hostPath volumes are for files that those images lack; images that contain them need none".to_owned(),
            "- all containers are in this one Pod: they share its network, and sockets through the emptyDir volumes"
                .to_owned(),
            "- a bridge or a published port between two of them becomes loopback, so its cost is not the one measured"
                .to_owned(),
            "- clients may write to the socket: the same user in both containers, or a common fsGroup".to_owned(),
            "- podman 4 accepts `medium: Memory` but keeps the volume on disk; a socket is just as fast there"
                .to_owned(),
            "- podman 4 publishes a containerPort on all addresses of the host".to_owned(),
        ];
        if self.served.iter().any(|one| one.place.tls.is_some()) {
            lines.push(
                "- you use your own certificate and key: tls.crt and tls.key in the hostPath folder, or a Secret"
                    .to_owned(),
            );
        }
        let secrets: Vec<&str> = maps.iter().filter(|(_, map)| map.secret).map(|(name, _)| name.as_str()).collect();
        if !secrets.is_empty() {
            lines.push("- you put your own password into the Secrets, in the place of the run's".to_owned());
            lines.push(format!(
                "- podman is 4.4 or later: 4.3 leaves Secrets empty; `podman secret rm {}` removes them afterwards",
                secrets.join(" ")
            ));
        }
        lines.iter().map(|line| format!("# {line}\n")).collect()
    }

    fn document(&self, target: &str, maps: &BTreeMap<String, Map>) -> String {
        let mut text =
            format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {0}\n  labels:\n    app: {0}\nspec:\n", self.name);
        if self.host_network {
            text.push_str("  hostNetwork: true\n");
        }
        text.push_str("  containers:\n");
        let volumes = self.volumes(maps);
        for one in self.served {
            self.container(&mut text, one, target, &volumes);
        }
        text.push_str("  volumes:\n");
        for volume in &volumes {
            let _ = write!(text, "    - name: {}\n      {}\n", volume.name, volume.source);
        }
        text
    }

    fn volumes(&self, maps: &BTreeMap<String, Map>) -> Vec<Volume> {
        let mut volumes = Vec::new();
        for one in self.served {
            let (pod, name) = (&self.name, &one.name);
            volumes.push(Volume {
                name: label(&format!("{pod}-{name}-run")),
                source: "emptyDir: { medium: Memory }".to_owned(),
                path: format!("/run/{name}"),
                // The socket's folder is its clients' as well.
                only: None,
                writable: true,
            });
            let host = container(one).into_iter().flat_map(|container| &container.host);
            let mut host: Vec<(String, String)> =
                host.map(|path| (path.display().to_string(), path.display().to_string())).collect();
            let tls = format!("/etc/ssl/{name}");
            host.extend(one.place.tls.as_ref().map(|_| (tls.clone(), tls)));
            for (number, (source, path)) in host.into_iter().enumerate() {
                volumes.push(Volume {
                    name: label(&format!("{pod}-{name}-host-{number}")),
                    source: format!("hostPath: {{ path: {} }}", quoted(&source)),
                    path,
                    only: Some(name.clone()),
                    writable: false,
                });
            }
        }
        volumes.extend(maps.iter().map(|(name, map)| Volume {
            name: name.clone(),
            source: match map.secret {
                // podman 4.3 crashes where it does not say whether it is optional.
                true => format!("secret: {{ secretName: {name}, optional: false }}"),
                false => format!("configMap: {{ name: {name} }}"),
            },
            path: map.folder.display().to_string(),
            only: Some(map.service.clone()),
            writable: false,
        }));
        volumes
    }

    fn container(&self, text: &mut String, served: &Served, target: &str, volumes: &[Volume]) {
        let Some(container) = container(served) else { return };
        let (name, place) = (&served.name, &served.place);
        let command: Vec<String> = place.command.iter().map(|word| quoted(&self.replaced.apply(word))).collect();
        let _ = write!(
            text,
            "    - name: {}\n      image: {}\n      imagePullPolicy: IfNotPresent\n      command: [{}]\n      workingDir: /srv/{name}\n",
            label(name),
            quoted(&container.image),
            command.join(", ")
        );
        if !place.environment.is_empty() {
            text.push_str("      env:\n");
        }
        for (key, value) in &place.environment {
            let _ = write!(text, "        - name: {key}\n          value: {}\n", quoted(&self.replaced.apply(value)));
        }
        if name == target && place.endpoint.address.ip().is_some() {
            let _ = write!(text, "      ports:\n        - containerPort: {FRONT}\n");
        }
        limits(text, container);
        text.push_str("      volumeMounts:\n");
        for volume in volumes.iter().filter(|volume| volume.only.as_ref().is_none_or(|only| only == name)) {
            let _ = write!(text, "        - name: {}\n          mountPath: {}\n", volume.name, quoted(&volume.path));
            text.push_str(if volume.writable { "" } else { "          readOnly: true\n" });
        }
    }
}

struct Volume {
    name: String,
    source: String,
    path: String,
    /// The one service that has it; all of them otherwise.
    only: Option<String>,
    writable: bool,
}

fn limits(text: &mut String, container: &PlaceContainer) {
    if let Some((user, group)) = container.user.as_ref().and_then(|ids| ids.split_once(':')) {
        let _ = write!(text, "      securityContext:\n        runAsUser: {user}\n        runAsGroup: {group}\n");
    }
    if container.cpus.is_none() && container.memory.is_none() {
        return;
    }
    text.push_str("      resources:\n        limits:\n");
    if let Some(cpus) = &container.cpus {
        let _ = writeln!(text, "          cpu: {}", quoted(cpus));
    }
    if let Some(memory) = &container.memory {
        let _ = writeln!(text, "          memory: {}", quoted(&quantity(memory)));
    }
}

/// `64m` of an engine is `64Mi` of Kubernetes, where `m` is a thousandth.
fn quantity(memory: &str) -> String {
    let lower = memory.to_ascii_lowercase();
    let number = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match lower[number.len()..].chars().next() {
        Some('k') => "Ki",
        Some('m') => "Mi",
        Some('g') => "Gi",
        _ => "",
    };
    format!("{number}{unit}")
}

fn below(folder: &Path, paths: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true if path.ends_with("__pycache__") => {}
            true => below(&path, paths),
            false => paths.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_an_engine_become_those_of_kubernetes() {
        assert_eq!(["64m", "1g", "4096", "2kb"].map(quantity), ["64Mi", "1Gi", "4096", "2Ki"]);
        assert_eq!(label("Nginx_x/app/"), "nginx-x-app");
    }
}
