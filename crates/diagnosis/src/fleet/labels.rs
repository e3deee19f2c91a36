//! Of which machine, job, rank, GPU and run a series is, by its labels, and what machines are called.

use std::collections::BTreeMap;

use super::answer::{Answered, SeriesLabels};

/// A machine: cluster, scrape job, and instance.
pub(super) type MachineId<'a> = (&'a str, &'a str, &'a str);
/// A job by its PID there.
pub(super) type JobId<'a> = (MachineId<'a>, &'a str);
/// A rank of the job by its number.
pub(super) type RankId<'a> = (JobId<'a>, &'a str);
/// A GPU by its index.
pub(super) type GpuId<'a> = (MachineId<'a>, &'a str);
/// A run: cluster, name and Slurm job; without a name, each job is one.
pub(super) type RunId<'a> = ((&'a str, &'a str, &'a str), Option<JobId<'a>>);

/// The machine that a series is of.
pub(super) fn machine(labels: &SeriesLabels) -> MachineId<'_> {
    (&labels.cluster.0, &labels.job.0, &labels.instance.0)
}

/// The job.
pub(super) fn job(labels: &SeriesLabels) -> JobId<'_> {
    (machine(labels), &labels.pid.0)
}

/// The rank.
pub(super) fn rank(labels: &SeriesLabels) -> RankId<'_> {
    (job(labels), &labels.rank.0)
}

/// The GPU.
pub(super) fn gpu(labels: &SeriesLabels) -> GpuId<'_> {
    (machine(labels), &labels.gpu.0)
}

/// The run.
pub(super) fn run(labels: &SeriesLabels) -> RunId<'_> {
    let named = (labels.cluster.0.as_str(), labels.training_job.0.as_str(), labels.slurm_job_id.0.as_str());
    (named, (named.1.is_empty() && named.2.is_empty()).then(|| job(labels)))
}

/// What each machine is called: its node, or its instance without the port where that is one machine's.
pub(super) fn names<'a>(series: impl Iterator<Item = &'a Answered>) -> BTreeMap<MachineId<'a>, String> {
    let mut labels: BTreeMap<MachineId<'a>, &SeriesLabels> = BTreeMap::new();
    series.for_each(|series| _ = labels.insert(machine(&series.labels), &series.labels));
    let host = |labels: &SeriesLabels| {
        let instance = labels.instance.0.as_str();
        let without = instance.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        labels.node.text().unwrap_or_else(|| without.map_or(instance, |(host, _)| host).to_owned())
    };
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    labels.values().for_each(|labels| *uses.entry(host(labels)).or_default() += 1);
    let name = |labels: &SeriesLabels| {
        let host = host(labels);
        if uses.get(&host) == Some(&1) { host } else { labels.instance.0.clone() }
    };
    labels.into_iter().map(|(id, labels)| (id, name(labels))).collect()
}
