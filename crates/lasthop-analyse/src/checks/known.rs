//! The meaning of each check for people: the text of `docs/checks.md` and `lasthop report --check`, and the line of a
//! report.

use crate::summary::Severity;

/// A check in words without figures, which are in the findings of a run.
#[derive(Clone, Copy, Debug)]
pub struct CheckMeaning {
    pub id: &'static str,
    /// Severity of its findings, with conditions.
    pub severity: &'static str,
    /// Meaning of a finding for the answer.
    pub line: &'static str,
    /// Meaning of a finding that is only a note.
    pub note: Option<&'static str>,
    /// The condition of a finding, after the severity and a colon.
    pub found: &'static str,
    /// Advice for a finding.
    pub advice: &'static str,
    /// Whether reports have the check even as a note, because an option asks for it or it changes the measurement.
    pub asked: bool,
    /// Whether the line needs the evidence to make sense.
    pub evident: bool,
}

impl CheckMeaning {
    /// The check with an id; `None` for an id that only another version has.
    #[must_use]
    pub fn of(id: &str) -> Option<&'static Self> {
        all().find(|known| known.id == id)
    }

    /// The meaning of a finding with this severity for the answer.
    #[must_use]
    pub fn meaning(&self, severity: Severity) -> &'static str {
        self.note.filter(|_| severity == Severity::Note).unwrap_or(self.line)
    }

    const fn noted(self, note: &'static str) -> Self {
        Self {
            note: Some(note),
            ..self
        }
    }

    const fn asked(self) -> Self {
        Self { asked: true, ..self }
    }

    const fn evident(self) -> Self {
        Self { evident: true, ..self }
    }
}

/// Every check, by theme.
pub fn all() -> impl Iterator<Item = &'static CheckMeaning> + Clone {
    THEMES.iter().flat_map(|(_, checks)| *checks)
}

const fn known(
    id: &'static str,
    severity: &'static str,
    line: &'static str,
    found: &'static str,
    advice: &'static str,
) -> CheckMeaning {
    CheckMeaning {
        id,
        severity,
        line,
        note: None,
        found,
        advice,
        asked: false,
        evident: false,
    }
}

const DOUBT: &str = "Doubt";
const NOTE: &str = "Note";
const INVALID: &str = "Invalid";

/// Headings, each with its checks.
pub const THEMES: &[(&str, &[CheckMeaning])] = &[
    ("Answers", ANSWERS),
    ("The link", LINK),
    ("The driver", DRIVER),
    ("The length of trials", LENGTH),
    ("The rate (open loop)", RATE),
    ("Classic tools", TOOLS),
    ("The machine", MACHINE),
    ("Containers", CONTAINERS),
    ("The design of the run", DESIGN),
    ("The network stack", NETWORK),
    ("Layers", LAYERS),
];

const LAYERS: &[CheckMeaning] = &[
    known(
        "layers-do-not-add-up",
        DOUBT,
        "The layers do not add up to the measured CPU time",
        "samples and the kernel's CPU time differ by more than 5 % and chance.",
        "Repeat with `--placement same`: elsewhere, a virtual machine's samples may be late.",
    ),
    known(
        "layers-missing",
        NOTE,
        "Part of the CPU time belongs to no layer",
        "more than 5 % of a role's samples are in functions without a layer.",
        "Name them: `--layers FILE`.",
    ),
    known(
        "not-observed",
        NOTE,
        "The processes could not be observed",
        "the kernel did not allow the profile trials of `--explain`.",
        "Follow the finding, then `lasthop run RUN --again --explain`.",
    )
    .asked(),
];

const ANSWERS: &[CheckMeaning] = &[
    known(
        "errors",
        "Doubt; invalid above 0.1 % of requests",
        "Requests failed; the figures are those of the others",
        "requests failed or got a wrong reply.",
        "Look at the first errors and at the server's log.",
    ),
    known(
        "sent-again",
        DOUBT,
        "The server often ends connections while requests are under way",
        "at least 2 % of requests were sent again, because a server ended their connection before it took them.",
        "Let the server keep connections for longer (more requests each), or use a shorter pipeline.",
    ),
    known(
        "failed-trials",
        "Doubt; invalid if the case failed in more than one round",
        "Failed trials are left out, so a case may look better than it is",
        "after a failed trial, the case has no more in that round.",
        "See Failures in the report.",
    ),
    known(
        "lost",
        DOUBT,
        "Requests were lost without an error: a faster sender only loses more",
        "one-way requests never arrived. Throughput counts what the server received.",
        "Compare what arrives, or lower `--rate`.",
    ),
    known(
        "backlog-full",
        DOUBT,
        "A server's backlog was full: a Unix socket then refuses, TCP waits",
        "a server refused connections. TCP repeats its SYN a second later.",
        "Raise the backlog, or compare errors and slow requests together.",
    ),
    known(
        "ports-exhausted",
        DOUBT,
        "TCP ran out of local ports; the case measures that, not the transport",
        "no local TCP port was left.",
        "Keep connections alive, or open fewer per round (`--blocks`).",
    ),
];

const LINK: &[CheckMeaning] = &[
    known(
        "transport-not-as-asked",
        INVALID,
        "The case did not use the transport in its name",
        "a live connection had another address family or differed in TLS.",
        "Check both ends (`lasthop show EXPERIMENT --files`).",
    ),
    known(
        "reuse-not-as-asked",
        INVALID,
        "Connections were reused where each request needs its own, or the reverse",
        "a live connection was not used as the case says.",
        "Set keep-alive as the case says; `compare` takes `--reuse per-request`.",
    ),
    known(
        "load-not-over-link",
        INVALID,
        "Replies came another way than over the link",
        "per reply, the link's server did too little or got too few connections, or the proxy reached it at another \
         address.",
        "Turn off the proxy's cache and other upstreams, or mend a driver that is not lasthop's.",
    ),
    known(
        "less-work",
        INVALID,
        "Requests did not reach every service in one case",
        "a service behind the link used less than a third of the compared case's CPU time per reply, in two rounds or \
         more.",
        "Turn off caches, and compare the service's logs.",
    ),
    known(
        "link-not-proven",
        NOTE,
        "Only the configuration says that the transport was used",
        "neither the application nor the kernel's socket tables showed a connection.",
        "Add `[link.proof]`, which asks the application.",
    ),
    known(
        "tls-differs",
        DOUBT,
        "The cases used different TLS versions or ciphers",
        "the compared cases differ in them.",
        "Set the same for both.",
    ),
    known(
        "nodelay-off",
        "Note if you asked for it, else doubt",
        "TCP may hold small writes back, which makes Unix sockets look better",
        "`TCP_NODELAY` is off, so Nagle's algorithm may hold small writes for up to 40 ms.",
        "Set it, unless your application does not.",
    ),
    known(
        "open-to-everybody",
        NOTE,
        "Every user of this machine could send requests to a server of the run",
        "a server at a network address needed no password (SECURITY.md).",
        "Measure without other users, or with a password.",
    ),
    known(
        "config-differs",
        DOUBT,
        "The compared cases differ in more than the link",
        "the rendered configurations differ, or the replies of endpoints (`--differing`).",
        "Make them alike, or read the ratio as that of all differences.",
    ),
];

const DRIVER: &[CheckMeaning] = &[
    known(
        "driver-saturated",
        DOUBT,
        "The driver was at its limit, so the servers may be able to do more",
        "the driver used 85 % of a core or more per thread, unless only one request is under way or an open loop keeps \
         its rate.",
        "If this is the better case, read the ratio as \"at least\"; CPU time per request is exact. In an open loop \
         use more threads or a lower rate.",
    ),
    known(
        "driver-kept-off",
        "Note; doubt in an open loop or from 5 %",
        "High percentiles are overstated: other programs took the driver's CPU at times",
        "the driver had its own CPU, but was runnable and not running for 1 % of the time or more.",
        "Stop what else ran there (`pidstat`, `perf sched`).",
    ),
    known(
        "headroom",
        DOUBT,
        "The servers do little here: expect a smaller difference where they do more",
        "the generator reached less than twice the load (in an open loop: the rate) against a null server.",
        "Give the servers realistic work, or read \"Does it matter?\".",
    ),
    known(
        "replies-unseen",
        NOTE,
        "Your own driver judged the replies; lasthop did not see them",
        "the load is `custom`.",
        "Let the driver fail at any wrong reply.",
    ),
];

const LENGTH: &[CheckMeaning] = &[
    known(
        "littles-law",
        DOUBT,
        "Latencies and throughput contradict each other, so no latencies are printed",
        "mean latency times throughput is more than 10 % off the requests that can be under way (closed loop).",
        "Use longer trials (`--trial`, `--warm-up`), or no more connections than the server has workers.",
    ),
    known(
        "short-trials",
        DOUBT,
        "Trials are short for the slowest replies: throughput and latencies may be off",
        "slow replies (a tenth of the connections' time) exceed a third of a trial. Beyond a trial, latencies are left \
         out.",
        "Use the `--budget` or `--trial` that the finding names.",
    ),
];

const RATE: &[CheckMeaning] = &[
    known(
        "rate-not-reached",
        INVALID,
        "The rate was not reached: latencies are those of an overload",
        "fewer than 99 % of the scheduled requests were sent.",
        "Lower `--rate`, or use more connections.",
    ),
    known(
        "late",
        DOUBT,
        "Response times include delays of the driver or of busy connections",
        "the lag's p99 exceeds 100 µs and a tenth of the response time's p99.",
        "Use more connections. If that changes nothing, the driver is late.",
    ),
    known(
        "derived-left-out",
        NOTE,
        "Quantities that need a closed loop are left out",
        "the run has a rate.",
        "Run without `--rate`.",
    ),
];

const TOOLS: &[CheckMeaning] = &[
    known(
        "cross-check-agrees",
        NOTE,
        "The other load generator finds the same",
        "the tool and lasthop agree within 5 %.",
        "Nothing to do.",
    )
    .asked(),
    known(
        "cross-check-differs",
        DOUBT,
        "The other load generator disagrees, for no known reason",
        "they differ, and nothing in the run explains it.",
        "Compare what both send, with `strace` or in the server's log.",
    ),
    known(
        "cross-check-explained",
        NOTE,
        "The other load generator disagrees, for a known reason",
        "they differ, for example because a tool uses a whole core.",
        "Nothing to do: the finding names the reason.",
    )
    .asked(),
    known(
        "cross-check-undecided",
        NOTE,
        "The run is too short to say whether the other load generator agrees",
        "there were too few blocks.",
        "Use a larger `--budget`.",
    )
    .asked(),
    known(
        "tool-trials",
        NOTE,
        "The tool's trials are longer than lasthop's, so there are fewer of them",
        "the tool counts whole seconds.",
        "Use a larger `--budget`.",
    ),
    known(
        "password-shown",
        NOTE,
        "Every user of this machine could read the password during a trial",
        "the tool takes a password only as an argument.",
        "Use a worthless password.",
    ),
];

const MACHINE: &[CheckMeaning] = &[
    known(
        "steal",
        DOUBT,
        "The hypervisor took CPU time, and the ratio may be off by more than its interval",
        "the hypervisor gave 1 % of the CPU time or more to others.",
        "Repeat the run at another time or on a machine of its own.",
    ),
    known(
        "foreign-load",
        DOUBT,
        "Other programs were busy; without them the ratio may differ",
        "other processes used 5 % of the machine's CPU time or more.",
        "Stop them and repeat: this run cannot say by how much.",
    ),
    known(
        "packet-filter",
        DOUBT,
        "The packet filter changed during the run, and with it the cost of TCP",
        "chains, rules or connection tracking on the way of packets on loopback were not the same at the end as at the beginning.",
        "Repeat the run while nobody starts or ends containers or changes rules.",
    ),
    known(
        "own-load",
        DOUBT,
        "lasthop itself was busy beside the trials",
        "25 % of the machine's CPU time or more was lasthop's own.",
        "Measure fewer cases at a time (`--only`), and report it.",
    ),
    known(
        "placement",
        "Doubt or note",
        "Driver and services share a CPU; with more CPUs the ratio will differ",
        "this is against the plan (doubt), or you asked for it or the machine has one CPU (note).",
        "Give each its own CPU, if your processes have that.",
    ),
    known(
        "spins-in-vain",
        DOUBT,
        "Both ends spin on one CPU: with a CPU for each, shared memory does better",
        "client and server spin (`shm-spin`) and share one CPU.",
        "Measure on a machine with two CPUs or more.",
    ),
    known(
        "governor",
        NOTE,
        "The CPU's clock follows the load, so requests after a pause are slower",
        "the frequency governor is not `performance`.",
        "Set `performance`, if your servers use it.",
    ),
];

const CONTAINERS: &[CheckMeaning] = &[
    known(
        "throttled",
        NOTE,
        "A CPU limit, not the link, sets the pace",
        "a container waited for its next period; throughput is the limit divided by CPU time per request.",
        "Compare CPU time per request, or raise the limit.",
    ),
    known(
        "short-for-the-limit",
        DOUBT,
        "Trials are short for a CPU limit, which makes the intervals wide",
        "a limit throttled a container, and trials are shorter than ten periods (1 s).",
        "Use `--trial 1s` or more.",
    ),
    known(
        "image-programs-differ",
        NOTE,
        "Programs have different versions in the image and on this machine",
        "the versions of a program differ.",
        "Give both the same version.",
    ),
];

const DESIGN: &[CheckMeaning] = &[
    known(
        "no-interval",
        INVALID,
        "There is only one trial, so nothing is compared",
        "a case has only one trial.",
        "Use a larger `--budget`.",
    ),
    known(
        "too-few-blocks",
        DOUBT,
        "The run is too short to rely on the interval",
        "a comparison has fewer than ten blocks or fewer than four rounds.",
        "Use a larger `--budget`.",
    ),
    known(
        "multiplicity",
        DOUBT,
        "As one of several comparisons, this difference may be chance",
        "a verdict does not survive Holm's adjustment.",
        "Take it as a hint, or repeat this case alone (`--only`).",
    ),
    known(
        "two-states",
        DOUBT,
        "The rounds fall into two groups, and the ratio is a mean of both",
        "eight rounds or more form two groups, six standard deviations and more than the margin apart.",
        "Find out what differs between the starts.",
    ),
    known(
        "rounds-correlated",
        DOUBT,
        "Each round resembles the one before, so the interval may be too narrow",
        "ratios of successive rounds correlate by 2.6 standard deviations, or 1.75 where rounds differ (p < 0.01).",
        "Repeat the run at another time.",
    ),
    known(
        "process-luck",
        NOTE,
        "The ratio varies with each start of the servers; more rounds narrow it",
        "half of a ratio's variance or more lies between rounds (p < 0.001).",
        "Use more rounds; longer ones do not help.",
    ),
    known(
        "not-restarted",
        DOUBT,
        "The servers were not restarted, and the ratio may differ after a restart",
        "`compare` could not restart the servers, or `--restart` left the same process running.",
        "Use `--restart COMMAND`.",
    ),
    known(
        "weak-check",
        DOUBT,
        "Replies are checked only in part, so wrong ones may count as correct",
        "the first replies of an endpoint (32, in 1.3 s) differ, or because of `--no-reference`.",
        "Give `--expect`, or a URL with constant replies.",
    )
    .evident(),
    known(
        "server-closes",
        NOTE,
        "Each request has a connection of its own",
        "the server of an endpoint closes the connection after each of its first replies.",
        "Let the servers keep connections, or nothing: `--reuse per-request` measures the same.",
    )
    .asked()
    .evident(),
    known(
        "server-unknown",
        DOUBT,
        "The process of a server was not found, so CPU time is not compared",
        "`compare` did not find an endpoint's process, or the one of `--pid` used no CPU time or ended.",
        "Run as the server's user or root, or give `--pid ROLE=PID`.",
    ),
    known(
        "drift",
        "Doubt (a ratio) or note (a reference)",
        "The ratio changed during the run, so a single number does not describe it",
        "it correlates with time (Spearman's rank correlation of 0.3 or more, p < 0.001).",
        "Run longer, or find out what fills up or warms up.",
    )
    .noted("The machine or a server changed its speed during the run; ratios stay fair"),
    known(
        "position",
        NOTE,
        "A case affects the one after it; this only widens the interval",
        "a case is faster or slower late in a block (the test of `drift`).",
        "Use longer trials (`--trial`).",
    ),
    known(
        "settling",
        DOUBT,
        "The ratio changes during a trial: use a longer warm-up",
        "the ratio differs between the halves of trials (p < 0.001), by more than twice the margin.",
        "Use a longer `--warm-up`.",
    ),
    known(
        "warming",
        DOUBT,
        "Servers change after their start, and the ratio is a mean of before and after",
        "the ratio differs between the halves of rounds (p < 0.005), by more than twice the margin.",
        "Let servers warm up: `--settle 5s`, or `warm` of a service.",
    ),
    known(
        "run-cut-off",
        DOUBT,
        "The run was stopped early: if its result was the reason, the result is biased",
        "the run was interrupted or killed.",
        "`lasthop resume` continues it.",
    ),
    known(
        "resumed",
        NOTE,
        "The run was resumed, and its parts count as one",
        "the run has pauses.",
        "Nothing to do, unless there is a finding of `pause`.",
    ),
    known(
        "pause",
        "Doubt (a ratio) or note (a reference)",
        "The ratio changed in a pause of the run",
        "the parts before and after a pause differ by more than the margin (p < 0.001).",
        "Start a new run.",
    )
    .noted("The machine's speed changed while the run was paused; ratios stay fair"),
    known(
        "resolution",
        NOTE,
        "Differences smaller than between a case and itself cannot be seen here",
        "`--aa` compared cases with themselves.",
        "Use a larger `--budget` or a quieter machine.",
    ),
];

const NETWORK: &[CheckMeaning] = &[
    known(
        "accept-queue-overflow",
        DOUBT,
        "Some connections waited seconds, because a server's backlog was full",
        "connections found an accept queue full. Their SYN is repeated after 1, 3 and 7 s.",
        "Raise the server's backlog, unless it was another server.",
    ),
    known(
        "retransmissions",
        "Note from 0.01 % of segments, doubt from 0.1 %",
        "TCP sent data again, which should not happen within one machine",
        "a queue or backlog overflowed, a packet filter dropped segments, or it was other traffic.",
        "Look at `nstat` and the packet filter.",
    ),
    known(
        "time-wait",
        DOUBT,
        "Closed connections hold the local ports, so TCP gets slower the longer it runs",
        "`TIME_WAIT` holds half the local ports towards a server, and the kernel may not reuse them.",
        "Set `net.ipv4.tcp_tw_reuse=1` on the connecting side, use fewer `--blocks`, or keep connections alive.",
    ),
    known(
        "delayed-ack",
        DOUBT,
        "Replies waited for a delayed ACK, which has nothing to do with TCP's speed",
        "a cluster of replies, or most of them, took 38 to 48 ms.",
        "Set `TCP_NODELAY` on both sides, or write each message at once.",
    ),
    known(
        "syn-retransmit",
        DOUBT,
        "Some connections waited a second or more, because an accept queue was full",
        "a cluster of replies took about 1 s or 3 s, and the kernel repeated SYNs.",
        "Raise the server's backlog.",
    ),
    known(
        "idle-wait",
        DOUBT,
        "Requests wait while both ends are idle, which is no cost of the transport",
        "requests take longer than those of a compared case by far more than CPU time, run delay and waking explain.",
        "Look for the cause in the servers: a sleep, a lock, a timeout, a limit, lost segments.",
    ),
    known(
        "coarse-clock",
        DOUBT,
        "The clock is too coarse for these latencies: compare the throughput",
        "there are fewer than ten different latencies, or the median is below 1 µs.",
        "Compare the throughput, without a rate.",
    ),
];
