//! `lasthop survey`

use std::{collections::BTreeMap, sync::atomic::Ordering};

use lasthop_analyse::{answers::answers, summary::Standing};
use lasthop_load::speed::Speedometer;
use lasthop_model::quantity::written;
use lasthop_record::{Store, store};
use lasthop_report::{Format, answers::answer_of};
use lasthop_stats::middle;
use lasthop_survey::{
    limit::Limit,
    links::Survey,
    page,
    saving::{Known, Stacks, judge},
    survey,
    watch::Timing,
};

use super::{
    args,
    context::{catalog, deliver_bytes, document_bytes, has_document_format, home, writable},
    output::{CliError, DONE, Exit, INTERRUPTED, LIMIT, OrExit, counted, talk},
    signals::watch_signals,
};

/// Readings of the speed of a CPU, half a millisecond each.
const READINGS: usize = 9;

pub fn watch(arguments: &args::Survey) -> Exit {
    if arguments.format != Format::Csv {
        has_document_format("a survey", arguments.format)?;
    }
    arguments.output.as_deref().map_or(Ok(()), writable)?;
    let interrupt = watch_signals()?;
    let timing = Timing {
        watch: arguments.watch,
        interval: arguments.interval,
    };
    let begun = || {
        if !arguments.quiet {
            talk(&format!("watching for {}", written(arguments.watch)));
        }
    };
    let mut result = survey(timing, begun).or_failed()?;
    let found = result.links.len();
    if !arguments.only.is_empty() {
        result
            .links
            .retain(|link| arguments.only.iter().any(|name| link.has(name)));
        if result.links.is_empty() && found > 0 {
            let all = counted(found, "link");
            return Err(CliError::failed(format!(
                "none of {all} has {}",
                arguments.only.join(" or ")
            )));
        }
    }
    let mut all = BTreeMap::new();
    let known = |experiment: &str| {
        let known = all.entry(experiment.to_owned()).or_insert_with(|| known(experiment));
        known.clone()
    };
    judge(&mut result.links, &Stacks::of(&catalog()?), speed(), known);
    deliver_bytes(
        arguments.output.as_deref(),
        arguments.verbose,
        |options| match arguments.format {
            Format::Csv => page::csv(&result),
            format => document_bytes(&result, &page::document(&result, arguments.verbose), format, options),
        },
    )?;
    Ok(match hold(&arguments.fail_if, &result) {
        _ if interrupt.load(Ordering::Relaxed) => INTERRUPTED,
        code => code,
    })
}

/// What was found of an experiment: by the last run here, and by the run that came with lasthop.
fn known(experiment: &str) -> Vec<Known> {
    let own = || {
        let store = Store::new(home().ok()?.path());
        let is_wanted = |header: lasthop_model::record::RunHeader| header.experiment.name == experiment;
        let last = store.newest(|path| store::header(path).is_ok_and(is_wanted)).ok()??;
        let summary = lasthop_analyse::summarise(&store::read(&last).ok()?);
        let answer = answer_of(&summary, "", None)?;
        Some(Known {
            answer,
            run: Some(summary.run),
        })
    };
    let shipped = answers().get(experiment).map(|answer| Known {
        answer: answer.clone(),
        run: None,
    });
    own().into_iter().chain(shipped).collect()
}

/// How fast a CPU is here, in steps per microsecond: the median, because others may take a part of a reading.
fn speed() -> f64 {
    let mut meter = Speedometer::default();
    middle((0..READINGS).map(|_| meter.read())).expect("there are readings")
}

/// Says how each link stands to each limit, and fails if one is beyond it.
fn hold(limits: &[Limit], survey: &Survey) -> u8 {
    let mut code = DONE;
    for limit in limits {
        let judged: Vec<_> = survey.links.iter().filter_map(|link| limit.judge(link)).collect();
        if judged.is_empty() {
            talk(&format!("{limit}: undecided: no figures say what a link would save"));
        }
        for (standing, text) in judged {
            talk(&text);
            if standing == Standing::Beyond {
                code = LIMIT;
            }
        }
    }
    code
}
