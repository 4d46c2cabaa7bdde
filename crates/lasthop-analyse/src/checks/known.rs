//! What each check means to people: what `docs/checks.md` and `lasthop report --check` say, and the line of a report.

use crate::summary::Severity;

/// A check, in words without figures. What a run found has them.
#[derive(Clone, Copy, Debug)]
pub struct CheckMeaning {
    pub id: &'static str,
    /// How severe its findings are, and when.
    pub severity: &'static str,
    /// What a finding means for the answer.
    pub line: &'static str,
    /// The same where it is no more than a note.
    pub note: Option<&'static str>,
    /// What is found, as the end of "found when".
    pub found: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    /// Whether an option asks for it, so that a report says it although it is a note.
    pub asked: bool,
}

impl CheckMeaning {
    /// The check with an id. A record of another version may have others.
    #[must_use]
    pub fn of(id: &str) -> Option<&'static Self> {
        all().find(|known| known.id == id)
    }

    /// What a finding of some severity means for the answer.
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
    }
}

const DOUBT: &str = "doubt";
const NOTE: &str = "note";
const INVALID: &str = "invalid";

/// Headings and the checks below them.
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
        "The layers do not add up to the CPU time that was measured",
        "in the profile trials, the samples of all roles add up to another CPU time than the kernel counted, by more than \
         5 % and more than chance explains. In a virtual machine, a sample is late when its CPU idles between requests: \
         it may fall due in a process and be taken after that sleeps.",
        "Repeat the run with `--placement same`: on one CPU, samples come in time.",
    ),
    known(
        "layers-missing",
        NOTE,
        "A part of the CPU time belongs to no layer",
        "more than 5 % of a role's samples are in functions that no layer names.",
        "Give them a layer: `--layers FILE`.",
    ),
    known(
        "not-observed",
        NOTE,
        "The run was to be explained, and its processes could not be observed",
        "`--explain` asked for profile trials, and the kernel did not allow them.",
        "Do what the finding says, then `lasthop run RUN --again --explain`. `lasthop doctor EXPERIMENT` says beforehand what is missing.",
    )
    .asked(),
];

const ANSWERS: &[CheckMeaning] = &[
    known(
        "errors",
        "doubt; invalid above 0.1 % of requests",
        "Requests failed, and the figures are those of the others",
        "requests failed or got a wrong reply, also in trials that failed. They are missing from throughput and latencies.",
        "Look at the first error of each kind and at the server's log, and mend the server or the load.",
    ),
    known(
        "failed-trials",
        "doubt; invalid if the case failed in more than one round",
        "Trials that failed are left out, so a case may look better than it is",
        "some trials of a case gave no figure and others did. After one that failed, the case has no more trials in that \
         round, which flatters a case that fails under load.",
        "The report says under Failures why they failed, with the last lines of the log.",
    ),
    known(
        "lost",
        DOUBT,
        "Requests were lost without an error: a faster sender only loses more",
        "requests that nobody answers never arrived at the server. Throughput counts only what it received.",
        "Compare what arrives, or send at a rate that the server takes (`--rate`).",
    ),
    known(
        "backlog-full",
        DOUBT,
        "A server's backlog was full: a Unix socket then refuses, and TCP waits",
        "a server refused connections because its backlog was full. A Unix socket refuses at once; TCP drops the SYN and \
         repeats it a second later.",
        "Compare errors and slow requests together, or raise the backlog in both cases.",
    ),
    known(
        "ports-exhausted",
        DOUBT,
        "TCP ran out of local ports, so the case measures that and not the transport",
        "no local TCP port was left. The case measures the port range and `TIME_WAIT`.",
        "Keep connections alive, or open fewer in a round (`--blocks`).",
    ),
];

const LINK: &[CheckMeaning] = &[
    known(
        "transport-not-as-asked",
        INVALID,
        "The case did not use the transport in its name",
        "a live connection had another address family, or TLS where none was asked for, or the reverse.",
        "Look at the configuration of the server and of who connects to it (`lasthop show EXPERIMENT --files`).",
    ),
    known(
        "reuse-not-as-asked",
        INVALID,
        "Connections were reused where each request needs its own, or the reverse",
        "connections were kept where each request should have had its own, or the reverse. What connecting costs depends \
         on the transport and can decide the verdict.",
        "Set keep-alive in server and client as the case says.",
    ),
    known(
        "load-not-over-link",
        INVALID,
        "Answers came another way than over the link, so the case does not measure it",
        "behind a proxy, the load went another way: for each answer the link's server did next to nothing, or far less \
         than in the compared case; fewer connections were opened than there were answers; or the proxy reached the \
         server by another of its addresses. Or a driver of others counts answers for which the server did next to nothing \
         or that opened no connections.",
        "Turn off the proxy's cache, and give it no other server and no other address. Mend the driver.",
    ),
    known(
        "less-work",
        INVALID,
        "Requests did not go the whole way in one case, so the cases did not do the same work",
        "a service behind the link used less than a third of the CPU time for each answer that it used in the compared \
         case, in two rounds or more. There the transport changes nothing: a cache or a service before it answered.",
        "Turn off caches, and look at what each service was asked in both cases: its log, or `lasthop show EXPERIMENT \
         --files`.",
    ),
    known(
        "link-not-proven",
        NOTE,
        "Only the configuration says that the transport was used",
        "neither the application nor the kernel's socket tables showed a connection between the two.",
        "Give the experiment a `[link.proof]`: a way to ask the application which connection a request came over.",
    ),
    known(
        "tls-differs",
        DOUBT,
        "The cases used different TLS, so not only the transport differs",
        "the two cases used different TLS versions or ciphers, which take different CPU time.",
        "Set one version and one cipher for both.",
    ),
    known(
        "nodelay-off",
        "note if you asked for it, else doubt",
        "TCP may hold small writes back, which makes Unix sockets look better",
        "`TCP_NODELAY` is off, so Nagle's algorithm may hold small writes for up to 40 ms.",
        "Set `TCP_NODELAY`, unless your application does not either.",
    ),
    known(
        "open-to-everybody",
        NOTE,
        "Every user of this machine could send requests to a server of the run",
        "a server at a network address let the driver in without a password. SECURITY.md says who can reach it.",
        "Measure on a machine without other users, or with a password.",
    ),
    known(
        "config-differs",
        DOUBT,
        "The compared cases differ in more than the link, and the ratio shows both",
        "the rendered configurations differ in more than the link, or the replies of compared endpoints do \
         (`--differing`). The difference is printed.",
        "Make them alike, or take the ratio as that of both differences together.",
    ),
];

const DRIVER: &[CheckMeaning] = &[
    known(
        "driver-saturated",
        DOUBT,
        "The driver was at its limit, so the servers may be able to do more",
        "the driver used 85 % of a core or more per thread, with more than one request under way. If it limits the better \
         of the two cases, the ratio is a lower bound. An open loop that keeps its rate is exempt, because its driver \
         busy-waits.",
        "Read the ratio as \"at least\"; CPU time per request is exact. In an open loop use more threads or a lower rate.",
    ),
    known(
        "driver-kept-off",
        DOUBT,
        "High percentiles are too high: another program took the driver's CPU at times",
        "the driver had a CPU of its own and was runnable but not running for 1 % of the time or more. High percentiles \
         include these waits.",
        "Find out what else ran on its CPU (`pidstat`, `perf sched`), and stop it.",
    ),
    known(
        "headroom",
        DOUBT,
        "The servers do little here: expect a smaller difference where they do more",
        "against a null server, the generator reached less than twice the load (in an open loop: less than twice the rate), \
         so generator and transport are a large part of what is measured.",
        "Give the servers the work that yours do, or read under \"Does it matter?\" what a difference is worth there.",
    ),
    known(
        "replies-unseen",
        NOTE,
        "Your own driver judged the replies; lasthop did not see them",
        "the load is `custom`: a program of the experiment makes the requests, counts them, takes their times and judges the \
         replies. lasthop measures the servers and the machine.",
        "Let the driver fail at whatever is not the expected reply, byte for byte.",
    ),
];

const LENGTH: &[CheckMeaning] = &[
    known(
        "littles-law",
        DOUBT,
        "Latencies and throughput contradict each other, so no latencies are printed",
        "in a closed loop, the mean latency multiplied by the throughput is more than 10 % away from the number of \
         requests that the connections can have under way: the trials did not show a steady state.",
        "Use longer trials (`--trial`) and a longer warm-up (`--warm-up`).",
    ),
    known(
        "short-trials",
        DOUBT,
        "Trials are short for the slowest replies: throughput and latencies may be off",
        "slow replies, with a tenth of the time of all connections, take longer than a third of a trial; the trial that was \
         hit hardest does not count. If they take longer than a trial, the latencies are left out.",
        "The finding names a budget, or a `--trial`, that would do.",
    ),
];

const RATE: &[CheckMeaning] = &[
    known(
        "rate-not-reached",
        INVALID,
        "The rate was not reached: latencies are those of an overload",
        "fewer than 99 % of the scheduled requests were sent. The latencies grow with the length of a trial.",
        "Lower `--rate`, or use more connections.",
    ),
    known(
        "late",
        DOUBT,
        "Response times include a delay of the driver or of busy connections",
        "the lag's p99 is more than 100 µs and more than a tenth of the response time's p99.",
        "Use more connections: if that does not help, the driver or the machine is late.",
    ),
    known(
        "derived-left-out",
        NOTE,
        "Quantities that follow from several cases are left out: they need a closed loop",
        "quantities derived from several cases were left out, because they need the request time of a closed loop.",
        "Run without `--rate` to get them.",
    ),
];

const TOOLS: &[CheckMeaning] = &[
    known(
        "cross-check-agrees",
        NOTE,
        "The other load generator finds the same",
        "the tool and lasthop agree within 5 %.",
        "Nothing.",
    )
    .asked(),
    known(
        "cross-check-differs",
        DOUBT,
        "The other load generator finds another throughput, for no known reason",
        "they differ, and nothing in the run explains it: one of them miscounts, or they send different requests.",
        "Compare what both send, for example with `strace` or in the server's log.",
    ),
    known(
        "cross-check-explained",
        NOTE,
        "The other load generator finds another throughput, for a known reason",
        "they differ, and the run knows a likely reason, such as a tool that uses a whole core.",
        "The finding names the reason.",
    )
    .asked(),
    known(
        "cross-check-undecided",
        NOTE,
        "The run is too short to say whether the other load generator agrees",
        "there were too few blocks to tell whether they agree.",
        "Use a larger `--budget`.",
    )
    .asked(),
    known(
        "tool-trials",
        NOTE,
        "Trials of the tool are longer than lasthop's, so there are fewer of them",
        "the tool's trials are longer than lasthop's, because tools count whole seconds.",
        "Use a larger `--budget`.",
    ),
    known(
        "password-shown",
        NOTE,
        "Every user of this machine could read the password during a trial",
        "the tool takes a password only as an argument, which every user of the machine can read.",
        "Use a password that is worth nothing.",
    ),
];

const MACHINE: &[CheckMeaning] = &[
    known(
        "steal",
        DOUBT,
        "The hypervisor took CPU time, and the ratio may be off by more than its interval",
        "the hypervisor gave 1 % of the CPU time or more to other machines. Latency tails and throughput include these \
         waits; ratios suffer less, because cases take turns.",
        "Repeat the run at another time, or on a machine of its own.",
    ),
    known(
        "foreign-load",
        DOUBT,
        "Other programs were busy, and without them the ratio may be another",
        "other processes used 5 % of the machine's CPU time or more.",
        "Stop them and repeat: nobody can compute the ratio without them from this run.",
    ),
    known(
        "own-load",
        DOUBT,
        "lasthop itself was busy beside the trials, and without that the ratio may be another",
        "a quarter of the machine's CPU time or more was of neither the services, the driver, interrupts nor other programs.",
        "Measure fewer cases at a time (`--only`), and report it: lasthop should wait while it measures.",
    ),
    known(
        "placement",
        "doubt or note",
        "Driver and services share a CPU: with more CPUs the ratio will be another",
        "the driver shares a CPU with the services: against the plan (doubt), or because you asked for it or the machine \
         has one CPU (note).",
        "Give each its own CPUs, if your processes have their own.",
    ),
    known(
        "spins-in-vain",
        DOUBT,
        "Both ends spin on one CPU: with a CPU for each, shared memory does better",
        "client and server spin (`shm-spin`) and share one CPU, so each takes the time that the other needs to answer.",
        "Measure it on a machine with two CPUs or more.",
    ),
    known(
        "governor",
        NOTE,
        "The CPU's clock follows the load, so requests after a pause are slower",
        "the frequency governor is not `performance`.",
        "Set it, if your servers run with it.",
    ),
];

const CONTAINERS: &[CheckMeaning] = &[
    known(
        "throttled",
        NOTE,
        "A CPU limit stopped a container at times, and sets the pace instead of the link",
        "a CPU limit stopped a container until its next period. Throughput is then the limit divided by CPU time per \
         request, and the slowest requests take a period longer.",
        "Compare the CPU time per request; raise the limit to compare the link.",
    ),
    known(
        "short-for-the-limit",
        DOUBT,
        "Trials are short for a CPU limit, which makes the intervals wide",
        "a limit throttled a container and trials are shorter than ten of its periods (1 s).",
        "Use `--trial 1s` or more.",
    ),
    known(
        "image-programs-differ",
        NOTE,
        "With and without a container, the programs are of different versions",
        "a program in the image has another version than the one on this machine.",
        "Give the image the version of this machine in its Containerfile, or this machine that of the image.",
    ),
];

const DESIGN: &[CheckMeaning] = &[
    known(
        "no-interval",
        INVALID,
        "There is only one trial, so nothing is compared",
        "a case has one trial, so nothing is known about its scatter.",
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
        "Among so many comparisons, this difference may be chance",
        "a verdict does not survive Holm's adjustment for the number of comparisons in the run.",
        "Treat the verdict as a hint, or repeat this case alone (`--only`).",
    ),
    known(
        "two-states",
        DOUBT,
        "The rounds fall into two groups, and the ratio is a mean of both",
        "among eight rounds or more, those of two groups are six standard deviations apart, and by more than the margin.",
        "The finding has the ratio of each group. Find out what differs between the starts: which CPUs the servers got, or \
         what they found in a cache.",
    ),
    known(
        "rounds-correlated",
        DOUBT,
        "Rounds resemble the one before, so the interval may be too narrow",
        "the ratio of a round correlates with that of the next, by more than 2.6 standard deviations of chance, or by 1.75 \
         where rounds differ by more than their blocks (p < 0.01). Something outlasts a round, such as the state of the \
         machine.",
        "Repeat the run at another time, and trust what both say.",
    ),
    known(
        "process-luck",
        NOTE,
        "The ratio varies with each start of the servers; more rounds narrow it",
        "at least half of a ratio's variance lies between rounds (p < 0.001). The interval includes that.",
        "More rounds narrow the interval; longer rounds do not.",
    ),
    known(
        "not-restarted",
        DOUBT,
        "The servers were not restarted, and the ratio may differ after a restart",
        "`lasthop compare` measured servers that it did not start and could not restart, or the command of `--restart` \
         left the same process at an endpoint, so the interval does not include how the ratio varies from one start to \
         the next.",
        "`--restart COMMAND` restarts them between rounds.",
    ),
    known(
        "weak-check",
        DOUBT,
        "Replies are checked only in part, so wrong ones may count as right",
        "`lasthop compare` cannot check replies byte for byte, because the first two of an endpoint differ or because of \
         `--no-reference`. The finding says what is checked, and from which byte on they differ.",
        "Give `--expect`, or a URL whose replies stay the same.",
    ),
    known(
        "server-unknown",
        DOUBT,
        "The process of a server was not found, so CPU time is not compared",
        "`lasthop compare` did not find the process behind an endpoint, usually that of another user, or the process named \
         with `--pid` used no CPU time or ended during the run.",
        "Run lasthop as the server's user or as root, or name the process with `--pid ROLE=PID`.",
    ),
    known(
        "drift",
        "doubt (a ratio) or note (a reference)",
        "The ratio changed during the run, so a single number does not describe it",
        "the value rises or falls in the course of the run (Spearman's rank correlation of at least 0.3, p < 0.001).",
        "Run longer, or find out what fills up or warms up.",
    )
    .noted("The machine or a server changed its speed during the run; ratios stay fair"),
    known(
        "position",
        NOTE,
        "A case affects the one after it, which widens the interval and shifts no ratio",
        "a case is faster or slower late in a block (the test of `drift`). The order is random, so ratios are not biased.",
        "Use longer trials (`--trial`), if the intervals are too wide.",
    ),
    known(
        "settling",
        DOUBT,
        "The ratio is another at the end of a trial: use a longer warm-up",
        "the ratio is another in the second half of the trials than in the first (p < 0.001), and half of the change is \
         more than the margin.",
        "A longer `--warm-up` leaves the first half out.",
    ),
    known(
        "warming",
        DOUBT,
        "Servers change after their start, and the ratio is a mean of before and after",
        "the ratio is another in the second half of the rounds than in the first (p < 0.005), and half of the change is \
         more than the margin. Code that is compiled while it runs does that.",
        "Give servers time to warm up: `--settle 5s`, or `warm` of a service.",
    ),
    known(
        "run-cut-off",
        DOUBT,
        "The run was stopped early: if its result was the reason, the result is biased",
        "the run was interrupted or killed. The report includes everything up to that point.",
        "`lasthop resume` continues it.",
    ),
    known(
        "resumed",
        NOTE,
        "The run was resumed, and its parts count as one",
        "the run has pauses; it says when and for how long. If the result changed in a pause, the check `pause` fires.",
        "Nothing.",
    ),
    known(
        "pause",
        "doubt (a ratio) or note (a reference)",
        "The ratio changed in a pause of the run, so a single number does not describe it",
        "the parts before and after a pause differ by more than the margin (p < 0.001).",
        "Start a new run, and look for what changed in the pause.",
    )
    .noted("The machine's speed changed while the run was paused; ratios stay fair"),
    known(
        "resolution",
        NOTE,
        "Smaller differences than between a case and itself cannot be seen here",
        "the run compared cases with themselves (`--aa`); this is the smallest difference it could see.",
        "Use a larger `--budget` or a quieter machine to see smaller ones.",
    ),
];

const NETWORK: &[CheckMeaning] = &[
    known(
        "accept-queue-overflow",
        DOUBT,
        "Some connections waited seconds, because a server's backlog was full",
        "connections found an accept queue full. Their SYN is repeated after 1, 3 and 7 s: a slow tail without errors.",
        "Raise the server's backlog, unless other servers of this machine were the ones.",
    ),
    known(
        "retransmissions",
        "note from 0.01 % of segments, doubt from 0.1 %",
        "TCP sent data again, which should not happen within one machine",
        "TCP segments were sent again: a queue or a server's backlog overflowed, a packet filter dropped some, or this was \
         other traffic.",
        "Look at `nstat` and at the packet filter.",
    ),
    known(
        "time-wait",
        DOUBT,
        "Closed connections hold the local ports, so TCP gets slower the longer it runs",
        "`TIME_WAIT` holds half the local ports towards a server and the kernel may not reuse them. Each new connection \
         then tries up to half of all ports before it finds a free one, without an error until none is left.",
        "Set `net.ipv4.tcp_tw_reuse=1` on the connecting side, use fewer `--blocks` per round, or keep connections alive.",
    ),
    known(
        "delayed-ack",
        DOUBT,
        "Some replies waited for a delayed ACK, which has nothing to do with TCP's speed",
        "a cluster of replies took 38 to 48 ms: Nagle's algorithm waiting for a delayed ACK.",
        "Set `TCP_NODELAY` on both sides, or write each message at once.",
    ),
    known(
        "syn-retransmit",
        DOUBT,
        "Some connections waited a second or more, because an accept queue was full",
        "a cluster of replies took about 1 s or 3 s, and the kernel repeated SYNs meanwhile.",
        "Raise the server's backlog.",
    ),
    known(
        "coarse-clock",
        DOUBT,
        "The clock is too coarse for these latencies: compare the throughput",
        "there are fewer than ten different latencies, or the median is below 1 µs.",
        "Compare the throughput instead, of a run without a rate.",
    ),
];
