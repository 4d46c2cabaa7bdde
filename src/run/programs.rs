//! The programs of a run, found once before anything starts.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::{
    experiment::plan::{Plan, Stack, StackService},
    record::schema::{IN_IMAGE, ProgramVersion},
    service::container::site::Site,
    service::locate::{LocateError, Located, Locator},
    tool::{Tool, ToolChoice},
};

/// What was found for each recipe that a stack of the plan names.
#[derive(Debug)]
pub struct Programs(BTreeMap<String, Result<Located, LocateError>>, BTreeMap<Tool, Located>);

impl Programs {
    /// # Errors
    /// A tool that is to drive is missing: without it nothing of what was asked for can be measured.
    pub fn locate(plan: &Plan, tools: &[ToolChoice], locator: &Locator) -> Result<Self, LocateError> {
        let mut found = BTreeMap::new();
        for service in plan.stacks.iter().flat_map(|stack| stack.services.values()) {
            let recipe = &plan.experiment.recipes[&service.recipe];
            found.entry(service.recipe.clone()).or_insert_with(|| locator.locate(&recipe.name, &recipe.program));
        }
        let locator = locator.for_tools();
        let tools =
            tools.iter().map(|choice| Ok((choice.tool, locator.locate(choice.tool.name(), &choice.tool.program())?)));
        Ok(Self(found, tools.collect::<Result<_, LocateError>>()?))
    }

    pub fn get(&self, recipe: &str) -> Result<&Located, &LocateError> {
        self.0[recipe].as_ref()
    }

    /// A tool that drives.
    pub fn tool(&self, tool: Tool) -> &Located {
        &self.1[&tool]
    }

    /// The first thing that a stack lacks, with the service that needs it; `brought` says which services have theirs elsewhere.
    pub fn missing<'a>(
        &'a self,
        stack: &'a Stack,
        brought: impl Fn(&StackService) -> bool,
    ) -> Option<(&'a str, &'a LocateError)> {
        let mut needing = stack.services.iter().filter(|(_, service)| !brought(service));
        needing.find_map(|(name, service)| Some((name.as_str(), self.get(&service.recipe).err()?)))
    }

    /// When no stack has all that it needs: everything that is missing, a line each.
    pub fn all_missing(&self, plan: &Plan, brought: impl Fn(&StackService) -> bool) -> Option<String> {
        let none = plan.stacks.iter().all(|stack| self.missing(stack, &brought).is_some());
        let lines: Vec<String> = self.0.values().filter_map(|found| Some(found.as_ref().err()?.to_string())).collect();
        none.then(|| lines.join("\n"))
    }

    /// Whether what is missing is nowhere on this machine, and not merely of no use.
    pub fn are_absent(&self) -> bool {
        self.0
            .values()
            .filter_map(|found| found.as_ref().err())
            .all(|error| matches!(error, LocateError::NotFound { .. }))
    }

    /// Adds what no recipe names: the container engine, the image, and the programs in it where they are not this machine's.
    pub fn add_site(&mut self, site: &Site) {
        let engine = Located { path: site.engine.program.clone(), version: site.describe() };
        let image = Located { path: site.image.name.clone().into(), version: site.image.describe() };
        let inside =
            site.image.programs.iter().map(|(recipe, located)| (format!("{recipe}{IN_IMAGE}"), located.clone()));
        let all = [(site.engine.kind.name().to_owned(), engine), ("image".to_owned(), image)].into_iter().chain(inside);
        self.0.extend(all.map(|(name, located)| (name, Ok(located))));
    }

    /// Path and version of everything that was found, by recipe.
    pub fn versions(&self) -> IndexMap<String, ProgramVersion> {
        let version = |(recipe, located): (&String, &Result<Located, LocateError>)| {
            let located = located.as_ref().ok()?;
            let path = located.path.display().to_string();
            Some((recipe.clone(), ProgramVersion { path, version: located.version.clone() }))
        };
        let tools = self.1.iter().map(|(tool, located)| {
            let path = located.path.display().to_string();
            (tool.name().to_owned(), ProgramVersion { path, version: located.version.clone() })
        });
        self.0.iter().filter_map(version).chain(tools).collect()
    }
}
