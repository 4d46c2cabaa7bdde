//! Finds the programs of a run once, before anything starts.

use std::{collections::BTreeMap, path::PathBuf};

use indexmap::IndexMap;
use lasthop_model::{
    binding::service_of,
    driver::ToolChoice,
    record::{Digests, IN_IMAGE, ProgramVersion},
};

use lasthop_plan::plan::{Plan, Stack, StackService};
use lasthop_stack::{
    container::site::Site,
    locate::{LocateError, Located, Locator},
};
use lasthop_system::{digest, executable::own_executable};

/// The programs of every recipe in the plan's stacks.
#[derive(Debug)]
pub struct Programs {
    /// Programs by recipe, or by name of the container engine or the image.
    found: BTreeMap<String, Result<Located, LocateError>>,
    tools: BTreeMap<String, Located>,
}

impl Programs {
    pub fn locate(plan: &Plan, tools: &[ToolChoice], locator: &Locator) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for (name, service) in plan.stacks.iter().flat_map(|stack| &stack.services) {
            let recipe = &plan.experiment.recipes[&service.recipe];
            let located = found
                .entry(service.recipe.clone())
                .or_insert_with(|| locator.locate(&recipe.name, &recipe.program));
            if let Some(why) = locator.lacks(&plan.experiment.services[service_of(name)].packages) {
                *located = Err(LocateError::Unusable(format!("{name}: {why}")));
            }
        }
        let locator = locator.for_tools();
        let mut located_tools = BTreeMap::new();
        for choice in tools {
            let tool = lasthop_classic::named(&choice.tool)?;
            let located = locator
                .locate(tool.name, &tool.program)
                .map_err(|error| error.to_string())?;
            located_tools.insert(choice.tool.clone(), located);
        }
        Ok(Self {
            found,
            tools: located_tools,
        })
    }

    pub fn get(&self, recipe: &str) -> Result<&Located, &LocateError> {
        self.found[recipe].as_ref()
    }

    /// The program of a tool that drives.
    pub fn tool(&self, tool: &str) -> &Located {
        &self.tools[tool]
    }

    pub fn tools(&self) -> impl Iterator<Item = &Located> {
        self.tools.values()
    }

    /// The first missing program of a stack, and the service that needs it. `brought` says whether a service gets its
    /// program elsewhere.
    pub fn missing<'a>(
        &'a self,
        stack: &'a Stack,
        brought: impl Fn(&StackService) -> bool,
    ) -> Option<(&'a str, &'a LocateError)> {
        let mut needing = stack.services.iter().filter(|(_, service)| !brought(service));
        needing.find_map(|(name, service)| Some((name.as_str(), self.get(&service.recipe).err()?)))
    }

    /// All missing programs, one line each, if every stack lacks one.
    pub fn all_missing(&self, plan: &Plan, brought: impl Fn(&StackService) -> bool) -> Option<String> {
        let none = plan.stacks.iter().all(|stack| self.missing(stack, &brought).is_some());
        let lines: Vec<String> = self
            .found
            .values()
            .filter_map(|found| Some(found.as_ref().err()?.to_string()))
            .collect();
        none.then(|| lines.join("\n"))
    }

    /// Whether the programs are missing from this machine, rather than present but unusable.
    pub fn are_absent(&self) -> bool {
        self.found
            .values()
            .filter_map(|found| found.as_ref().err())
            .all(|error| matches!(error, LocateError::NotFound { .. }))
    }

    /// Adds the container engine, the image, and its programs that differ from this machine's.
    pub fn add_site(&mut self, site: &Site) {
        let engine = Located {
            path: site.engine.program.clone(),
            version: site.describe(),
        };
        let image = Located {
            path: site.image.name.clone().into(),
            version: "from the experiment's Containerfile".to_owned(),
        };
        let inside = site
            .image
            .programs
            .iter()
            .map(|(recipe, located)| (format!("{recipe}{IN_IMAGE}"), located.clone()));
        let all = [
            (site.engine.kind.name().to_owned(), engine),
            ("image".to_owned(), image),
        ]
        .into_iter()
        .chain(inside);
        self.found.extend(all.map(|(name, located)| (name, Ok(located))));
    }

    /// Digests of the executables, including lasthop's. An unreadable executable has none.
    pub fn digests(&self) -> Digests {
        let located = self.located().map(|(name, located)| (name, located.path.clone()));
        let own = own_executable().ok().map(|path| ("lasthop", PathBuf::from(path)));
        located
            .chain(own)
            .filter_map(|(name, path)| Some((name.to_owned(), digest::of_file(&path).ok()?)))
            .collect()
    }

    /// Path and version of everything that was found, by recipe, engine, image or tool.
    pub fn versions(&self) -> IndexMap<String, ProgramVersion> {
        self.located()
            .map(|(name, Located { path, version })| {
                let path = path.display().to_string();
                let version = version.clone();
                (name.to_owned(), ProgramVersion { path, version })
            })
            .collect()
    }

    /// Everything that was found; the tools come last.
    fn located(&self) -> impl Iterator<Item = (&str, &Located)> {
        let found = self
            .found
            .iter()
            .filter_map(|(name, found)| Some((name.as_str(), found.as_ref().ok()?)));
        found.chain(self.tools.iter().map(|(tool, located)| (tool.as_str(), located)))
    }
}
