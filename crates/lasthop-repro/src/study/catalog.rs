//! The studies in the binary.
use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use indexmap::IndexMap;
use lasthop_plan::{
    diagnostics::{Diagnostics, meant, suggest},
    document::Document,
    schema::generate,
    template::expression_names,
};
use serde_json::Value;

use super::model::{Claim, Condition, Figure, LASTHOP, Method, PROGRAM, Quantity, Study, UNITS, number};

static STUDIES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../studies");
static QUANTITIES: LazyLock<IndexMap<String, Quantity>> =
    LazyLock::new(|| toml::from_str(include_str!("../../quantities.toml")).expect("quantities.toml is right"));
static SCHEMA: LazyLock<Value> = LazyLock::new(generate::<Study>);

/// JSON schema of a study's file.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// Why a study cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    #[error("there is no study `{name}`; {}", meant(.name, .known, "`lasthop repro` lists all"))]
    Unknown { name: String, known: Vec<String> },
    #[error("{0}")]
    Invalid(Diagnostics),
}

/// Names of all studies, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = STUDIES
        .files()
        .filter_map(|file| Some(file.path().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Names of the quantities that every study has.
pub fn quantities() -> impl Iterator<Item = &'static str> {
    QUANTITIES.keys().map(String::as_str)
}

/// The study of this name.
pub fn load(name: &str) -> Result<Study, StudyError> {
    let file = STUDIES
        .get_file(format!("{name}.toml"))
        .and_then(|file| file.contents_utf8());
    let text = file.ok_or_else(|| StudyError::Unknown {
        name: name.to_owned(),
        known: names(),
    })?;
    read(name, &format!("built-in:studies/{name}.toml"), text).map_err(StudyError::Invalid)
}

/// Reads a study's file.
pub fn read(name: &str, shown: &str, text: &str) -> Result<Study, Diagnostics> {
    let mut found = Diagnostics::default();
    let mut document = Document::parse(shown, text, &mut found);
    let study = document
        .read::<Study>(schema(), &mut found)
        .filter(|_| found.is_empty());
    let Some(mut study) = study else { return Err(found) };
    study.name = name.to_owned();
    let mut checker = Checker {
        document,
        found,
        ids: study.runs.iter().map(|run| run.id.clone()).collect(),
        // A study's own quantities replace common ones of the same name.
        quantities: QUANTITIES.clone().into_iter().chain(study.quantities.clone()).collect(),
    };
    checker.study(&mut study);
    if checker.found.is_empty() {
        Ok(study)
    } else {
        Err(checker.found)
    }
}

struct Checker {
    document: Document,
    found: Diagnostics,
    /// Ids of the runs.
    ids: Vec<String>,
    quantities: IndexMap<String, Quantity>,
}

impl Checker {
    fn error(&mut self, pointer: &str, message: String, help: Option<String>) {
        self.found
            .push(self.document.at_value(pointer, message).with_help(help));
    }

    /// Checks a study, and fills in what its file only names: the figures, and the quantities of claims.
    fn study(&mut self, study: &mut Study) {
        self.method(&study.method);
        for (name, quantity) in &study.quantities {
            let expressions = [
                ("value", &quantity.value),
                ("method", &quantity.method),
                ("lasthop", &quantity.lasthop),
            ];
            for (key, expression) in expressions {
                if let Some(expression) = expression {
                    self.expression(expression, &format!("/quantities/{name}/{key}"));
                }
            }
        }
        for (at, condition) in study.conditions.iter().enumerate() {
            study.figures.extend(self.figures(at, condition));
        }
        for (at, claim) in study.claims.iter_mut().enumerate() {
            self.claim(at, claim);
        }
    }

    fn method(&mut self, method: &Method) {
        let tool = lasthop_classic::named(&method.driver);
        if let (Err(error), true) = (&tool, method.driver != PROGRAM) {
            self.error("/method/driver", error.clone(), Some(format!("or `{PROGRAM}`")));
        }
        let is_timed_from_outside = tool.is_ok_and(|tool| tool.is_timed_from_outside);
        if method.seconds.is_none() && method.count.is_none() && !is_timed_from_outside {
            let message = "how long is a run? `seconds` or `count` is missing".to_owned();
            self.error("/method", message, None);
        }
    }

    /// Checks an expression: runs that it names must exist. Other names are figures of a case, or quantities of an
    /// experiment.
    fn expression(&mut self, text: &str, pointer: &str) {
        match expression_names(text) {
            Ok(names) => {
                let others = names.iter().filter_map(|name| Some(name.split_once('.')?.0));
                for id in others.filter(|id| *id != LASTHOP) {
                    self.known(id, pointer);
                }
            }
            Err(flaw) => self.error(pointer, flaw.message, None),
        }
    }

    fn known(&mut self, id: &str, pointer: &str) {
        if !self.ids.iter().any(|known| known == id) {
            let ids = self.ids.clone();
            let help = suggest(id, ids.iter().map(String::as_str));
            self.error(pointer, format!("there are no runs `{id}`"), help);
        }
    }

    fn quantity(&mut self, word: &str, pointer: &str) -> Option<Quantity> {
        let known = self.quantities.get(word).cloned();
        if known.is_none() {
            let help = suggest(word, self.quantities.keys().map(String::as_str));
            let message = format!("`{word}` is not a quantity that is known");
            self.found.push(self.document.at_key(pointer, message).with_help(help));
        }
        known
    }

    fn figures(&mut self, at: usize, condition: &Condition) -> Vec<Figure> {
        self.known(&condition.runs, &format!("/figures/{at}/runs"));
        let mut figures = Vec::new();
        for (word, text) in &condition.values {
            let pointer = format!("/figures/{at}/values/{word}");
            let Some(measured) = self.quantity(word, &pointer) else {
                continue;
            };
            let parsed = text
                .split_once(' ')
                .and_then(|(printed, unit)| Some((printed, number(printed)?, unit)));
            let Some((printed, value, unit)) = parsed.filter(|(_, _, unit)| UNITS.contains(unit)) else {
                let help = format!("a number, a space, and one of {}", UNITS.join(", "));
                self.error(&pointer, format!("`{text}` is not a figure with its unit"), Some(help));
                continue;
            };
            figures.push(Figure {
                runs: condition.runs.clone(),
                system: condition.system.clone(),
                condition: condition.condition.clone(),
                levels: condition.levels.clone(),
                quantity: word.clone(),
                words: measured.words.clone(),
                measured,
                printed: printed.to_owned(),
                value,
                unit: unit.to_owned(),
            });
        }
        figures
    }

    fn claim(&mut self, at: usize, claim: &mut Claim) {
        self.known(&claim.runs, &format!("/claims/{at}/runs"));
        for (place, printed) in claim.printed.iter().enumerate() {
            if number(printed).is_none() {
                self.error(
                    &format!("/claims/{at}/printed/{place}"),
                    format!("`{printed}` is not a number"),
                    None,
                );
            }
        }
        let mut measured = |word: &str, key: &str| {
            let known = self.quantity(word, &format!("/claims/{at}/{key}"));
            known.unwrap_or_default()
        };
        claim.measured = measured(&claim.quantity, "quantity");
        claim.against_measured = match &claim.against_quantity {
            Some(other) => measured(other, "against_quantity"),
            None => claim.measured.clone(),
        };
    }
}

#[cfg(test)]
mod tests {
    use lasthop_model::selection::{Choice, Selection};
    use lasthop_plan::{catalog::Catalog, plan::Plan};

    use super::*;
    use crate::study::{
        figures::FIGURES,
        model::{By, StudyRun},
    };

    #[test]
    fn every_study_is_valid() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies")).unwrap();
        let files = folder.filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|kind| kind == "toml")
        });
        assert_eq!(names().len(), files.count());
        for name in names() {
            let study = load(&name).unwrap_or_else(|error| panic!("{error}"));
            assert!(!study.claims.is_empty() && !study.missed.is_empty(), "{name}");
            let mut software = study.environment.software.keys();
            let is_in_containers = software.any(|name| name.starts_with("docker"));
            assert_eq!(study.method.engine.is_some(), is_in_containers, "{name}");
            for claim in study.claims.iter().filter(|claim| claim.because.is_none()) {
                let (least, most) = claim.range(study.published_ratio(claim));
                assert!(least > 0.0 || most.is_finite(), "{name}: any ratio fits {}", claim.text);
            }
        }
    }

    /// Names in an expression are figures, or quantities of one of the study's experiments.
    #[test]
    fn expressions_name_only_what_there_is() {
        let catalog = Catalog::new(None);
        for study in names().iter().map(|name| load(name).unwrap()) {
            let derived = |run: &StudyRun| Some(catalog.load(&run.experiment).ok()?.derive.into_keys());
            let derived: Vec<String> = study.runs.iter().filter_map(derived).flatten().collect();
            let figures = study.figures.iter().map(|figure| &figure.measured);
            let all = figures.chain(study.claims.iter().map(|claim| &claim.measured));
            let expressions = all
                .flat_map(|quantity| [By::Study, By::Lasthop].map(|by| quantity.by(by)))
                .flatten();
            for name in expressions.flat_map(|expression| expression_names(expression).unwrap()) {
                let last = name.rsplit('.').next().unwrap();
                let is_figure = FIGURES.iter().any(|(known, _)| *known == last);
                assert!(
                    is_figure || derived.iter().any(|known| known == last),
                    "{}: {name}",
                    study.name
                );
            }
        }
    }

    /// An existing experiment has the levels of its study, and each figure with levels is one of its cases.
    #[test]
    fn every_figure_leads_to_a_case() {
        let catalog = Catalog::new(None);
        for study in names().iter().map(|name| load(name).unwrap()) {
            for run in study
                .runs
                .iter()
                .filter(|run| catalog.names().contains(&run.experiment))
            {
                let set = |(factor, levels): (&String, &Vec<String>)| Choice {
                    factor: factor.clone(),
                    levels: levels.clone(),
                };
                let mut set: Vec<Choice> = run.levels.iter().map(set).collect();
                let figures: Vec<&Figure> = study.figures.iter().filter(|figure| figure.runs == run.id).collect();
                for (factor, level) in figures.iter().flat_map(|figure| &figure.levels) {
                    match set.iter_mut().find(|choice| choice.factor == *factor) {
                        Some(choice) if choice.levels.contains(level) => {}
                        Some(choice) => choice.levels.push(level.clone()),
                        None => set.push(Choice {
                            factor: factor.clone(),
                            levels: vec![level.clone()],
                        }),
                    }
                }
                let experiment = catalog.load(&run.experiment).unwrap();
                let plan = Plan::new(
                    experiment,
                    &Selection {
                        set,
                        ..Selection::default()
                    },
                );
                let plan = plan.unwrap_or_else(|error| panic!("{} {}: {error}", study.name, run.id));
                for figure in figures.iter().filter(|figure| !figure.levels.is_empty()) {
                    let fits = |case: &&lasthop_model::record::CasePlan| {
                        figure.levels.iter().all(|(factor, level)| {
                            case.levels.get(factor).is_some_and(|have| have.to_string() == *level)
                        })
                    };
                    assert!(plan.cases.iter().any(|case| fits(&case)), "{} {figure:?}", study.name);
                }
            }
        }
    }

    #[test]
    fn every_error_of_a_file_at_once() {
        let text = STUDIES.get_file("redis-docs.toml").unwrap().contents_utf8().unwrap();
        let wrong = text
            .replace(
                "quantity = \"requests-per-second\"",
                "quantity = \"request-per-second\"",
            )
            .replace("driver = \"redis-benchmark\"", "driver = \"redis-bench\"")
            .replace("runs = \"redis\"", "runs = \"rediss\"")
            + "\n[quantities]\na = { value = \"time - reds.time\", words = \"\" }\nb = { value = \"1 -\", words = \"\" }\n"
            + "\n[[figures]]\nruns = \"redis\"\ncondition = \"x\"\nvalues = { requests = \"many requests\" }\n";
        let found = read("x", "x.toml", &wrong).unwrap_err().to_string();
        for part in [
            "unknown tool `redis-bench`",
            "did you mean `requests-per-second`?",
            "no runs `rediss`",
            "no runs `reds`",
            "unexpected end of",
            "`many requests` is not a figure",
        ] {
            assert!(found.contains(part), "{part} is not in\n{found}");
        }
    }
}
