//! The page of a run: text and tables as in the other reports, plots that a script draws from embedded numbers, and the
//! numbers to download.
//!
//! The script reads only [`Data`]. Its types are made from the schema of `Data`.

use lasthop_analyse::{
    groups::{Compared, Group, groups},
    plots::CasePlots,
    summary::{CaseSummary, Metric, Metrics, Summary},
};
use lasthop_model::record::MeasuredTrial;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    again::again,
    content::{SectionId, advice, origin, quantity, sections, subtitle, title},
    csv,
    document::Text,
    forest::Picture,
    html::{self, SCRIPT, inline, section},
    json,
    names::{Named, compared_name},
    wording::{Quantity, word},
};
use crate::text::{embedded, markup as escape};

/// Data that only the record has, beside the summary.
#[derive(Clone, Debug, Default)]
pub struct Extras<'a> {
    /// Plots by case, in the order of the summary; empty if the report is made without the record.
    pub plots: Vec<CasePlots>,
    /// Every trial.
    pub trials: Vec<&'a MeasuredTrial>,
    /// The configuration of the winner: names and text of files.
    pub configuration: Vec<(String, String)>,
}

/// Plots that the script draws: the id and the title of their sections.
const PLOTS: [(&str, &str); 5] = [
    ("percentiles", "Latency by percentile"),
    ("distribution", "Latency as a distribution"),
    ("times", "Latency over time"),
    ("trials", "Requests/s over time"),
    ("cost", "What a request costs"),
];
/// Plots of profile trials.
const LAYERS: [(&str, &str); 2] = [("layers", "CPU time by layer"), ("stacks", "CPU time by function")];
/// Plots of a run with overload.
const OFFERED: [(&str, &str); 2] = [
    ("goodput", "Correct replies per second"),
    ("unserved", "Requests without a correct reply"),
];

/// What the script of a page reads.
#[derive(Serialize, JsonSchema)]
struct Data<'a> {
    groups: Vec<GroupData<'a>>,
    /// Differences within this share count as none.
    margin: f64,
    /// The result as `--format json` and as `--format csv`.
    result: Summary,
    csv: String,
}

/// Cases that are compared with each other.
#[derive(Serialize, JsonSchema)]
struct GroupData<'a> {
    setting: String,
    /// Whether latencies are response times; cases are then compared by response time.
    open: bool,
    cases: Vec<CaseData<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct CaseData<'a> {
    /// Name of the case in the record.
    case: &'a str,
    /// Name of the case in its group.
    label: String,
    plots: Option<&'a CasePlots>,
    cost: Vec<Cost<'a>>,
    matter: Option<Matter>,
}

/// CPU time and run delay of a role per correct reply, in microseconds.
#[derive(Serialize, JsonSchema)]
struct Cost<'a> {
    role: &'a str,
    cpu: f64,
    /// Run delay; `None` if it was not measured.
    waiting: Option<f64>,
}

/// The savings of a case against its reference.
#[derive(Serialize, JsonSchema)]
struct Matter {
    reference: String,
    time: Worth,
    cpu: Option<Worth>,
    /// Cores saved at 1,000 requests/s.
    cores: f64,
}

/// A saving of time or CPU time, in microseconds per request.
#[derive(Serialize, JsonSchema)]
struct Worth {
    verdict: &'static str,
    /// The saving: low end, estimate, high end.
    saved: [f64; 3],
    /// Time or CPU time of a request in the reference.
    spent: f64,
    /// Whether the saving can be compared with the time of a handler; false if requests queued.
    advises: bool,
}

/// JSON schema (draft 2020-12) of the data for a page's script.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Data<'_>).to_value()
}

/// The page.
#[must_use]
pub fn render(summary: &Summary, extras: &Extras<'_>) -> Vec<u8> {
    let groups = groups(summary);
    let plots = match &summary.overload {
        Some(_) => &OFFERED[..],
        None if extras.plots.is_empty() => &[],
        None => &PLOTS,
    };
    let compared = groups.iter().any(|group| group.compared().next().is_some());
    let mut sections = sections(summary);
    let mut show = |all: &[SectionId]| -> String {
        let shown = all.iter().filter_map(|part| sections.swap_remove(part));
        shown.map(|one| section(&one)).collect()
    };
    let ratios = if compared {
        figure("ratios", "Ratios", &Picture::of(summary).inline())
    } else {
        String::new()
    };
    let matter = if !plots.is_empty() && compared && !summary.aa {
        "<div id=\"matter\"></div>\n"
    } else {
        ""
    };
    let layers = match &summary.explained {
        Some(explained) if !explained.cases.is_empty() => &LAYERS[..],
        _ => &[],
    };
    let body = [
        head(summary),
        show(&[SectionId::CutOff]),
        // Stays a table on a phone, where other tables become lists.
        format!("<div class=\"reading\">\n{}</div>\n", show(&[SectionId::Answer])),
        show(&[SectionId::Besides, SectionId::Limits]),
        ratios,
        show(&[SectionId::Figures]),
        plots.iter().map(drawn).collect(),
        show(&[SectionId::Cost, SectionId::Matter]),
        matter.to_owned(),
        show(&[SectionId::Derived, SectionId::Why]),
        layers.iter().map(drawn).collect(),
        show(&[SectionId::Paths, SectionId::Trust, SectionId::Evidence]),
        show(&[
            SectionId::Failures,
            SectionId::Environment,
            SectionId::Detail,
            SectionId::Comparisons,
        ]),
        configuration(&extras.configuration),
        numbers(summary, &groups, extras),
    ];
    html::frame(&title(summary), &body.concat())
}

fn head(summary: &Summary) -> String {
    let below = [subtitle(summary), origin(summary)];
    header(&summary.question, &title(summary), &advice(summary), &below)
}

/// The head of a page: the question, its answer, and the basis of the answer.
#[must_use]
pub fn header(question: &str, title: &str, answer: &Text, below: &[Text]) -> String {
    let below: String = below
        .iter()
        .map(|line| format!("<p class=\"sub\">{}</p>\n", inline(line)))
        .collect();
    format!(
        "<header>\n<p class=\"question\">{}</p>\n<h1>{}</h1>\n<div class=\"answer\">\n<p>{}</p>\n</div>\n\
         {below}</header>\n",
        escape(question),
        escape(title),
        inline(answer)
    )
}

/// A section with a picture.
#[must_use]
pub fn figure(id: &str, title: &str, content: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{content}</section>\n")
}

/// The section of a plot, with a text that the script replaces.
fn drawn((id, title): &(&str, &str)) -> String {
    let text = "<p class=\"dim drawn\">This plot needs JavaScript; the tables have its figures.</p>\n";
    figure(id, title, text)
}

fn configuration(files: &[(String, String)]) -> String {
    let shown = files
        .iter()
        .map(|(name, text)| format!("<h3>{}</h3>\n{}", escape(name), html::log(text.trim_end(), name)));
    let shown: String = shown.collect();
    if shown.is_empty() {
        return shown;
    }
    format!("<details>\n<summary><h2>Configuration of the winner</h2></summary>\n{shown}</details>\n")
}

/// The command that repeats the run, the downloads, and the script with its data.
fn numbers(summary: &Summary, groups: &[Group<'_>], extras: &Extras<'_>) -> String {
    let command = again(summary);
    let data = Data {
        groups: groups.iter().map(|group| of_group(group, extras)).collect(),
        margin: summary.settings.margin,
        result: json::answered(summary),
        csv: String::from_utf8_lossy(&csv::render(summary)).into_owned(),
    };
    let repeat = if command.is_empty() {
        String::new()
    } else {
        format!("<p>To repeat it:</p>\n{}", html::log(&command, "command"))
    };
    format!(
        "<section id=\"numbers\">\n<h2>The numbers</h2>\n{repeat}<p id=\"downloads\">Run {}, lasthop {}.</p>\n</section>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n",
        escape(&summary.run),
        escape(&summary.lasthop),
        embedded(&data)
    )
}

fn of_group<'a>(group: &'a Group<'a>, extras: &'a Extras<'_>) -> GroupData<'a> {
    let summary = group.summary();
    let place = |case: &CaseSummary| summary.cases.iter().position(|other| other.case == case.case);
    let cases = group.cases.iter().map(|case| CaseData {
        case: &case.case,
        label: group.label(case),
        plots: place(case).and_then(|place| extras.plots.get(place)),
        cost: costs(case.metrics.as_ref()),
        matter: group.compare(case).and_then(matter),
    });
    GroupData {
        setting: group.setting(),
        open: quantity(group) == Quantity::ResponseTime,
        cases: cases.collect(),
    }
}

/// Costs of the services per request.
fn costs(metrics: Option<&Metrics>) -> Vec<Cost<'_>> {
    let Some(metrics) = metrics else { return vec![] };
    metrics
        .cpu_per_request
        .roles
        .iter()
        .map(|(role, cpu)| Cost {
            role,
            cpu: *cpu,
            waiting: metrics.run_delay.get(role).map(|delay| delay.us_per_request),
        })
        .collect()
}

fn matter(compared: Compared<'_>) -> Option<Matter> {
    let group = compared.group;
    let reference = compared.reference.metrics.as_ref()?;
    let of = |metric, spent| {
        let comparison = group.comparison(compared.case, metric)?;
        let materiality = comparison.materiality.as_ref()?;
        Some(Worth {
            verdict: word(comparison.verdict),
            saved: [
                materiality.saved_us.low,
                materiality.saved_us.estimate,
                materiality.saved_us.high,
            ],
            spent,
            advises: materiality.break_even.is_some(),
        })
    };
    // The time of all connections, divided by the requests.
    let mean = f64::from(compared.reference.load.connections.max(1)) * 1e6 / reference.throughput.interval.estimate;
    let median = reference
        .latency_p50
        .as_ref()
        .map_or(0.0, |median| median.interval.estimate);
    let cpu = of(Metric::CpuPerRequest, reference.cpu_total());
    Some(Matter {
        reference: compared_name(group.summary(), compared.reference),
        time: of(Metric::Throughput, mean).or_else(|| of(Metric::LatencyP50, median))?,
        cpu,
        cores: compared.comparison.materiality.as_ref()?.cores_saved_at_1000_per_second,
    })
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{plots::plots, summarise, testing};

    use super::*;
    use crate::fixtures;

    fn shown(summary: &Summary, extras: &Extras<'_>) -> String {
        String::from_utf8(render(summary, extras)).unwrap()
    }

    fn embedded_in(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn the_answer_comes_first_and_the_numbers_last() {
        for (name, summary) in fixtures::all() {
            let page = shown(&summary, &Extras::default());
            let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("{name} has no {what}"));
            assert!(place("class=\"answer\"") < place("id=\"numbers\""), "{name}");
            let data = embedded_in(&page);
            assert_eq!(data["result"]["run"], summary.run.as_str(), "{name}");
            let cases: usize = data["groups"]
                .as_array()
                .unwrap()
                .iter()
                .map(|group| group["cases"].as_array().unwrap().len())
                .sum();
            assert_eq!(cases, summary.cases.len(), "{name}");
        }
    }

    #[test]
    fn a_phone_has_a_row_for_each_ratio() {
        let summary = fixtures::patterns();
        let page = shown(&summary, &Extras::default());
        let (_, rest) = page.split_once("<div class=\"reading\">").unwrap();
        let (table, _) = rest.split_once("</table>").unwrap();
        let rows = table.matches("<th scope=\"row\">").count();
        let ratios = summary
            .comparisons
            .iter()
            .filter(|one| one.metric == Metric::Throughput);
        assert_eq!(rows, ratios.count());
        assert_eq!(table.matches("<th scope=\"col\"").count(), 7, "{table}");
    }

    #[test]
    fn below_the_answer_are_machine_kernel_and_date() {
        let page = shown(&fixtures::three_transports(), &Extras::default());
        let (head, _) = page.split_once("</header>").unwrap();
        let (_, below) = head.split_once("class=\"sub\"").unwrap();
        assert!(
            below.contains("6.18.5") && below.contains("2026-08-01 12:00 UTC"),
            "{below}"
        );
    }

    #[test]
    fn what_the_record_has_is_drawn() {
        let data = testing::healthy();
        let summary = summarise(&data);
        let extras = Extras {
            plots: plots(&data),
            configuration: vec![("nginx.conf".into(), "a < b".into())],
            ..Extras::default()
        };
        let page = shown(&summary, &extras);
        assert!(page.contains("id=\"percentiles\"") && page.contains("a &lt; b"));
        let groups = &embedded_in(&page)["groups"];
        for case in groups[0]["cases"].as_array().unwrap() {
            assert!(case["plots"]["trials"]["rate"].as_array().unwrap().len() > 1, "{case}");
            assert!(case["cost"][0]["cpu"].as_f64().unwrap() > 0.0, "{case}");
        }
        assert!(!shown(&summary, &Extras::default()).contains("id=\"percentiles\""));
    }

    #[test]
    fn two_hundred_trials_of_eight_cases_are_below_a_megabyte() {
        let data = testing::healthy();
        let summary = summarise(&data);
        let mut plots = plots(&data);
        for case in &mut plots {
            let columns = &mut case.trials;
            columns.round.resize(200, 12);
            columns.block.resize(200, 12);
            columns.at_ms.resize(200, 123_456);
            columns.rate.resize(200, 12_340.0);
            columns.p50_us.resize(200, Some(123.4));
            columns.p99_us.resize(200, Some(1_234.0));
        }
        let size = |extras: &Extras| render(&summary, extras).len();
        let without = size(&Extras::default());
        let per_case = (size(&Extras {
            plots: plots.clone(),
            ..Extras::default()
        }) - without)
            / plots.len();
        assert!(without + 8 * per_case < 1_000_000, "{without} and {per_case} a case");
    }

    #[test]
    fn foreign_text_stays_text() {
        let mut summary = fixtures::failed_case();
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}";
        summary.title = hostile.into();
        summary.question = hostile.into();
        summary.command.push(hostile.into());
        for failure in &mut summary.failures {
            (failure.cause, failure.log) = (hostile.into(), hostile.into());
        }
        let configuration = vec![(hostile.into(), hostile.into())];
        let page = shown(
            &summary,
            &Extras {
                configuration,
                ..Extras::default()
            },
        );
        assert_eq!(
            page.matches("<script").count(),
            3,
            "the data, and the scripts of plots and tables"
        );
        assert!(!page.contains("<img") && !page.contains('\u{202e}'));
        assert_eq!(embedded_in(&page)["result"]["title"], hostile);
    }
}
