use indexmap::IndexMap;
use lasthop_model::record::{ComparedEndpoints, Stopped, TrialRecord};
use lasthop_record::data::RunData;
use lasthop_stats::stopping::LEAST_ROUNDS;
use lasthop_trial::result::ErrorClass;

use super::{
    across::diff::{Diff, diff},
    is_due, limit, look, seconds_to, summarise,
    summary::{Metric, Standing, Summary, Verdict},
    testing::{TCP, TLS, Truth, UNIX, add_errors, at_rate, comparison, counting_run, each_trial, fail, healthy, run},
};

fn known(summary: &Summary, metric: Metric) -> (f64, f64, f64) {
    let found = comparison(summary, "unix", metric).unwrap();
    (found.ratio.estimate, found.ratio.low, found.ratio.high)
}

#[test]
fn a_known_ratio_is_found_and_judged() {
    let summary = summarise(&healthy());
    for (metric, truth) in [
        (Metric::Throughput, 1.3),
        (Metric::LatencyP50, 1.0 / 1.3),
        (Metric::LatencyP99, 1.0 / 1.3),
        (Metric::CpuPerRequest, 0.7),
    ] {
        let (ratio, low, high) = known(&summary, metric);
        assert!(low < ratio && ratio < high, "{metric:?} {low} {ratio} {high}");
        assert!(
            low - 1e-3 <= truth && truth <= high + 1e-3,
            "{metric:?} {low} {high} misses {truth}"
        );
        assert!((high / low).ln() < 0.2, "{metric:?} {low} {high} says nothing");
        let found = comparison(&summary, "unix", metric).unwrap();
        assert_eq!(
            (found.verdict, found.blocks, found.more_seconds),
            (Verdict::Faster, 30, None),
            "{metric:?}"
        );
    }
    assert_eq!(summary.checks, [], "a healthy run has no doubts");
}

/// Readings of other programs' CPU time can depend on the transport and on the speed of a trial, so no figure uses
/// them.
#[test]
fn what_others_took_moves_no_comparison() {
    let quiet = healthy();
    let mut disturbed = quiet.clone();
    each_trial(&mut disturbed, "unix", |trial| {
        let slow = trial.result.throughput() < 26_000.0;
        trial.observations.machine.foreign_ns = if slow { 40_000_000 } else { -10_000_000 };
    });
    let [quiet, disturbed] = [quiet, disturbed].map(|data| summarise(&data));
    assert_eq!(quiet.comparisons, disturbed.comparisons);
}

#[test]
fn a_case_is_described_by_totals() {
    let summary = summarise(&healthy());
    let unix = summary.cases.iter().find(|case| case.case == "unix").unwrap();
    let metrics = unix.metrics.as_ref().unwrap();
    assert!((metrics.throughput.interval.estimate / 26_000.0 - 1.0).abs() < 0.05);
    assert!((metrics.latency_p50.as_ref().unwrap().interval.estimate / (1e6 / 26_000.0) - 1.0).abs() < 0.05);
    assert!(
        metrics.latency_p99.as_ref().unwrap().interval.estimate
            > metrics.latency_p50.as_ref().unwrap().interval.estimate
    );
    assert!(
        (metrics.bandwidth.as_ref().unwrap().interval.estimate / metrics.throughput.interval.estimate - 64.0).abs()
            < 1e-9
    );
    assert!((metrics.cpu_per_request.driver - 10.0).abs() < 0.02);
    assert!((metrics.cpu_per_request.roles["server"] - 14.0).abs() < 0.02);
    assert!((metrics.switches_per_request["driver"] - 1.0).abs() < 1e-9);
    assert!((metrics.driver_system_calls_per_request - 2.0).abs() < 1e-9);
    assert!((metrics.driver_load - 0.26).abs() < 0.02);
    assert_eq!((unix.trials, unix.failed_trials, unix.reference), (30, 0, false));
    assert!(summary.cases[0].reference);
    assert_eq!((summary.rounds, summary.blocks), (6, 30));
}

/// The time of a request falls from 50 µs to 38.5, and the CPU time from 30 µs to 24.
#[test]
fn materiality_is_in_microseconds_and_cores() {
    let summary = summarise(&healthy());
    for metric in [Metric::Throughput, Metric::LatencyP50] {
        let matter = comparison(&summary, "unix", metric).unwrap().materiality.unwrap();
        assert!(matter.saved_us.low < matter.saved_us.estimate && matter.saved_us.estimate < matter.saved_us.high);
        assert!((matter.saved_us.estimate - 11.54).abs() < 1.0, "{matter:?}");
        // 11.54 / 0.02 − 50 = 527 µs.
        let handler = matter.break_even.unwrap();
        assert!(
            (handler.interval.estimate - 0.527).abs() < 0.05 && handler.interval.low < handler.interval.estimate,
            "{handler:?}"
        );
        assert!((matter.cores_saved_at_1000_per_second - 0.006).abs() < 1e-4);
    }
    let cpu = comparison(&summary, "unix", Metric::CpuPerRequest)
        .unwrap()
        .materiality
        .unwrap();
    assert!((cpu.saved_us.estimate - 6.0).abs() < 0.1, "{cpu:?}");
    // 6 / 0.02 − 20 = 280 µs.
    assert!((cpu.break_even.unwrap().interval.estimate - 0.28).abs() < 0.01);
    assert!(
        comparison(&summary, "unix", Metric::LatencyP99)
            .unwrap()
            .materiality
            .is_none()
    );
}

#[test]
fn a_case_that_costs_saves_less_than_nothing() {
    let summary = summarise(&run(&[UNIX, TCP], 6, 5));
    let found = comparison(&summary, "tcp", Metric::Throughput).unwrap();
    assert_eq!(found.verdict, Verdict::Slower);
    let matter = found.materiality.unwrap();
    assert!(matter.saved_us.estimate < -10.0 && matter.cores_saved_at_1000_per_second < 0.0);
    assert!(matter.break_even.unwrap().interval.low > 0.0);
}

/// In a queue, a handler makes each request wait again, so that the saved part is no saving of time.
#[test]
fn time_saved_in_a_queue_is_no_advice() {
    let mut data = healthy();
    data.header.cases.iter_mut().for_each(|case| case.load.connections = 10);
    for (data, metric) in [
        (data, Metric::Throughput),
        (at_rate(healthy(), 2_000.0), Metric::LatencyP50),
    ] {
        let summary = summarise(&data);
        let advice = |metric| {
            comparison(&summary, "unix", metric)
                .unwrap()
                .materiality
                .unwrap()
                .break_even
        };
        assert_eq!(advice(metric), None);
        assert!(advice(Metric::CpuPerRequest).is_some(), "CPU time does not queue");
    }
}

/// The driver stands for the user's clients, whose savings are unknown.
#[test]
fn cpu_saved_is_that_of_the_services() {
    let by_cpu = |data: &RunData| comparison(&summarise(data), "unix", Metric::CpuPerRequest);
    let mut data = healthy();
    let before = by_cpu(&data);
    each_trial(&mut data, "unix", |trial| trial.result.cost.user_ns = 0);
    assert_eq!(by_cpu(&data), before);
}

#[test]
fn the_same_case_twice_is_equivalent() {
    let mut data = run(&[TCP, TCP], 10, 8);
    data.header.settings.aa = true;
    let summary = summarise(&data);
    let found = comparison(&summary, "tcp#2", Metric::Throughput).unwrap();
    assert_eq!(found.verdict, Verdict::Equivalent, "{found:?}");
    let note = summary.checks.iter().find(|check| check.id == "resolution").unwrap();
    assert!(note.evidence.contains('%'), "{}", note.evidence);
}

#[test]
fn few_rounds_leave_the_same_case_undecided_or_equivalent() {
    for rounds in [2, 3, 4] {
        let found = comparison(&summarise(&run(&[TCP, TCP], rounds, 3)), "tcp#2", Metric::Throughput).unwrap();
        assert!(
            matches!(found.verdict, Verdict::Undecided | Verdict::Equivalent),
            "{rounds} {found:?}"
        );
        assert_eq!(
            found.more_seconds.is_some(),
            found.verdict == Verdict::Undecided,
            "{rounds} {found:?}"
        );
    }
}

#[test]
fn equal_records_and_seeds_give_equal_summaries() {
    let data = healthy();
    assert_eq!(summarise(&data), summarise(&data));
    let mut other = data.clone();
    other.header.settings.seed = 2;
    let (one, two) = (
        known(&summarise(&data), Metric::LatencyP50),
        known(&summarise(&other), Metric::LatencyP50),
    );
    assert_eq!(one.0, two.0, "the seed moves the ends only");
    assert_ne!(one.1, two.1);
}

/// An additional case has its own draws, so that the figures of the others stay.
#[test]
fn figures_do_not_depend_on_other_cases() {
    let mut three = run(&[TCP, UNIX, TLS], 6, 5);
    let all = summarise(&three);
    three.header.cases.truncate(2);
    let two = summarise(&three);
    assert_eq!(known(&all, Metric::Throughput), known(&two, Metric::Throughput));
    assert_eq!(known(&all, Metric::LatencyP99), known(&two, Metric::LatencyP99));
}

#[test]
fn a_case_that_never_works_has_failures_and_no_metrics() {
    let mut data = healthy();
    fail(&mut data, "unix", |_| true);
    let summary = summarise(&data);
    let unix = &summary.cases[1];
    assert!(unix.metrics.is_none());
    assert_eq!((unix.trials, unix.failed_trials, summary.failures.len()), (0, 30, 30));
    assert!(summary.comparisons.is_empty());
    assert!(summary.cases[0].metrics.is_some(), "the other case is as it was");
}

#[test]
fn blocks_in_which_one_case_failed_are_left_out_of_its_comparison_only() {
    let mut data = run(&[TCP, UNIX, TLS], 6, 5);
    // The failed trials would pair with the slow trials of TCP, which would distort the ratio.
    each_trial(&mut data, "tcp", |trial| {
        trial.result.requests /= if trial.block == 0 { 100 } else { 1 }
    });
    fail(&mut data, "unix", |trial| trial.block == 0);
    let summary = summarise(&data);
    let unix = comparison(&summary, "unix", Metric::Throughput).unwrap();
    assert_eq!(unix.blocks, 24);
    assert!((unix.ratio.estimate / 1.3 - 1.0).abs() < 0.03, "{unix:?}");
    assert_eq!(comparison(&summary, "tls", Metric::Throughput).unwrap().blocks, 30);
}

#[test]
fn a_trial_without_a_right_answer_is_a_failed_one() {
    let mut data = healthy();
    each_trial(&mut data, "unix", |trial| {
        trial.result.requests *= u64::from(trial.round > 0)
    });
    let unix = &summarise(&data).cases[1];
    assert_eq!((unix.trials, unix.failed_trials), (25, 5));
}

#[test]
fn a_record_cut_off_in_a_block_keeps_what_it_has() {
    let mut data = healthy();
    data.records.truncate(1 + 2 * 5 + 1 + 2 * 3 + 1);
    data.end = None;
    let summary = summarise(&data);
    assert_eq!((summary.complete, summary.stopped), (false, Stopped::Interrupted));
    assert_eq!((summary.rounds, summary.blocks), (2, 9));
    assert_eq!(comparison(&summary, "unix", Metric::Throughput).unwrap().blocks, 8);
    assert!(summary.seconds > 1.0 && summary.seconds < 3.0, "{}", summary.seconds);
}

#[test]
fn records_with_next_to_nothing_have_a_summary() {
    let full = healthy();
    for length in 0..6 {
        let mut data = RunData {
            end: None,
            environment: None,
            ..full.clone()
        };
        data.records.truncate(length);
        let summary = summarise(&data);
        assert_eq!(summary.comparisons.is_empty(), length < 5, "{length}");
        let text = serde_json::to_string(&summary).unwrap();
        assert!(!text.contains(":null,\"low\""), "numbers are finite: {text}");
        let read: Summary = serde_json::from_str(&text).unwrap();
        assert_eq!(
            Summary {
                word: summary.word.clone(),
                ..read
            },
            summary
        );
    }
}

#[test]
fn a_driver_without_latencies_still_compares_throughput() {
    let mut data = healthy();
    each_trial(&mut data, "unix", |trial| trial.result.service_time = None);
    let summary = summarise(&data);
    assert!(comparison(&summary, "unix", Metric::LatencyP50).is_none());
    assert!(comparison(&summary, "unix", Metric::Throughput).is_some());
    assert!(summary.cases[1].metrics.as_ref().unwrap().latency_p50.is_none());
}

/// A run that stopped at its own interval gets wider intervals, because of its looks.
#[test]
fn a_precision_stop_is_paid_for() {
    let mut data = healthy();
    let plain = known(&summarise(&data), Metric::Throughput);
    data.end.as_mut().unwrap().stopped = Stopped::Precision;
    let stopped = known(&summarise(&data), Metric::Throughput);
    assert_eq!(plain.0, stopped.0);
    assert!(stopped.1 < plain.1 && stopped.2 > plain.2);
}

#[test]
fn one_start_of_the_servers_decides_nothing() {
    let decided = |data: &RunData| {
        let summary = summarise(data);
        let unix = comparison(&summary, "unix", Metric::Throughput).unwrap();
        let limits = ["unix faster > 1%".parse().unwrap()];
        let standing = limit::judge(&limits, &limit::of_run(&summary)).unwrap()[0].standing;
        assert!(unix.ratio.low > 1.01, "the interval alone would decide: {unix:?}");
        assert_eq!(unix.one_start, unix.verdict == Verdict::Undecided);
        (unix.verdict, standing)
    };
    let one = counting_run(&[TCP, UNIX], 1, 40, 7);
    assert_eq!(decided(&one), (Verdict::Undecided, Standing::Unjudged));
    assert_eq!(
        decided(&counting_run(&[TCP, UNIX], 4, 10, 7)),
        (Verdict::Faster, Standing::Beyond)
    );
    // Servers without restarts have one start, whatever the number of rounds, and a doubt says so.
    let mut given = one;
    given.header.given = Some(ComparedEndpoints {
        endpoints: IndexMap::new(),
        restart: None,
        pids: IndexMap::new(),
    });
    assert_eq!(decided(&given), (Verdict::Faster, Standing::Beyond));
    given.header.given.as_mut().unwrap().restart = Some("true".to_owned());
    assert_eq!(decided(&given), (Verdict::Undecided, Standing::Unjudged));
}

#[test]
fn a_change_from_one_start_to_another_is_not_decided() {
    let of = |rounds, rate| {
        let mut data = counting_run(&[TCP, Truth { rate, ..UNIX }], rounds, 40 / rounds, 7);
        data.header.run = format!("test-{rate}-{rounds}");
        data
    };
    let limits = ["unix faster > 1%".parse().unwrap()];
    let standing = |diff: &Diff| limit::judge(&limits, &limit::of_diff(diff)).unwrap()[0].standing;
    for (old, verdict, beyond) in [
        (1, Verdict::Undecided, Standing::Unjudged),
        (4, Verdict::Faster, Standing::Beyond),
    ] {
        let diff = diff(&of(old, 22_000.0), &of(4, 44_000.0)).unwrap();
        assert_eq!((diff.comparisons[0].verdict, standing(&diff)), (Some(verdict), beyond));
    }
}

#[test]
fn what_must_not_be_used_gets_no_verdict() {
    let mut data = healthy();
    assert_eq!(
        comparison(&summarise(&data), "unix", Metric::CpuPerRequest)
            .unwrap()
            .verdict,
        Verdict::Faster
    );
    add_errors(&mut data, "tcp", ErrorClass::Reset, 100);
    let summary = summarise(&data);
    assert!(summary.invalid("unix", "tcp").is_some());
    let verdicts = summary.comparisons.iter().map(|one| (one.verdict, one.more_seconds));
    assert!(
        verdicts.clone().all(|one| one == (Verdict::Undecided, None)),
        "{:?}",
        verdicts.collect::<Vec<_>>()
    );
}

/// The record as it was after this many rounds.
fn after(data: &RunData, rounds: u32) -> RunData {
    let within = |record: &&TrialRecord| match record {
        TrialRecord::Round(round) => round.round < rounds,
        TrialRecord::Trial(trial) => trial.round < rounds,
        TrialRecord::Overload(trial) => trial.round < rounds,
        TrialRecord::Failure(failure) => failure.round < rounds,
        TrialRecord::Resumed(_) => true,
    };
    RunData {
        records: data.records.iter().filter(within).cloned().collect(),
        end: None,
        ..data.clone()
    }
}

#[test]
fn the_stop_waits_for_rounds_and_for_width() {
    let mut data = run(&[TCP, UNIX], 12, 5);
    assert!(look(&data).precise);
    let early = look(&after(&data, LEAST_ROUNDS as u32 - 1));
    assert!(
        !early.precise && !early.lines[0].decided,
        "too few rounds, however narrow"
    );
    assert!(look(&after(&data, LEAST_ROUNDS as u32)).lines[0].decided);
    let line = &look(&data).lines[0];
    let width = line.ratio.unwrap().log_half_width().exp_m1();
    data.header.settings.precision = width * 1.01;
    assert!(look(&data).precise);
    data.header.settings.precision = width * 0.99;
    assert!(!look(&data).precise);
}

#[test]
fn intervals_that_let_cases_go_are_as_wide_as_those_that_stop_a_run() {
    let mut data = healthy();
    let high = |data: &RunData| {
        comparison(&summarise(data), "unix", Metric::Throughput)
            .unwrap()
            .ratio
            .high
    };
    let usual = high(&data);
    let last = data.records.iter_mut().rev().find_map(|record| match record {
        TrialRecord::Round(round) => Some(round),
        _ => None,
    });
    last.unwrap().left.push("tcp".to_owned());
    let wider = high(&data);
    assert!(wider > usual);
    data.end.as_mut().unwrap().stopped = Stopped::Precision;
    assert_eq!(high(&data), wider);
}

#[test]
fn the_stop_does_not_wait_for_a_case_that_never_worked() {
    let mut data = run(&[TCP, UNIX, TLS], 12, 5);
    fail(&mut data, "tls", |_| true);
    assert!(look(&data).precise);
    fail(&mut data, "unix", |_| true);
    assert_eq!(
        look(&data).precise,
        look(&run(&[TCP], 12, 5)).precise,
        "then the throughput alone decides"
    );
    fail(&mut data, "tcp", |_| true);
    assert!(!look(&data).precise);
}

#[test]
fn progress_narrows_from_nothing() {
    let data = run(&[TCP, UNIX], 10, 5);
    assert_eq!(look(&after(&data, 0)).lines[0].ratio, None);
    let width = |rounds| look(&after(&data, rounds)).lines[0].ratio.unwrap().log_half_width();
    assert!(width(10) < width(4));
    let last = &look(&data).lines[0];
    assert_eq!(
        (last.rounds, last.blocks, last.case.as_str(), last.reference.as_str()),
        (10, 50, "unix", "tcp")
    );
}

/// Among runs that compare a case with itself, one in twenty finds a difference by chance, if there is no margin.
#[test]
fn same_cases_differ_by_chance_as_often_as_promised() {
    let differs = |seed: &u64| {
        let mut data = counting_run(&[TCP, TCP], 4, 3, *seed);
        data.header.settings.margin = 0.0;
        let word = comparison(&summarise(&data), "tcp#2", Metric::Throughput)
            .unwrap()
            .verdict;
        matches!(word, Verdict::Faster | Verdict::Slower)
    };
    let found = (0..300).filter(differs).count();
    // 15 are expected, with a standard deviation of 3.8.
    assert!((5..=26).contains(&found), "{found} of 300");
}

#[test]
fn an_open_loop_is_compared_by_its_response_time() {
    let mut data = at_rate(healthy(), 2_000.0);
    // Replies came as before, but are timed from the schedule, 100 µs earlier than the send.
    for case in ["tcp", "unix"] {
        each_trial(&mut data, case, |trial| {
            let service = trial.result.service_time.as_ref().unwrap();
            let mut response = lasthop_trial::Histogram::new();
            service
                .bins()
                .for_each(|(value, count)| response.record_n(value + 100_000, count));
            trial.result.response_time = Some(response);
        });
    }
    let summary = summarise(&data);
    assert_eq!(
        comparison(&summary, "unix", Metric::Throughput),
        None,
        "it was asked for"
    );
    let (ratio, low, high) = known(&summary, Metric::LatencyP50);
    let truth = (100.0 + 1e6 / 26_000.0) / 150.0;
    assert!(
        low < truth && truth < high && (ratio / truth - 1.0).abs() < 0.01,
        "{low} {ratio} {high}"
    );
    let found = comparison(&summary, "unix", Metric::LatencyP50).unwrap();
    assert_eq!(found.verdict, Verdict::Faster);
    assert!((found.materiality.unwrap().saved_us.estimate - (50.0 - 1e6 / 26_000.0)).abs() < 2.0);
    // The driver's CPU time is mostly waiting: the service has 14 µs against 20.
    let (_, low, high) = known(&summary, Metric::CpuPerRequest);
    assert!(low - 1e-3 <= 0.7 && 0.7 <= high + 1e-3, "{low} {high}");
    let metrics = summary.cases[1].metrics.as_ref().unwrap();
    assert!(metrics.latency_p50.as_ref().unwrap().interval.low > 130.0 && metrics.latency_max.unwrap() > 150.0);
    assert!(
        (metrics.latency_mean.unwrap() - (100.0 + 1e6 / 26_000.0)).abs() < 2.0,
        "{:?}",
        metrics.latency_mean
    );
    assert!((metrics.cpu_total() - 14.0).abs() < 0.2, "{}", metrics.cpu_total());
    let open = metrics.open_loop.as_ref().unwrap();
    assert_eq!(
        (open.scheduled, open.sent, open.reached, open.lag_p99_us),
        (6_000, 6_000, true, Some(1.0))
    );
    assert_eq!(summary.checks, [], "a healthy run has no doubts");
}

#[test]
fn an_open_loop_stops_at_its_response_time() {
    let mut data = at_rate(run(&[TCP, UNIX], 12, 5), 2_000.0);
    let line = &look(&data).lines[0];
    assert_eq!(line.metric, Metric::LatencyP50);
    let width = line.ratio.unwrap().log_half_width().exp_m1();
    data.header.settings.precision = width * 1.01;
    assert!(look(&data).precise);
    data.header.settings.precision = width * 0.99;
    assert!(!look(&data).precise);
    // A single case stops at its own median.
    let alone = at_rate(run(&[TCP], 12, 5), 2_000.0);
    assert!(look(&alone).precise);
    let narrower = |share| {
        let mut data = alone.clone();
        data.header.settings.precision = share;
        look(&data).precise
    };
    assert!(!narrower(1e-5));
}

#[test]
fn an_open_loop_that_slows_down_drifts() {
    let mut data = at_rate(run(&[TCP, UNIX], 8, 5), 2_000.0);
    let slower = |trial: &mut lasthop_model::record::MeasuredTrial, share: f64| {
        let mut response = lasthop_trial::Histogram::new();
        let times = 1.0 + share * trial.at_ns as f64 / 1e10;
        response.record_n((50_000.0 * times) as u64, 200);
        trial.result.response_time = Some(response);
    };
    each_trial(&mut data, "tcp", |trial| slower(trial, 0.5));
    each_trial(&mut data, "unix", |trial| slower(trial, 1.0));
    let drifts: Vec<_> = summarise(&data)
        .checks
        .into_iter()
        .filter(|check| check.id == "drift")
        .collect();
    let text = |case: &str| {
        &drifts
            .iter()
            .find(|check| check.case.as_deref() == Some(case))
            .unwrap()
            .evidence
    };
    assert!(
        text("tcp").starts_with("its median response time rises"),
        "{}",
        text("tcp")
    );
    assert!(text("unix").starts_with("the ratio to tcp rises"), "{}", text("unix"));
}

#[test]
fn how_long_an_interval_takes_follows_from_its_width() {
    let data = run(&[TCP, UNIX, UNIX], 6, 5);
    let widths: Vec<f64> = look(&data)
        .lines
        .iter()
        .map(|line| line.ratio.unwrap().log_half_width())
        .collect();
    let [half, all] = seconds_to(&data, widths[0].max(widths[1]).exp_m1()).unwrap();
    let took = data.took_ns() as f64 / 1e9;
    assert!((all / took - 1.0).abs() < 1e-9 && half <= all, "{half} {all} {took}");
    assert!((seconds_to(&data, 0.05).unwrap()[0] < seconds_to(&data, 0.02).unwrap()[0]));
    assert_eq!(seconds_to(&run(&[TCP], 6, 5), 0.05), None);
    assert_eq!(seconds_to(&run(&[TCP, UNIX], 1, 1), 0.05), None);
}

#[test]
fn looks_become_rare_in_a_long_run() {
    assert!((1..=199).all(is_due), "as often as ever in a run of usual length");
    let of_an_hour = (1..=4_000).filter(|rounds| is_due(*rounds)).count();
    assert!((400..700).contains(&of_an_hour), "{of_an_hour}");
    for rounds in 200..4_000_u32 {
        assert!(
            (rounds..=rounds + rounds / 100 + 1).any(is_due),
            "none within 1 % of {rounds}"
        );
    }
}
