//! CPU time, context switches and run delay of processes, by role, from clocks and files of the kernel.
//!
//! The CPU time of a living process is exact: the kernel has a CPU clock per process, in nanoseconds, which includes
//! all threads, even those that have ended. The CPU time of ended children is in their parents' accounts, in ticks of
//! 10 ms. With the clock `C` of a process and its account of ended children `E`, a role consumed between two snapshots
//!
//! ```text
//!   Σ C₁−C₀ of those in both  +  Σ C₁ of new ones  +  Σ E₁−E₀  −  Σ C₀+E₀ of those that ended meanwhile
//! ```
//!
//! The last term is needed because an ended process adds its whole life to its parent's account, including the part
//! before the first snapshot. The ticks cause an error of up to 20 ms per parent whose children ended (user and system
//! time are truncated separately). The errors of successive trials do not add up, because each is the end of one chain.
//!
//! The servers of other stacks idle while one is driven, and there may be hundreds: a reading for one stack takes only
//! the CPU time of the others, and keeps the rest of their last reading.
//!
//! Context switches and run delay of threads and processes that ended between two snapshots are lost. The run delay is
//! read per thread (`/proc/PID/task/TID/schedstat`), because the file of a process covers only its first thread.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    rc::Rc,
};

use indexmap::IndexMap;
use lasthop_model::observation::{Role, RoleUsage};
use lasthop_system::{
    clock, files,
    process::{self, Stat},
    run_delay,
};

/// The most passes of a snapshot, which is repeated if a process ends meanwhile.
const TRIES: usize = 3;

/// Reads lasthop's processes: itself and all its descendants, each with its role.
#[derive(Debug)]
pub struct Meter {
    roles: Vec<Role>,
    processes: Vec<Process>,
    tick_ns: u64,
    buffer: Vec<u8>,
    has_children_files: bool,
}

/// A process with open files, which remain this process's even if its pid is reused.
#[derive(Debug)]
struct Process {
    pid: i32,
    role: Option<usize>,
    stat: File,
    threads: Vec<Thread>,
    last: Option<(Key, ProcessReading)>,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    status: File,
    /// Path of its `schedstat`, opened for each reading: a fourth open file for each of hundreds of processes would
    /// bring lasthop near the usual limit of 1,024. Missing if the kernel lacks `CONFIG_SCHED_INFO`.
    scheduler: PathBuf,
    children: Option<File>,
}

/// The usage of all processes at one moment.
#[derive(Clone, Debug)]
pub struct Usage {
    processes: HashMap<Key, ProcessReading>,
}

/// A unique name of a process: its pid and its start.
type Key = (i32, u64);

#[derive(Clone, Debug)]
struct ProcessReading {
    role: Option<usize>,
    alive: bool,
    cpu_ns: u64,
    ended_ns: u64,
    threads: Rc<[ThreadReading]>,
}

/// Counters of a thread since its start.
#[derive(Clone, Copy, Debug)]
struct ThreadReading {
    tid: i32,
    voluntary: u64,
    involuntary: u64,
    run_delay_ns: Option<u64>,
}

impl Meter {
    /// A meter for these roles; other descendants of lasthop count as lasthop's own.
    pub fn new(roles: Vec<Role>) -> Self {
        let has_children_files = fs::exists("/proc/thread-self/children").unwrap_or(false);
        let me = rustix::process::getpid().as_raw_pid();
        let family = process::descendants(me);
        let mut meter = Self {
            roles,
            processes: Vec::new(),
            tick_ns: clock::tick(),
            buffer: vec![0; 16 * 1024],
            has_children_files,
        };
        meter.processes.extend(Process::open(me, meter.role_of(me)));
        // A daemon's containers descend from the daemon.
        for (number, role) in meter.roles.iter().enumerate() {
            if role.pid != me && !family.contains(&role.pid) {
                meter.processes.extend(Process::open(role.pid, Some(number)));
            }
        }
        meter
    }

    /// Whether a process is lasthop's, or a service's.
    pub fn reads(&self, pid: i32) -> bool {
        self.processes.iter().any(|process| process.pid == pid)
    }

    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Reads all counters of one stack, or of every stack, and the CPU time of other processes. Twenty processes take
    /// well below a millisecond.
    pub fn read(&mut self, stack: Option<usize>) -> Usage {
        for _ in 1..TRIES {
            if let (usage, true) = self.pass(stack) {
                return usage;
            }
        }
        self.pass(stack).0
    }

    /// Reads parents before their children. If a process ends in between, neither its clock nor its parent's account
    /// includes its time, and the pass is not complete.
    fn pass(&mut self, stack: Option<usize>) -> (Usage, bool) {
        let mut complete = true;
        let mut usage = HashMap::with_capacity(self.processes.len());
        let mut known: HashSet<i32> = self.processes.iter().map(|process| process.pid).collect();
        let mut index = 0;
        while index < self.processes.len() {
            let process = &mut self.processes[index];
            let of = process.role.map(|role| self.roles[role].stack);
            let idles = stack.is_some() && of.is_some() && of != stack;
            let read = match process.last.as_mut().filter(|_| idles) {
                Some(last) => reread(process.pid, last),
                None => process.read(self.tick_ns, &mut self.buffer),
            };
            let Some((key, reading)) = read else {
                // The pid may be reused, and the new process would have to be adopted.
                known.remove(&process.pid);
                self.processes.remove(index);
                complete = false;
                continue;
            };
            usage.insert(key, reading);
            if self.has_children_files && !idles {
                self.adopt_children(index, &mut known);
            }
            index += 1;
            if index == self.processes.len() && !self.has_children_files {
                self.adopt_descendants(&mut known);
            }
        }
        (Usage { processes: usage }, complete)
    }

    fn role_of(&self, pid: i32) -> Option<usize> {
        self.roles.iter().position(|role| role.pid == pid)
    }

    fn adopt_children(&mut self, parent: usize, known: &mut HashSet<i32>) {
        let process = &self.processes[parent];
        let inherited = process.role;
        let mut new = Vec::new();
        for thread in &process.threads {
            let text = thread
                .children
                .as_ref()
                .and_then(|file| read_into(file, &mut self.buffer));
            let children = text.into_iter().flat_map(str::split_ascii_whitespace);
            let children = children.filter_map(|word| word.parse().ok());
            new.extend(children.filter(|child| known.insert(*child)));
        }
        for child in new {
            let role = self.role_of(child).or(inherited);
            self.processes.extend(Process::open(child, role));
        }
    }

    /// Searches all processes, on kernels without `CONFIG_PROC_CHILDREN`.
    fn adopt_descendants(&mut self, known: &mut HashSet<i32>) {
        let mut roles: HashMap<i32, Option<usize>> = self
            .processes
            .iter()
            .map(|process| (process.pid, process.role))
            .collect();
        for pid in process::descendants(rustix::process::getpid().as_raw_pid()) {
            if known.insert(pid) {
                let parent = Stat::of(pid)
                    .and_then(|stat| roles.get(&stat.parent).copied())
                    .flatten();
                let role = self.role_of(pid).or(parent);
                roles.insert(pid, role);
                self.processes.extend(Process::open(pid, role));
            }
        }
    }
}

impl Process {
    fn open(pid: i32, role: Option<usize>) -> Option<Self> {
        let stat = files::open(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
        Some(Self {
            pid,
            role,
            stat,
            threads: Vec::new(),
            last: None,
        })
    }

    /// `None` if the process has ended and was waited for.
    fn read(&mut self, tick_ns: u64, buffer: &mut [u8]) -> Option<(Key, ProcessReading)> {
        let stat = Stat::parse(read_into(&self.stat, buffer)?)?;
        let cpu_ns = cpu_clock(self.pid)?;
        let reading = ProcessReading {
            role: self.role,
            alive: stat.state != b'Z',
            cpu_ns,
            ended_ns: stat.ended_children_ticks * tick_ns,
            threads: self.threads(stat.threads as usize, buffer).into(),
        };
        self.last = Some(((self.pid, stat.start_ticks), reading));
        self.last.clone()
    }

    /// Readings of living threads; `count` is their number.
    fn threads(&mut self, count: usize, buffer: &mut [u8]) -> Vec<ThreadReading> {
        let read = |threads: &[Thread], buffer: &mut [u8]| -> Vec<ThreadReading> {
            threads.iter().filter_map(|thread| thread.read(buffer)).collect()
        };
        let readings = read(&self.threads, buffer);
        // An ended thread cannot be read, and a new one changes the count: then all are listed again.
        if readings.len() == count && self.threads.len() == count {
            return readings;
        }
        self.threads = Thread::all_of(self.pid);
        read(&self.threads, buffer)
    }
}

impl Thread {
    fn all_of(pid: i32) -> Vec<Self> {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return Vec::new();
        };
        let open = |task: fs::DirEntry| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            let file = |name: &str| files::open(&task.path().join(name)).ok();
            let scheduler = task.path().join("schedstat");
            Some(Self {
                tid,
                status: file("status")?,
                scheduler,
                children: file("children"),
            })
        };
        tasks.flatten().filter_map(open).collect()
    }

    /// `None` if the thread has ended. Its status is read last: if that succeeds, the thread has lived until now, and
    /// its number was not reused when `schedstat` was opened.
    fn read(&self, buffer: &mut [u8]) -> Option<ThreadReading> {
        let scheduler = files::open(&self.scheduler).ok();
        let run_delay_ns = scheduler.and_then(|file| run_delay(read_into(&file, buffer)?));
        let text = read_into(&self.status, buffer)?;
        // Searched from the end, because the counters are the last lines of the file.
        let number = |name: &str| text.rsplit_once(name)?.1.split_ascii_whitespace().next()?.parse().ok();
        let voluntary = number("\nvoluntary_ctxt_switches:")?;
        let involuntary = number("\nnonvoluntary_ctxt_switches:")?;
        Some(ThreadReading {
            tid: self.tid,
            voluntary,
            involuntary,
            run_delay_ns,
        })
    }
}

/// Reads only the CPU clock of an idle process. `None` if the process has ended and was waited for.
fn reread(pid: i32, last: &mut (Key, ProcessReading)) -> Option<(Key, ProcessReading)> {
    last.1.cpu_ns = cpu_clock(pid)?;
    Some(last.clone())
}

/// Reads a file of `/proc` from its beginning; `None` if the process is gone.
fn read_into<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64).ok()? {
            0 => break,
            read => length += read,
        }
    }
    let text = &mut buffer[..length];
    // A process's name may contain any bytes, but is not needed here.
    text.iter_mut()
        .filter(|byte| !byte.is_ascii())
        .for_each(|byte| *byte = b'?');
    std::str::from_utf8(text).ok()
}

/// CPU time of a process in nanoseconds. The id of its clock is the complement of the pid, shifted by three, with 2 for
/// the scheduler's precise clock (`clock_getcpuclockid`, `include/linux/posix-timers.h`).
pub fn cpu_clock(pid: i32) -> Option<u64> {
    let clock: libc::clockid_t = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, or refuses an unknown clock.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time and counters between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Consumption {
    /// Usage by number of the role.
    pub roles: Vec<RoleUsage>,
    /// CPU time of lasthop itself, its guard and its drivers, in nanoseconds.
    pub own_ns: u64,
}

/// Adds to a sum; unknown parts are skipped.
fn add_known(sum: &mut Option<u64>, part: Option<u64>) {
    if let Some(part) = part {
        *sum.get_or_insert_default() += part;
    }
}

/// Sums up one role.
#[derive(Clone, Copy, Default)]
struct Sum {
    living_ns: u64,
    /// Change of the accounts of ended children, minus consumption before the first snapshot.
    ended_ns: i128,
    /// Whether a process ended.
    some_ended: bool,
    usage: RoleUsage,
}

impl Usage {
    pub(super) fn until(&self, after: &Self, roles: usize) -> Consumption {
        let mut sums = vec![Sum::default(); roles + 1];
        for (key, now) in &after.processes {
            sums[now.role.unwrap_or(roles)].add(self.processes.get(key), now);
        }
        for (key, before) in &self.processes {
            if !after.processes.contains_key(key) {
                let sum = &mut sums[before.role.unwrap_or(roles)];
                sum.some_ended = true;
                sum.ended_ns -= i128::from(before.cpu_ns) + i128::from(before.ended_ns);
            }
        }
        let own_ns = sums.pop().unwrap_or_default().finish().cpu_ns;
        Consumption {
            roles: sums.into_iter().map(Sum::finish).collect(),
            own_ns,
        }
    }
}

impl Sum {
    fn add(&mut self, before: Option<&ProcessReading>, now: &ProcessReading) {
        let (cpu, ended) = before.map_or((0, 0), |before| (before.cpu_ns, before.ended_ns));
        self.living_ns += now.cpu_ns.saturating_sub(cpu);
        self.ended_ns += i128::from(now.ended_ns) - i128::from(ended);
        self.usage.processes += u32::from(now.alive);
        for thread in now.threads.iter() {
            let known = before.and_then(|before| before.threads.iter().find(|known| known.tid == thread.tid));
            self.add_thread(known, thread);
        }
    }

    /// A thread without an earlier reading began with zero.
    fn add_thread(&mut self, before: Option<&ThreadReading>, now: &ThreadReading) {
        let (voluntary, involuntary) = before.map_or((0, 0), |before| (before.voluntary, before.involuntary));
        self.usage.voluntary_switches += now.voluntary.saturating_sub(voluntary);
        self.usage.involuntary_switches += now.involuntary.saturating_sub(involuntary);
        let waited = before.and_then(|before| before.run_delay_ns).unwrap_or(0);
        let run_delay_ns = now.run_delay_ns.map(|total| total.saturating_sub(waited));
        add_known(&mut self.usage.run_delay_ns, run_delay_ns);
    }

    /// A parent that ignores SIGCHLD keeps no account of ended children. The sum is then far below zero, and the
    /// consumption of ended processes is unknown: it counts as nothing rather than as a gain.
    fn finish(self) -> RoleUsage {
        const TICKS_OF_ERROR: i128 = 50_000_000;
        let ended = if self.some_ended && self.ended_ns < -TICKS_OF_ERROR {
            0
        } else {
            self.ended_ns
        };
        let cpu_ns = u64::try_from(i128::from(self.living_ns) + ended).unwrap_or(0);
        RoleUsage { cpu_ns, ..self.usage }
    }
}

impl Consumption {
    /// The roles of one stack by name; several servers of a service are one role.
    pub(super) fn of_stack(&self, roles: &[Role], stack: usize) -> IndexMap<String, RoleUsage> {
        let mut all: IndexMap<String, RoleUsage> = IndexMap::new();
        for (role, usage) in roles.iter().zip(&self.roles).filter(|(role, _)| role.stack == stack) {
            let sum = all.entry(role.name.clone()).or_default();
            sum.cpu_ns += usage.cpu_ns;
            sum.voluntary_switches += usage.voluntary_switches;
            sum.involuntary_switches += usage.involuntary_switches;
            add_known(&mut sum.run_delay_ns, usage.run_delay_ns);
            sum.processes += usage.processes;
            if let Some(cgroup) = usage.cgroup {
                sum.cgroup.get_or_insert_default().add(cgroup);
            }
        }
        all
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.own_ns + self.roles.iter().map(|role| role.cpu_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(cpu_ns: u64, ended_ns: u64) -> ProcessReading {
        ProcessReading {
            role: Some(0),
            alive: true,
            cpu_ns,
            ended_ns,
            threads: [].into(),
        }
    }

    fn usage(processes: &[(i32, u64, u64)]) -> Usage {
        let processes = processes
            .iter()
            .map(|(pid, cpu, ended)| ((*pid, 1), reading(*cpu, *ended)))
            .collect();
        Usage { processes }
    }

    fn cpu(before: &Usage, after: &Usage) -> u64 {
        before.until(after, 1).roles[0].cpu_ns
    }

    #[test]
    fn a_child_that_ends_is_counted_once() {
        let ms = 1_000_000;
        // The process had 30 ms, then 20 ms more, then ended: the parent's account grows by 50 ms.
        let before = usage(&[(1, 10 * ms, 0), (2, 30 * ms, 0)]);
        assert_eq!(cpu(&before, &usage(&[(1, 15 * ms, 50 * ms)])), 25 * ms);
        // A process that begins and ends in between.
        assert_eq!(
            cpu(&usage(&[(1, 10 * ms, 0)]), &usage(&[(1, 10 * ms, 70 * ms)])),
            70 * ms
        );
        // A process that begins and lives.
        assert_eq!(
            cpu(&usage(&[(1, 10 * ms, 0)]), &usage(&[(1, 10 * ms, 0), (2, 5 * ms, 0)])),
            5 * ms
        );
        // A parent that ends brings its own account along.
        let before = usage(&[(1, 0, 0), (2, 10 * ms, 40 * ms)]);
        assert_eq!(cpu(&before, &usage(&[(1, 0, 60 * ms)])), 10 * ms);
        // No account of ended children: the unknown part is not taken from other processes.
        let before = usage(&[(1, 0, 0), (2, 900 * ms, 0)]);
        assert_eq!(cpu(&before, &usage(&[(1, 5 * ms, 0)])), 5 * ms);
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_process() {
        let before = Usage {
            processes: HashMap::from([((7, 1), reading(900, 0))]),
        };
        let after = Usage {
            processes: HashMap::from([((7, 2), reading(5, 0)), ((1, 1), reading(0, 900))]),
        };
        assert_eq!(cpu(&before, &after), 5);
    }

    proptest! {
        /// A family with exact accounts: whenever processes end, the sum of the parts is the whole.
        #[test]
        fn intervals_add_up(work in proptest::collection::vec((0..1000_u64, 0..1000_u64, 0..3_usize), 1..20)) {
            // Children 2.. work in both intervals. The third number is the interval in which they end; 2 means never.
            let snapshot = |moment: usize| {
                let mut processes = vec![(1, 0, 0)];
                for (index, (first, second, ends)) in work.iter().enumerate() {
                    let done = [0, *first, first + if *ends == 0 { 0 } else { *second }][moment];
                    if *ends < moment { processes[0].2 += done } else { processes.push((index as i32 + 2, done, 0)) }
                }
                usage(&processes)
            };
            let a = snapshot(0);
            let b = snapshot(1);
            let c = snapshot(2);
            prop_assert_eq!(cpu(&a, &b) + cpu(&b, &c), cpu(&a, &c));
        }
    }

    fn waited(threads: &[(i32, Option<u64>)]) -> Usage {
        let thread = |(tid, run_delay_ns): &(i32, Option<u64>)| ThreadReading {
            tid: *tid,
            voluntary: 0,
            involuntary: 0,
            run_delay_ns: *run_delay_ns,
        };
        let threads = threads.iter().map(thread).collect();
        Usage {
            processes: HashMap::from([(
                (1, 1),
                ProcessReading {
                    threads,
                    ..reading(0, 0)
                },
            )]),
        }
    }

    #[test]
    fn the_run_delay_is_that_of_all_threads_that_live() {
        let run_delay = |before: &Usage, after: &Usage| before.until(after, 1).roles[0].run_delay_ns;
        let before = waited(&[(1, Some(100)), (2, Some(70)), (3, Some(900))]);
        // 1 continues, 2 does not wait, 3 has ended, 4 is new, 5 is new and has not run yet.
        let after = waited(&[(1, Some(130)), (2, Some(70)), (4, Some(5)), (5, None)]);
        assert_eq!(run_delay(&before, &after), Some(35));
        // A thread that had not run at its first reading.
        assert_eq!(run_delay(&after, &waited(&[(5, Some(8))])), Some(8));
        assert_eq!(run_delay(&before, &before), Some(0));
        // A kernel that does not count: unknown, not zero.
        let nobody = waited(&[(1, None), (2, None)]);
        assert_eq!(run_delay(&nobody, &nobody), None);
        assert_eq!(run_delay(&before, &usage(&[])), None);
    }

    #[test]
    fn several_servers_of_a_service_have_one_run_delay() {
        let role = |name: &str, stack| Role {
            stack,
            name: name.into(),
            ..Role::default()
        };
        let usage = |run_delay_ns| RoleUsage {
            run_delay_ns,
            ..RoleUsage::default()
        };
        let roles = [role("web", 0), role("web", 0), role("web", 1), role("old", 0)];
        let consumption = Consumption {
            roles: [Some(4), Some(3), Some(50), None].map(usage).to_vec(),
            own_ns: 0,
        };
        let sums = consumption.of_stack(&roles, 0);
        assert_eq!((sums["web"].run_delay_ns, sums["old"].run_delay_ns), (Some(7), None));
    }

    #[test]
    fn the_clock_of_another_process_is_its_cpu_time() {
        assert_eq!(cpu_clock(i32::MAX >> 4), None);
        let begin = cpu_clock(std::process::id() as i32).unwrap();
        let mut x = 1_u64;
        while cpu_clock(std::process::id() as i32).unwrap() < begin + 2_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    }
}
