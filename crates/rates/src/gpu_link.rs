//! Which GPUs a job uses, and how that is known.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::GpuChoice;
use trainmon_sample::{GpuReading, GpuSample, JobSample, ProcessSample};

/// A GPU on which less than this is in use holds no model, if another one holds more; an idle MI300X shows 0.3 GiB. Bytes.
const NO_MODEL: u64 = 1 << 30;
/// The same of the job's own memory.
const OWN_NO_MODEL: u64 = 64 << 20;

/// How the job's GPUs were identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuLink {
    /// The driver lists a process of the tree on the GPU.
    Processes,
    /// A process of the tree has the GPU's file open (`/dev/nvidiaN`, `/dev/dri/renderDN`).
    OpenDevice,
    /// The target's environment names it (`CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`).
    VisibleDevices,
    /// `--gpu` names it.
    Chosen,
    /// The job uses no GPU that trainmon can see.
    #[default]
    None,
}

/// PIDs under which NVML may list the job's processes: as trainmon sees them, and inside one PID namespace also the
/// innermost ones. Seen from the host, the inner PIDs of a container would only match unrelated processes.
pub(crate) fn job_pids(job: &JobSample) -> HashSet<u32> {
    let inner = |process: &ProcessSample| if job.other_pid_namespace { None } else { process.inner_pid };
    let inner = job.processes.iter().filter_map(inner);
    job.processes.iter().map(|process| process.id.pid).chain(inner).collect()
}

/// The files of the job's accelerators without readings. A file of all GPUs of a driver counts as read if one of them is attached; ROCm
/// opens the GPUs that it does not use, too.
pub(crate) fn unread(job: Option<&JobSample>, gpus: &GpuSample, attached: &HashSet<usize>) -> Vec<Arc<str>> {
    let is_read = |file: &Arc<str>| {
        gpus.devices.iter().enumerate().any(|(position, gpu)| {
            let is_its = gpu.files.first() == Some(file) || attached.contains(&position) && gpu.files.contains(file);
            is_its && !gpu.lost
        })
    };
    let Some(job) = job else { return Vec::new() };
    // NVIDIA's GPUs are those without files.
    let unseen =
        if gpus.devices.iter().any(|gpu| gpu.files.is_empty()) { None } else { job.nvidia_minors.as_deref() };
    let nvidia = unseen.into_iter().flatten().map(|minor| format!("/dev/nvidia{minor}").into());
    nvidia.chain(job.accelerators.iter().filter(|file| !is_read(file)).cloned()).collect()
}

/// Positions of the GPUs that the job uses, and how they were identified: the user's choice, else the driver's processes, else open
/// files of those that the environment leaves visible, else all open files, else what is visible. A GPU that draws the screen counts
/// only where there is no other: libraries open it beside the one that computes.
pub(crate) fn attached(
    choices: &[GpuChoice],
    gpus: &GpuSample,
    job: Option<&JobSample>,
    pids: &HashSet<u32>,
) -> (GpuLink, HashSet<usize>) {
    type Wanted<'a> = &'a dyn Fn(&GpuReading) -> bool;
    let positions = |wanted: Wanted| -> HashSet<usize> {
        gpus.devices.iter().enumerate().filter(|(_, device)| wanted(device)).map(|(at, _)| at).collect()
    };
    if !choices.is_empty() {
        let chosen = positions(&|device| choices.iter().any(|choice| is_chosen(choice, device)));
        return (GpuLink::Chosen, chosen);
    }
    let minors = job.and_then(|job| job.nvidia_minors.as_deref()).unwrap_or_default();
    let visible = visible_devices(job.and_then(|job| job.cuda_visible_devices.as_deref()).unwrap_or_default());
    let files = job.map(|job| job.accelerators.as_slice()).unwrap_or_default();
    let is_visible = |device: &GpuReading| visible.iter().any(|choice| is_chosen(choice, device));
    let has_file = |device: &GpuReading| device.files.first().is_some_and(|file| files.contains(file));
    let has_minor = |device: &GpuReading| device.minor.is_some_and(|minor| minors.contains(&minor));
    let is_open = |device: &GpuReading| has_minor(device) || has_file(device);
    let is_listed = |device: &GpuReading| device.processes.iter().any(|process| pids.contains(&process.pid));
    // Open and visible GPUs count where the driver does not know better.
    let is_unused = |device: &GpuReading| device.unused_by.iter().any(|pid| pids.contains(pid));
    let is_open = |device: &GpuReading| is_open(device) && !is_unused(device);
    let is_visible = |device: &GpuReading| is_visible(device) && !is_unused(device);
    let links: [(GpuLink, Wanted); 4] = [
        (GpuLink::Processes, &is_listed),
        (GpuLink::OpenDevice, &|device| is_open(device) && is_visible(device)),
        (GpuLink::OpenDevice, &is_open),
        (GpuLink::VisibleDevices, &is_visible),
    ];
    let mut found = links.into_iter().map(|(link, wanted)| (link, positions(wanted)));
    let (link, mut found) = found.find(|(_, positions)| !positions.is_empty()).unwrap_or_default();
    let of = |position: &usize| gpus.devices.get(*position);
    if found.iter().any(|position| of(position).is_some_and(|gpu| !gpu.for_display)) {
        found.retain(|position| of(position).is_some_and(|gpu| !gpu.for_display));
    }
    // ROCm opens all GPUs. Those on which next to nothing lies are not the ones that train. Other drivers' runtimes open what they use.
    let own = |gpu: &GpuReading| {
        let own = gpu.processes.iter().filter(|process| pids.contains(&process.pid));
        own.filter_map(|process| process.memory_bytes).reduce(u64::saturating_add)
    };
    let held = |position: &usize| {
        let gpu = of(position).filter(|gpu| !gpu.files.is_empty())?;
        if link == GpuLink::Processes { own(gpu) } else { gpu.memory_used_bytes }
    };
    let little = if link == GpuLink::Processes { OWN_NO_MODEL } else { NO_MODEL };
    if found.iter().filter_map(held).any(|bytes| bytes >= NO_MODEL) {
        found.retain(|position| held(position).is_none_or(|bytes| bytes >= little));
    }
    (link, found)
}

fn is_chosen(choice: &GpuChoice, gpu: &GpuReading) -> bool {
    match choice {
        GpuChoice::Index(index) => gpu.index == *index,
        GpuChoice::Uuid(prefix) => {
            let start = gpu.uuid.as_deref().and_then(|uuid| uuid.get(..prefix.len()));
            !prefix.is_empty() && start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
    }
}

/// The GPUs named by a value of CUDA_VISIBLE_DEVICES: indices or starts of UUIDs; everything after the first invalid
/// entry is invisible (CUDA C++ Programming Guide, "CUDA Environment Variables"). Indices are read as NVML's, which is
/// right with CUDA_DEVICE_ORDER=PCI_BUS_ID and on hosts with GPUs of one kind. A MIG instance in the form
/// `MIG-GPU-<uuid>/…` names its GPU.
fn visible_devices(value: &str) -> Vec<GpuChoice> {
    let entry = |entry: &str| {
        let entry = entry.trim();
        if let Ok(index) = entry.parse() {
            return Some(GpuChoice::Index(index));
        }
        let uuid = entry.strip_prefix("MIG-").unwrap_or(entry);
        let uuid = uuid.split('/').next().unwrap_or(uuid);
        uuid.starts_with("GPU-").then(|| GpuChoice::Uuid(uuid.to_owned()))
    };
    value.split(',').map_while(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_stop_at_the_first_invalid_entry() {
        let index = GpuChoice::Index;
        assert_eq!(visible_devices("0, 2"), [index(0), index(2)]);
        assert_eq!(visible_devices("1,-1,0"), [index(1)]);
        assert_eq!(visible_devices(""), []);
        assert_eq!(visible_devices("NoDevFiles"), []);
        assert_eq!(visible_devices("GPU-8932f937"), [GpuChoice::Uuid("GPU-8932f937".into())]);
        assert_eq!(visible_devices("MIG-GPU-8932/1/2"), [GpuChoice::Uuid("GPU-8932".into())]);
    }
}
