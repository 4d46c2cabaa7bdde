//! How a service runs in a container: the path that bytes take to it, and its limits.

use std::fmt::Write as _;

use indexmap::IndexMap;
use minijinja::value::Value;

use super::{
    model::Container,
    render::RenderError,
    template::{self, TemplateError},
};

/// A container with everything filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedContainer {
    pub network: Network,
    pub publish: Option<Publish>,
    /// CPUs that it may use up, as the engine takes them.
    pub cpus: Option<String>,
    /// Memory, as the engine takes it.
    pub memory: Option<String>,
    /// Kernel settings of its network namespace.
    pub sysctls: IndexMap<String, String>,
}

const EXPECTED: &str = "bridge, host, none, service:NAME or inside:NAME";

/// Which network namespace a container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Its own, with a veth pair to a bridge of the run.
    Bridge,
    /// The host's.
    Host,
    /// Its own, with nothing but loopback.
    None,
    /// That of another service's container, as in a Pod.
    Service(String),
    /// No container of its own: a supervisor starts it in its container.
    Inside(String),
}

/// Where a container's port is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// 127.0.0.1
    Loopback,
    /// The host's address on the bridge.
    Gateway,
}

impl RenderedContainer {
    /// What must be equal in a comparison, as text; `None` where nothing is limited. Settings of the network namespace belong to
    /// the path: not every path has a namespace of its own.
    #[must_use]
    pub fn limits(&self) -> Option<String> {
        let mut text = String::new();
        for (name, limit) in [("cpus", &self.cpus), ("memory", &self.memory)] {
            if let Some(limit) = limit {
                let _ = writeln!(text, "{name} {limit}");
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Fills in the templates of a container; `None` where the service runs without one.
pub(super) fn render(
    service: &str,
    container: &Container,
    context: &Value,
) -> Result<Option<RenderedContainer>, RenderError> {
    let text = |key: &str, text: &str| -> Result<Option<String>, TemplateError> {
        let rendered = template::render(&format!("services.{service}.container.{key}"), text, context)?;
        Ok(Some(rendered.trim().to_owned()).filter(|text| !text.is_empty()))
    };
    let wrong = |key: &'static str, text: String, expected: &'static str| RenderError::Container {
        service: service.to_owned(),
        key,
        text,
        expected,
    };
    let Some(network) = text("network", &container.network)? else { return Ok(None) };
    let network = network_of(&network).ok_or_else(|| wrong("network", network, EXPECTED))?;
    let publish = match text("publish", &container.publish)? {
        Some(_) if network != Network::Bridge => {
            return Err(wrong("publish", container.publish.clone(), "nothing where the network is not `bridge`"));
        }
        Some(place) => Some(publish_of(&place).ok_or_else(|| wrong("publish", place, "loopback or gateway"))?),
        None => None,
    };
    let mut sysctls = IndexMap::new();
    for (name, value) in &container.sysctls {
        sysctls.extend(text("sysctls", value)?.map(|value| (name.clone(), value)));
    }
    let cpus = text("cpus", &container.cpus)?;
    if let Some(cpus) = cpus.as_ref().filter(|cpus| !cpus.parse::<f64>().is_ok_and(|number| number > 0.0)) {
        return Err(wrong("cpus", cpus.clone(), "a number of CPUs above 0"));
    }
    let memory = text("memory", &container.memory)?;
    let own = [cpus.clone(), memory.clone(), sysctls.values().next().cloned()];
    if let (Network::Inside(_), Some(limit)) = (&network, own.into_iter().flatten().next()) {
        return Err(wrong("network", limit, "no limits and no sysctls beside `inside:NAME`: that container has them"));
    }
    Ok(Some(RenderedContainer { network, publish, cpus, memory, sysctls }))
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

    fn rendered(container: &Container, path: &str) -> Result<Option<RenderedContainer>, RenderError> {
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
        assert_eq!((published.publish, published.limits()), (Some(Publish::Loopback), Some("cpus 0.25\n".into())));
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
        assert!(wrong("host", "loopback", "").contains("nothing where the network is not `bridge`"));
        assert!(wrong("bridge", "", "-1").contains("a number of CPUs above 0"));
    }
}
