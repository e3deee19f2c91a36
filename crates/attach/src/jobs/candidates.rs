//! Which processes may be training: the list that a person chooses from, best first.
//!
//! What makes a candidate is told here, from plain lists of processes; [`scan`] reads the machine, [`polling`] does so again
//! and again while the list is shown.

pub mod polling;
pub mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use super::JobCandidate;
use trainmon_sources::processes::{self, Listed};

/// Those of the processes that may be training, best first: GPU users by memory held, then Python with data-loader workers,
/// then Python with a machine-learning library, the youngest first. Of a tree only the topmost one is listed:
/// attaching to it takes in everything that it has started.
///
/// `gpu` holds GPU memory by PID; `own` (trainmon itself) is left out.
pub fn list(
    processes: &[Listed],
    gpu: &BTreeMap<u32, u64>,
    own: u32,
    mut library: impl FnMut(u32) -> Option<String>,
) -> Vec<JobCandidate> {
    let workers = processes::data_workers(processes);
    let mut found: BTreeMap<u32, JobCandidate> = BTreeMap::new();
    for process in processes.iter().filter(|process| process.pid != own) {
        let part = processes::is_part(process);
        let python = processes::is_python(process);
        let memory = gpu.get(&process.pid).copied();
        let below = if python { workers.get(&process.pid).copied().unwrap_or(0) } else { 0 };
        let library = if python && !part { library(process.pid) } else { None };
        if !part && (memory.is_some() || below > 0 || library.is_some()) {
            found.insert(
                process.pid,
                JobCandidate {
                    pid: process.pid,
                    command: if process.command.is_empty() { process.comm.clone() } else { process.command.clone() },
                    gpu_memory_bytes: memory,
                    workers: below,
                    library,
                    age_s: process.age_s,
                    ..JobCandidate::default()
                },
            );
        }
    }
    let mut best = topmost(found, processes);
    best.sort_by_key(|candidate| {
        (
            std::cmp::Reverse(candidate.gpu_memory_bytes.map(|bytes| bytes.saturating_add(1))),
            std::cmp::Reverse(candidate.workers > 0),
            candidate.age_s.unwrap_or(u64::MAX),
            candidate.pid,
        )
    });
    best
}

/// Takes candidates below another candidate into it.
fn topmost(mut found: BTreeMap<u32, JobCandidate>, processes: &[Listed]) -> Vec<JobCandidate> {
    let parents: BTreeMap<u32, u32> = processes.iter().map(|process| (process.pid, process.parent)).collect();
    let all: BTreeSet<u32> = found.keys().copied().collect();
    let above = |pid: &u32| parents.get(pid).copied().filter(|parent| *parent > 0);
    for &pid in &all {
        // A PID that was reused meanwhile could close a ring.
        let ancestors = successors(above(&pid), above).take(64);
        let top = ancestors.filter(|ancestor| *ancestor != pid && all.contains(ancestor)).last();
        if let Some(top) = top
            && let Some(below) = found.remove(&pid)
            && let Some(top) = found.get_mut(&top)
            && let Some(memory) = below.gpu_memory_bytes
        {
            top.gpu_memory_bytes = Some(top.gpu_memory_bytes.unwrap_or(0).saturating_add(memory));
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, comm: &str, command: &str) -> Listed {
        Listed {
            pid,
            parent,
            comm: comm.to_owned(),
            command: command.to_owned(),
            age_s: Some(90),
            ..Listed::default()
        }
    }

    fn host() -> Vec<Listed> {
        vec![
            process(1, 0, "systemd", "/sbin/init"),
            process(10, 1, "python", "/usr/bin/python3 train.py"),
            process(11, 10, "pt_data_worker", "/usr/bin/python3 train.py"),
            process(12, 10, "pt_data_worker", "/usr/bin/python3 train.py"),
            process(20, 1, "torchrun", "python3.12 torchrun x.py"),
            process(21, 20, "python", "python3.12 -u x.py"),
            process(30, 1, "python3", "python3 web.py"),
            process(60, 1, "python", "python -c from multiprocessing.forkserver import main"),
            process(61, 60, "pt_data_worker", "python -c from multiprocessing.forkserver import main"),
            process(70, 1, "python", "python jupyter-lab"),
            process(71, 70, "python", "python kernel"),
            process(72, 71, "python", "python -c from multiprocessing.forkserver import main"),
            process(73, 72, "pt_data_worker", "python -c from multiprocessing.forkserver import main"),
            process(40, 1, "llama-server", "llama-server -m x"),
            process(50, 1, "trainmon", "trainmon"),
        ]
    }

    fn library(pid: u32) -> Option<String> {
        [10, 11, 20, 21].contains(&pid).then(|| "libtorch_cpu.so".to_owned())
    }

    #[test]
    fn gpu_users_first_then_workers_then_libraries() {
        let gpu = BTreeMap::from([(40, 5 << 30), (50, 1)]);
        let pids = |gpu: &BTreeMap<u32, u64>| -> Vec<u32> {
            list(&host(), gpu, 50, library).iter().map(|candidate| candidate.pid).collect()
        };
        assert_eq!(pids(&gpu), [40, 10, 71, 20]);
        assert_eq!(pids(&BTreeMap::from([(21, 1 << 30)])), [20, 10, 71]);
        assert_eq!(pids(&BTreeMap::new()), [10, 71, 20]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring = [process(2, 3, "python", "python a"), process(3, 2, "python", "python b")];
        assert!(list(&ring, &BTreeMap::new(), 1, |_| Some("libtorch.so".to_owned())).len() <= 2);
    }
}
