//! What surrounds the job: other processes on its CPUs and GPUs, the disks and mounts of its data.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Span;
use trainmon_rates::frame::MountRates;
use trainmon_rates::other_processes::OtherProcessRates;

/// What a verdict can blame outside the job, as means over the window.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Around {
    /// Processes that use the job's CPUs, the largest first, with the CPUs that each takes.
    pub cpu_users: Vec<(OtherProcessRates, f64)>,
    /// Processes that compute on the job's GPUs, the largest first, with the share of each if known.
    pub gpu_users: Vec<(u32, Option<f64>)>,
    /// The disk that the job writes to most, if the job makes the larger part of the writes there.
    pub written: Option<Arc<str>>,
    /// Mounts with data files of the job.
    pub mounts: Vec<MountRates>,
    /// Known processes outside the job, whatever they use.
    other_processes: Vec<OtherProcessRates>,
}

impl Around {
    pub(super) fn from_span(span: &Span<'_>) -> Self {
        let scans = || span.frames.iter().filter_map(|frame| Some((frame.other_processes.as_ref()?, frame.seconds)));
        let seconds: f64 = scans().map(|(_, seconds)| seconds).sum();
        let mut cpus: BTreeMap<u32, (&OtherProcessRates, f64)> = BTreeMap::new();
        for (scan, seconds) in scans() {
            for process in scan.processes.iter().filter(|process| !process.own) {
                let (known, sum) = cpus.entry(process.id.pid).or_insert((process, 0.0));
                // The newest, because an exec changes the name.
                *known = process;
                *sum += process.cpu_pct / 100.0 * seconds;
            }
        }
        let other_processes = cpus.values().map(|(process, _)| (*process).clone()).collect();
        let here = cpus.into_values().filter(|(process, _)| !process.elsewhere);
        let mut cpu_users: Vec<_> = here.map(|(process, sum)| (process.clone(), sum / seconds)).collect();
        cpu_users.sort_by(|a, b| b.1.total_cmp(&a.1));
        let last = span.frames.last();
        let mounts = last.map(|last| last.storage.mounts.clone()).unwrap_or_default();
        Self { cpu_users, gpu_users: gpu_users(span), written: written(span), mounts, other_processes }
    }

    /// A process outside the job, if it is known.
    pub fn other_process(&self, pid: u32) -> Option<&OtherProcessRates> {
        self.other_processes.iter().find(|process| process.id.pid == pid)
    }
}

fn gpu_users(span: &Span<'_>) -> Vec<(u32, Option<f64>)> {
    let mut users: BTreeMap<u32, super::WeightedMean> = BTreeMap::new();
    for frame in &span.frames {
        let processes = frame.gpus.iter().filter(|gpu| gpu.attached).flat_map(|gpu| &gpu.processes);
        for process in processes.filter(|process| process.ours == Some(false) && process.compute) {
            let share = process.sm_utilization_pct.map(|pct| f64::from(pct) / 100.0);
            users.entry(process.pid).or_default().add(share, frame.seconds);
        }
    }
    let mut users: Vec<_> = users.into_iter().map(|(pid, mean)| (pid, mean.get())).collect();
    users.sort_by(|a, b| b.1.unwrap_or(0.0).total_cmp(&a.1.unwrap_or(0.0)));
    users
}

fn written(span: &Span<'_>) -> Option<Arc<str>> {
    let job = span.mean(|frame| frame.job.write_bytes_per_s)?;
    let mut disks: BTreeMap<&Arc<str>, super::WeightedMean> = BTreeMap::new();
    for frame in &span.frames {
        for disk in &frame.storage.devices {
            disks.entry(&disk.name).or_default().add(Some(disk.write_bytes_per_s), frame.seconds);
        }
    }
    let written = disks.into_iter().filter_map(|(name, mean)| Some((name, mean.get()?)));
    let (name, rate) = written.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (rate > 0.0 && job >= super::LARGER_HALF.value * rate).then(|| Arc::clone(name))
}
