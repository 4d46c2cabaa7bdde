//! How and where a service was started. The record keeps it, and `lasthop export` makes a configuration from it.

use std::path::PathBuf;

use lasthop_protocol::spec::Endpoint;
use serde::{Deserialize, Serialize};

use crate::{
    binding::{APP, ServiceBinding},
    service::{Export, RenderedService},
};

/// File name, in a service's folder of the run record.
pub const PLACE: &str = "place.json";

/// How and where a service was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub directory: PathBuf,
    pub runtime: PathBuf,
    pub endpoint: Endpoint,
    /// Where it listens, if that is another path than clients have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<PathBuf>,
    /// Certificate and key, if the transport uses TLS.
    pub tls: Option<[PathBuf; 2]>,
    /// Rendered files except those of the application, relative to the folder.
    pub files: Vec<PathBuf>,
    /// How it ran in a container, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<PlaceContainer>,
    /// The password of the run, which files may hold; empty in an older record.
    #[serde(default)]
    pub secret: String,
    #[serde(default)]
    pub export: Export,
}

impl Place {
    pub fn of(binding: &ServiceBinding, service: &RenderedService, container: Option<PlaceContainer>) -> Self {
        let files = service.files.iter().map(|(path, _)| path.clone());
        Self {
            command: service.command.clone(),
            environment: service.environment.clone(),
            directory: binding.directory.clone(),
            runtime: binding.runtime.clone(),
            endpoint: service.endpoint.clone(),
            listen: (binding.listen != binding.address)
                .then(|| binding.listen.path().map(PathBuf::from))
                .flatten(),
            tls: binding
                .tls
                .as_ref()
                .map(|tls| [tls.certificate.clone(), tls.key.clone()]),
            files: files.filter(|path| !path.starts_with(APP)).collect(),
            container,
            secret: service.secret.clone(),
            export: service.export.clone(),
        }
    }
}

/// The container of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceContainer {
    pub image: String,
    /// Files and folders of the host that the image lacked.
    pub host: Vec<PathBuf>,
    pub host_network: bool,
    pub cpus: Option<String>,
    pub memory: Option<String>,
    /// `USER:GROUP` in numbers, unless the engine chose it.
    pub user: Option<String>,
    /// Whether other services ran in it too.
    #[serde(default)]
    pub shared: bool,
}
