//! How a service runs in a container: the path of its bytes, and its limits.

use indexmap::IndexMap;
use lasthop_model::container::{Network, Publish, RenderedContainer};
use minijinja::value::Value;

use crate::{
    model::Container,
    template::{self, TemplateError},
};

const EXPECTED: &str = "bridge, host, none, service:NAME or inside:NAME";

/// Renders the templates of a container; `None` if the service runs without one.
pub(super) fn render(
    service: &str,
    container: &Container,
    context: &Value,
) -> Result<Option<RenderedContainer>, String> {
    let text = |key: &str, text: &str| -> Result<Option<String>, TemplateError> {
        let rendered = template::render(&format!("services.{service}.container.{key}"), text, context)?;
        Ok(Some(rendered.trim().to_owned()).filter(|text| !text.is_empty()))
    };
    let wrong = |key: &str, text: String, expected: &str| {
        format!("service {service}: container.{key} renders to `{text}`, expected {expected}")
    };
    let Some(network) = text("network", &container.network)? else {
        return Ok(None);
    };
    let network = network_of(&network).ok_or_else(|| wrong("network", network, EXPECTED))?;
    let publish = match text("publish", &container.publish)? {
        // Only a container in a bridge network can publish ports: other containers share ports or have none.
        Some(_) if network != Network::Bridge => {
            return Err(wrong(
                "publish",
                container.publish.clone(),
                "nothing unless the network is `bridge`",
            ));
        }
        Some(place) => Some(publish_of(&place).ok_or_else(|| wrong("publish", place, "loopback or gateway"))?),
        None => None,
    };
    let volume = text("volume", &container.volume)?;
    if let Some(volume) = volume.as_ref().filter(|volume| !is_volume(volume)) {
        return Err(wrong(
            "volume",
            volume.clone(),
            "at most 16 lower-case letters, digits and `-`",
        ));
    }
    let mut sysctls = IndexMap::new();
    for (name, value) in &container.sysctls {
        sysctls.extend(text("sysctls", value)?.map(|value| (name.clone(), value)));
    }
    let cpus = text("cpus", &container.cpus)?;
    if let Some(cpus) = cpus.as_ref().filter(|cpus| {
        !cpus
            .parse::<f64>()
            .is_ok_and(|number| number > 0.0 && number.is_finite())
    }) {
        return Err(wrong("cpus", cpus.clone(), "a number of CPUs above 0"));
    }
    let memory = text("memory", &container.memory)?;
    let own = [
        cpus.clone(),
        memory.clone(),
        sysctls.values().next().cloned(),
        volume.clone(),
    ];
    if let (Network::Inside(_), Some(limit)) = (&network, own.into_iter().flatten().next()) {
        return Err(wrong(
            "network",
            limit,
            "no limits, sysctls or volume with `inside:NAME`, whose container has them",
        ));
    }
    Ok(Some(RenderedContainer {
        network,
        publish,
        volume,
        cpus,
        memory,
        sysctls,
    }))
}

/// Whether a name suits a volume. The name becomes part of a socket's path, which must be short.
fn is_volume(name: &str) -> bool {
    name.len() <= 16
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

/// Checks that both ends of a socket have its volume.
pub(crate) fn check_volumes(
    from: &str,
    to: &str,
    containers: &IndexMap<String, Option<RenderedContainer>>,
) -> Result<(), String> {
    let of = |name: &str| -> Option<&RenderedContainer> {
        let container = containers.get(name)?.as_ref()?;
        match &container.network {
            Network::Inside(holder) => containers.get(holder)?.as_ref(),
            _ => Some(container),
        }
    };
    match (of(from), of(to).and_then(|container| container.volume.as_ref())) {
        (Some(client), Some(volume)) if client.volume.as_ref() != Some(volume) => Err(format!(
            "service {from} connects to the socket of {to} on the volume `{volume}`, which its container does not have: \
                 add `volume = \"{volume}\"` to services.{from}.container"
        )),
        _ => Ok(()),
    }
}

fn network_of(text: &str) -> Option<Network> {
    match text {
        "bridge" => Some(Network::Bridge),
        "host" => Some(Network::Host),
        "none" => Some(Network::None),
        _ => match text.split_once(':')? {
            ("service", name) => Some(Network::Service(name.to_owned())),
            ("inside", name) => Some(Network::Inside(name.to_owned())),
            _ => None,
        },
    }
}

fn publish_of(text: &str) -> Option<Publish> {
    match text {
        "loopback" => Some(Publish::Loopback),
        "gateway" => Some(Publish::Gateway),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(container: &Container, path: &str) -> Result<Option<RenderedContainer>, String> {
        render("app", container, &Value::from_iter([("path", path)]))
    }

    #[test]
    fn a_path_decides_and_nothing_means_no_container() {
        let container = Container {
            network: "{{ {'published': 'bridge', 'host': 'host'}[path] | default('') }}".into(),
            publish: "{{ 'loopback' if path == 'published' else '' }}".into(),
            cpus: "0.25".into(),
            ..Container::default()
        };
        assert_eq!(rendered(&container, "process").unwrap(), None);
        assert_eq!(rendered(&container, "host").unwrap().unwrap().network, Network::Host);
        let published = rendered(&container, "published").unwrap().unwrap();
        assert_eq!(
            (published.publish, published.limits()),
            (Some(Publish::Loopback), Some("cpus 0.25\n".into()))
        );
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let wrong = |network: &str, publish: &str, cpus: &str| {
            let container = Container {
                network: network.into(),
                publish: publish.into(),
                cpus: cpus.into(),
                ..Container::default()
            };
            rendered(&container, "").unwrap_err().to_string()
        };
        assert!(wrong("bridged", "", "").contains("expected bridge, host, none, service:NAME or inside:NAME"));
        assert!(wrong("bridge", "everywhere", "").contains("loopback or gateway"));
        assert!(wrong("host", "loopback", "").contains("nothing unless the network is `bridge`"));
        assert!(wrong("bridge", "", "-1").contains("a number of CPUs above 0"));
        let volume = |name: &str, network: &str| {
            let container = Container {
                network: network.into(),
                volume: name.into(),
                ..Container::default()
            };
            rendered(&container, "")
                .map(|container| container.unwrap().volume)
                .map_err(|error| error.to_string())
        };
        assert_eq!(volume("run", "none"), Ok(Some("run".to_owned())));
        for name in ["/run/app", "Run", "-run", "a-name-that-is-too-long"] {
            assert!(
                volume(name, "none")
                    .unwrap_err()
                    .contains("at most 16 lower-case letters"),
                "{name}"
            );
        }
        assert!(
            volume("run", "inside:supervisor")
                .unwrap_err()
                .contains("no limits, sysctls or volume with")
        );
    }

    #[test]
    fn who_connects_to_a_socket_on_a_volume_has_the_volume() {
        let with = |volume: &str, network: &str| {
            let container = Container {
                network: network.into(),
                volume: volume.into(),
                ..Container::default()
            };
            rendered(&container, "").unwrap()
        };
        let all = |from: Option<RenderedContainer>, to: Option<RenderedContainer>| {
            let holder = with("run", "bridge");
            check_volumes(
                "web",
                "app",
                &IndexMap::from(
                    [("web", from), ("app", to), ("all", holder)].map(|(name, container)| (name.to_owned(), container)),
                ),
            )
        };
        assert_eq!(all(with("run", "bridge"), with("run", "none")), Ok(()));
        assert_eq!(
            all(None, with("run", "none")),
            Ok(()),
            "a process of the host reaches every volume"
        );
        assert_eq!(all(with("", "inside:all"), with("run", "none")), Ok(()));
        let error = all(with("", "bridge"), with("run", "none")).unwrap_err().to_string();
        assert!(
            error.contains("add `volume = \"run\"` to services.web.container"),
            "{error}"
        );
        assert!(all(with("other", "bridge"), with("run", "none")).is_err());
    }
}
