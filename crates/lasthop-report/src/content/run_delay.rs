//! The sentence in "Why" that tells who waited for a CPU.

use lasthop_analyse::{
    groups::Compared,
    summary::{Measured, Metrics},
};
use lasthop_model::quantity::joined;

use super::why::place;
use crate::units::{Micros, NBSP};

/// A difference in run delay is reported if it is at least this share of the time or CPU time that the case saves,
/// whichever is less. The run delays of several threads overlap with each other and with other work, so they are not
/// parts of a sum and cannot be compared with its largest part. A tenth is what matters to a reader who asks where the
/// time went.
const NOTICEABLE: f64 = 0.1;

/// Microseconds that a role waited per request.
struct Waited {
    who: String,
    now: f64,
    before: f64,
}

/// Empty unless the run delays of the two are known to differ (the interval of the difference excludes 0), and by a
/// [`NOTICEABLE`] share of what the case saves. `cpu` is the CPU time that the case saves per request, if it is known
/// to save any.
///
/// The sentence states what was measured. It does not claim that one causes the other, which was not measured.
pub fn sentence(reference: &str, compared: Compared<'_>, cpu: Option<f64>) -> String {
    let least = yardstick(compared, cpu) * NOTICEABLE;
    let said = waited(compared, |saved| {
        (saved.interval.low > 0.0 || saved.interval.high < 0.0) && saved.interval.estimate.abs() >= least
    })
    .into_iter()
    .enumerate()
    .map(|(place, waited)| {
        let Waited { who, now, before } = waited;
        let now = Micros(now);
        let before = Micros(before);
        if place == 0 {
            format!("{who} waited {now} for a{NBSP}CPU ({reference}: {before})")
        } else {
            format!("{who} {now} ({before})")
        }
    });
    let said = joined(said, ", ");
    if said.is_empty() {
        said
    } else {
        format!(" Per request, {said}.")
    }
}

/// The roles that differ, largest first. If no single role does, all of them together.
fn waited(compared: Compared<'_>, differs: impl Fn(&Measured) -> bool) -> Vec<Waited> {
    let Compared {
        case,
        reference,
        comparison,
        ..
    } = compared;
    let (Some(saved), Some(now), Some(before)) = (&comparison.run_delay_saved, &case.metrics, &reference.metrics)
    else {
        return Vec::new();
    };
    let counts = |role: &str| now.cpu_per_request.roles.contains_key(role);
    let roles = saved
        .roles
        .iter()
        .filter(|(role, saved)| counts(role) && differs(saved));
    let mut roles: Vec<_> = roles.collect();
    roles.sort_by(|a, b| b.1.interval.estimate.abs().total_cmp(&a.1.interval.estimate.abs()));
    let of = |metrics: &Metrics, role: &str| Some(metrics.run_delay.get(role)?.us_per_request);
    let alone = |role: &String| {
        Some(Waited {
            who: place(role).to_owned(),
            now: of(now, role)?,
            before: of(before, role)?,
        })
    };
    let mut found: Vec<Waited> = roles.into_iter().filter_map(|(role, _)| alone(role)).collect();
    if found.is_empty() && saved.all.as_ref().is_some_and(differs) {
        let totals = now.run_delay_total().zip(before.run_delay_total());
        found.extend(totals.map(|(now, before)| Waited {
            who: "the services together".to_owned(),
            now,
            before,
        }));
    }
    found
}

/// What the case saves per request, in microseconds: CPU time or time, whichever is less, out of those known to differ.
/// In a closed loop, time means the time between two replies: a request waits while those of other connections are
/// handled, and run delay is counted once for all of them.
fn yardstick(compared: Compared<'_>, cpu: Option<f64>) -> f64 {
    let Compared { case, comparison, .. } = compared;
    let at_once = if case.load.is_open() {
        1.0
    } else {
        f64::from(case.load.connections.max(1))
    };
    let materiality = comparison.materiality.as_ref().filter(|_| comparison.verdict.differs());
    let time = materiality.map(|materiality| materiality.saved_us.estimate / at_once);
    let known = [time, cpu].into_iter().flatten();
    known.map(f64::abs).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::{Comparison, Measured, Metric, RunDelaySaved, Summary, Verdict};
    use lasthop_stats::Interval;

    use crate::{Extras, Format, Options, fixtures, render};

    fn page(summary: &Summary) -> String {
        String::from_utf8(render(
            summary,
            &Extras::default(),
            Format::Markdown,
            &Options::default(),
        ))
        .unwrap()
    }

    /// The Unix socket saves 19.3 µs per request and 5.58 of CPU time.
    fn by_unix(summary: &mut Summary, metric: Metric) -> &mut Comparison {
        let mut all = summary.comparisons.iter_mut();
        all.find(|one| one.case.starts_with("unix") && one.metric == metric)
            .unwrap()
    }

    fn saved(summary: &mut Summary) -> &mut RunDelaySaved {
        by_unix(summary, Metric::Throughput).run_delay_saved.as_mut().unwrap()
    }

    fn about(us: f64) -> Measured {
        Measured::of(
            "us",
            Interval {
                estimate: us,
                low: us - 0.1,
                high: us + 0.1,
            },
        )
    }

    const SAID: &str = "Per request, server waited 5.30 µs for a CPU (TCP: 14.1 µs).";

    #[test]
    fn who_waited_less_is_said() {
        let page = page(&fixtures::shared_cpu());
        assert!(page.contains(SAID), "{page}");
        assert_eq!(page.matches("waited").count(), 1, "TLS waits as long as TCP: {page}");
    }

    #[test]
    fn what_is_not_known_to_differ_is_not_said() {
        let mut summary = fixtures::shared_cpu();
        let RunDelaySaved { all, roles } = saved(&mut summary);
        roles
            .values_mut()
            .chain(all)
            .for_each(|one| (one.interval.low, one.interval.high) = (-0.1, 20.0));
        assert!(!page(&summary).contains("waited"));
        by_unix(&mut summary, Metric::Throughput).run_delay_saved = None;
        assert!(!page(&summary).contains("waited"));
    }

    #[test]
    fn a_tenth_of_the_lesser_difference_is_noticeable() {
        let mut summary = fixtures::shared_cpu();
        let put = |summary: &mut Summary, us: f64| {
            *saved(summary) = RunDelaySaved {
                all: None,
                roles: [("server".to_owned(), about(us))].into(),
            };
        };
        // A tenth of 5.58 µs of CPU time, and not of 19.3 µs of time.
        for (us, is_said) in [(0.55, false), (0.57, true), (-0.57, true)] {
            put(&mut summary, us);
            assert_eq!(page(&summary).contains("server waited"), is_said, "{us}");
        }
        // Without a known difference of CPU time, of the time; with ten connections it is that between two answers.
        by_unix(&mut summary, Metric::CpuPerRequest).verdict = Verdict::Undecided;
        for (us, connections, is_said) in [(1.92, 1, false), (1.94, 1, true), (0.19, 10, false), (0.2, 10, true)] {
            put(&mut summary, us);
            summary.cases[0].load.connections = connections;
            let page = page(&summary);
            assert_eq!(
                page.contains("of it). Per request, server waited"),
                is_said,
                "{us} {page}"
            );
        }
    }

    #[test]
    fn small_waits_of_all_are_said_together() {
        let mut summary = fixtures::shared_cpu();
        *saved(&mut summary) = RunDelaySaved {
            all: Some(about(1.8)),
            roles: [("server".to_owned(), about(0.4))].into(),
        };
        let text = page(&summary);
        assert!(
            text.contains("the services together waited 5.30 µs for a CPU (TCP: 14.1 µs)"),
            "{text}"
        );
    }
}
