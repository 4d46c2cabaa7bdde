//! The page of all recorded runs: the machine, the result, and changes since the previous run of each.

use lasthop_model::record::Environment;

use super::{
    columns::Columns,
    document::{Block, Cell, Table},
    html,
    listing::{RunEntry, state_of, total},
    text::markup as escape,
    units::{NBSP, grouped, plural},
};

const TITLE: &str = "Recorded runs";
const KIBIBYTE: f64 = 1024.0;

/// A recorded run in the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    pub entry: RunEntry,
    /// The machine; `None` if the record does not say.
    pub environment: Option<Environment>,
    /// Changes since the previous run of the experiment; empty without one.
    pub change: Cell,
    /// The file of the run's own page in the folder of this page; `None` without one.
    pub page: Option<String>,
}

/// The page. Runs are oldest first, and in the page newest first.
#[must_use]
pub fn index(runs: &[Indexed]) -> Vec<u8> {
    let entries: Vec<RunEntry> = runs.iter().map(|run| run.entry.clone()).collect();
    let legend = "The change is that of ratios to the reference, since the run of the same experiment before. A foreign \
                  run is not proven to be made with this data folder, so it is compared with none.";
    let blocks = [Block::Table(table(runs)), Block::legend(legend)];
    let body = format!(
        "<section class=\"wide\">\n<h1>{TITLE}</h1>\n<p class=\"sub\">{}</p>\n{}</section>\n",
        escape(&total(&entries)),
        html::blocks(&blocks)
    );
    html::frame(TITLE, &body)
}

fn table(runs: &[Indexed]) -> Table {
    let runs: Vec<&Indexed> = runs.iter().rev().collect();
    Columns::of(&runs)
        .left("run", |run| run_cell(run))
        .left("experiment", |run| &run.entry.experiment)
        .left("began", |run| &run.entry.when)
        .left("state", |run| state_of(&run.entry))
        .left("machine", |run| machine(run.environment.as_ref()))
        .left("kernel", |run| kernel(run.environment.as_ref()))
        .right("KiB", |run| grouped(run.entry.bytes as f64 / KIBIBYTE, 0))
        .left("result", |run| &run.entry.headline)
        .left("since the run before", |run| run.change.clone())
        .table()
}

fn run_cell(run: &Indexed) -> Cell {
    Cell {
        link: run.page.clone(),
        ..run.entry.run.clone().into()
    }
}

fn machine(environment: Option<&Environment>) -> String {
    environment.map_or_else(String::new, |one| {
        format!("{}, {}", one.cpu_model, plural(u64::from(one.cpus), "CPU"))
    })
}

fn kernel(environment: Option<&Environment>) -> String {
    environment.map_or_else(String::new, |one| format!("{}{NBSP}{}", one.kernel, one.architecture))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::RunState;

    fn run(name: &str, headline: &str, page: Option<&str>) -> Indexed {
        Indexed {
            entry: RunEntry {
                run: name.into(),
                experiment: "sockets".into(),
                started: "2026-08-01T12:00:00Z".into(),
                when: "2026-08-01 12:00".into(),
                state: RunState::Complete,
                is_own: true,
                bytes: 200 << 10,
                headline: headline.into(),
            },
            environment: None,
            change: Cell::default(),
            page: page.map(str::to_owned),
        }
    }

    #[test]
    fn the_newest_run_is_first_and_leads_to_its_page() {
        let page = index(&[run("old", "<img src=x>", None), run("new", "", Some("new.html"))]);
        let page = String::from_utf8(page).unwrap();
        let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what} in {page}"));
        let new = place("<th scope=\"row\"><a href=\"new.html\">new</a></th>");
        assert!(new < place("<th scope=\"row\">old</th>"), "{page}");
        assert!(page.contains(">200<") && !page.contains("<img"), "{page}");
    }
}
