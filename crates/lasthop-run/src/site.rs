//! Finds once, before anything starts, what the containers of a run need.

use std::path::Path;

use lasthop_model::container::Network;
use lasthop_plan::{
    model::{Experiment, Source},
    plan::StackService,
};
use lasthop_stack::container::{
    containerfile::{Context, FILE},
    engine::Engine,
    site::{Needs, Site},
};

use super::{event::Event, job::Job};

/// Engine, image and network for the containers of the plan; `None` if it has none.
pub fn open(job: &Job<'_>, sandbox: &Path, tell: &mut dyn FnMut(&Event<'_>)) -> Option<Result<Site, String>> {
    let needs = needs(job)?;
    tell(&Event::Containing);
    let engine = Engine::find(job.engine).map_err(String::from);
    Some(engine.and_then(|engine| Site::open(engine, sandbox, &needs)))
}

/// Whether the program of a service may come from an image that is built later.
pub fn may_bring(job: &Job<'_>, service: &StackService) -> bool {
    service.container.is_some() && context(&job.plan.experiment).is_some()
}

/// The folder of an experiment that has a Containerfile.
fn context(experiment: &Experiment) -> Option<Context<'_>> {
    let folder = match &experiment.source {
        Source::Folder(folder) => Some(folder.as_path()),
        Source::BuiltIn | Source::Given => None,
    };
    experiment.files.contains_key(Path::new(FILE)).then_some(Context {
        files: &experiment.files,
        folder,
    })
}

fn needs<'a>(job: &Job<'a>) -> Option<Needs<'a>> {
    let mut needs = None;
    let experiment = &job.plan.experiment;
    let most = job
        .plan
        .stacks
        .iter()
        .map(|stack| {
            stack
                .services
                .values()
                .filter(|service| service.container.is_some())
                .count()
        })
        .max()
        .unwrap_or_default() as u32;
    for service in job.plan.stacks.iter().flat_map(|stack| stack.services.values()) {
        let Some(container) = &service.container else { continue };
        let needs: &mut Needs<'a> = needs.get_or_insert_default();
        needs.most = most;
        needs.context = context(experiment);
        needs.bridge |= container.network == Network::Bridge;
        needs.volumes.extend(container.volume.clone());
        let recipe = &experiment.recipes[&service.recipe];
        needs.programs.insert(service.recipe.clone(), recipe.program.clone());
    }
    needs
}
