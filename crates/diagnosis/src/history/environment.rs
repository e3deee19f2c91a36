//! Where a run ran, as far as it is known: what a report lists, and what two runs must share to be compared.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pipeline::Tick;

/// A GPU that the job used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentGpu {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: Option<String>,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Whether it is simulated.
    pub simulated: bool,
}

/// The machine and what the job runs on, as they were at the newest tick.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the machine.
    pub host: Option<String>,
    /// Model of its CPUs.
    pub cpu_model: Option<String>,
    /// Version of Python.
    pub python: Option<String>,
    /// Version of torch.
    pub torch: Option<String>,
    /// The job's GPUs.
    pub gpus: Vec<EnvironmentGpu>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// CPUs that the job may use.
    pub cpus_allowed: Option<u32>,
    /// CPUs that its cgroup's quota is worth.
    pub cpu_quota: Option<f64>,
    /// CPUs of the machine.
    pub cpus: Option<usize>,
    /// Memory of the machine, bytes.
    pub memory_bytes: Option<u64>,
}

impl Environment {
    /// What a tick says. What it does not say any more, as of GPUs once the job has ended, stays as it was.
    pub(super) fn update(&mut self, Tick { frame, sample, .. }: &Tick) {
        let ours = frame.gpus.iter().filter(|gpu| gpu.attached);
        let gpus: Vec<_> = ours
            .map(|gpu| EnvironmentGpu {
                index: gpu.index,
                name: gpu.name.as_deref().map(str::to_owned),
                memory_bytes: gpu.memory_total_bytes,
                simulated: gpu.simulated,
            })
            .collect();
        if !gpus.is_empty() {
            self.gpus = gpus;
        }
        let owned = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        if let Some(host) = &sample.host {
            keep(&mut self.host, owned(&host.name));
            keep(&mut self.cpu_model, owned(&host.cpu_model));
        }
        if let Some(job) = &sample.job {
            keep(&mut self.python, owned(&job.software.python));
            keep(&mut self.torch, owned(&job.software.torch));
        }
        keep(&mut self.driver, sample.gpus.as_ref().and_then(|gpus| Some(gpus.driver.as_deref()?.to_owned())));
        keep(&mut self.cpus_allowed, frame.job.cpus_allowed);
        keep(&mut self.cpu_quota, frame.job.cpu_quota_cores);
        keep(&mut self.cpus, Some(frame.host.cpus.len()).filter(|cpus| *cpus > 0));
        keep(&mut self.memory_bytes, sample.host.as_ref().and_then(|host| host.memory_total_bytes));
    }
}

fn keep<T>(known: &mut Option<T>, newer: Option<T>) {
    if newer.is_some() {
        *known = newer;
    }
}
