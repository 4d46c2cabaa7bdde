//! How and where a service was started. The record stores it, and `lasthop show RUN` prints it.

use std::path::PathBuf;

use lasthop_trial::address::Endpoint;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{binding::APP, service::RenderedService};

/// Name of the file with a [`StartedService`], in the service's folder of the run record.
pub const PLACE: &str = "place.json";

/// How and where a service was started. Records of earlier versions have more fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedService {
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub endpoint: Endpoint,
    /// Rendered files, except those of the application, relative to the service's folder.
    pub files: Vec<PathBuf>,
    /// The container, if the service ran in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ServiceContainer>,
    /// The run's password, which files may contain; empty in older records.
    #[serde(default)]
    pub secret: String,
    /// Conditions under which a copy of the configuration works elsewhere, each a sentence.
    #[serde(default, alias = "export", deserialize_with = "conditions")]
    pub conditions: Vec<String>,
}

/// Reads conditions; records of earlier versions have them in a table.
fn conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Conditions {
        List(Vec<String>),
        Table {
            #[serde(default)]
            conditions: Vec<String>,
        },
    }
    let (Conditions::List(list) | Conditions::Table { conditions: list }) = Conditions::deserialize(deserializer)?;
    Ok(list)
}

impl StartedService {
    pub fn of(service: &RenderedService, container: Option<ServiceContainer>) -> Self {
        let files = service.files.iter().map(|(path, _)| path.clone());
        Self {
            command: service.command.clone(),
            environment: service.environment.clone(),
            endpoint: service.endpoint.clone(),
            files: files.filter(|path| !path.starts_with(APP)).collect(),
            container,
            secret: service.secret.clone(),
            conditions: service.conditions.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceContainer {
    pub image: String,
    /// Files and folders of the host that the container uses because the image lacks them.
    pub host: Vec<PathBuf>,
    pub host_network: bool,
    pub cpus: Option<String>,
    pub memory: Option<String>,
    /// `USER:GROUP` as numbers. Records of earlier versions may leave the user to the engine.
    pub user: Option<String>,
    /// Whether other services ran in this container too.
    #[serde(default)]
    pub shared: bool,
}
