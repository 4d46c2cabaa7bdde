//! Chooses the CPUs that the driver and the services may use.
//!
//! Placement affects the ratio itself (two processes on one core wake each other without an interrupt between cores),
//! so it is chosen once per run, is the same for every case, and is recorded.

use lasthop_model::record::Placement;

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Apart if there is a CPU for the driver and one for each service, otherwise free. With fewer CPUs, services would
    /// have to share some that the scheduler would spread.
    Auto,
    Apart,
    Same,
    Free,
}

/// There are too few CPUs for the placement asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot place driver and services apart: this process may use only {cpus} CPU; use --placement same or free")]
pub struct TooFewCpus {
    cpus: usize,
}

/// Places `services` services per case on the CPUs that this process may use.
///
/// # Errors
/// [`TooFewCpus`] if `Apart` is asked for and there is only one CPU.
pub fn place(wish: Wish, allowed: &[u32], services: usize) -> Result<Placement, TooFewCpus> {
    let apart = |allowed: &[u32]| {
        let (driver, services) = allowed.split_last().expect("a running process is allowed at least one CPU");
        Placement::Apart { driver: vec![*driver], services: services.to_vec() }
    };
    match wish {
        Wish::Free => Ok(Placement::Free),
        Wish::Same => Ok(Placement::Same { cpu: allowed[0] }),
        Wish::Apart if allowed.len() < 2 => Err(TooFewCpus { cpus: allowed.len() }),
        Wish::Apart => Ok(apart(allowed)),
        Wish::Auto if allowed.len() > services.max(1) => Ok(apart(allowed)),
        Wish::Auto => Ok(Placement::Free),
    }
}

/// CPU lists of driver and services; `None` leaves them to the scheduler.
#[must_use]
pub fn cpus(placement: &Placement) -> (Option<Vec<u32>>, Option<Vec<u32>>) {
    match placement {
        Placement::Free => (None, None),
        Placement::Apart { driver, services } => (Some(driver.clone()), Some(services.clone())),
        Placement::Same { cpu } => (Some(vec![*cpu]), Some(vec![*cpu])),
    }
}

/// CPUs that this process may run on, in ascending order.
#[must_use]
pub fn allowed() -> Vec<u32> {
    // SAFETY: an all-zero cpu_set_t is valid, and the kernel writes no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index stays below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as u32).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_places_apart_only_where_each_process_has_a_cpu() {
        assert_eq!(place(Wish::Auto, &[0, 1], 1).unwrap(), Placement::Apart { driver: vec![1], services: vec![0] });
        assert_eq!(place(Wish::Auto, &[0, 1], 2).unwrap(), Placement::Free);
        assert_eq!(
            place(Wish::Auto, &[0, 2, 4, 6], 2).unwrap(),
            Placement::Apart { driver: vec![6], services: vec![0, 2, 4] }
        );
    }

    #[test]
    fn apart_needs_two_cpus() {
        assert!(place(Wish::Apart, &[3], 1).unwrap_err().to_string().contains("--placement"));
        assert_eq!(place(Wish::Same, &[3], 1).unwrap(), Placement::Same { cpu: 3 });
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!allowed().is_empty());
    }
}
