//! What the containers of a run need, looked for once before anything starts.

use std::path::Path;

use super::{Job, programs::Programs};
use crate::{
    experiment::container::Network,
    service::bindings::service_of,
    service::container::{
        engine::Engine,
        site::{Needs, Site, SiteError},
    },
};

/// Engine, image and network for the containers of the plan; `None` where it has none.
pub fn open(job: &Job<'_>, programs: &Programs, sandbox: &Path) -> Option<Result<Site, SiteError>> {
    let needs = needs(job, programs)?;
    let engine = Engine::find(job.engine).map_err(SiteError::from);
    Some(engine.and_then(|engine| Site::open(engine, sandbox, &needs)))
}

fn needs(job: &Job<'_>, programs: &Programs) -> Option<Needs> {
    let mut needs = None;
    let experiment = &job.plan.experiment;
    for (name, service) in job.plan.stacks.iter().flat_map(|stack| &stack.services) {
        let Some(container) = &service.container else { continue };
        let needs: &mut Needs = needs.get_or_insert_default();
        needs.bridge |= container.network == Network::Bridge;
        needs.volumes.extend(container.volume.clone());
        let recipe = &experiment.recipes[&service.recipe];
        needs.content.packages.extend(recipe.program.packages.debian.iter().cloned());
        needs.content.packages.extend(experiment.services[service_of(name)].packages.debian.iter().cloned());
        needs.content.programs.extend(programs.get(&service.recipe).ok().map(|located| located.path.clone()));
    }
    needs
}
