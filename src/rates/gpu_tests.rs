//! Devices of hand-made samples.

use std::sync::Arc;

use super::*;
use crate::rates::testing::*;
use crate::sample::{Gpm, UtilizationPoint};

fn device(index: u32) -> GpuDevice {
    GpuDevice {
        index,
        uuid: Some(format!("GPU-{index}abc").into()),
        minor: Some(index),
        utilization_pct: Some(40),
        ..GpuDevice::default()
    }
}

fn with(ms: u64, devices: Vec<GpuDevice>, job: JobSample) -> Sample {
    let gpus = GpuSample { monotonic_ns: ms * MS, devices, ..GpuSample::default() };
    Sample { gpus: Some(Arc::new(gpus)), job: Some(Arc::new(job)), ..tick(ms / 1000, ms) }
}

fn one(devices: Vec<GpuDevice>, job: JobSample) -> GpuFold {
    fold(&[], None, &with(1000, devices, job), None)
}

fn on(pid: u32, memory: u64, sm: Option<u32>) -> GpuProcess {
    GpuProcess { pid, memory_bytes: Some(memory), sm_utilization_pct: sm, compute: true }
}

fn shown(rates: &GpuRates) -> Vec<(u32, Option<bool>)> {
    rates.processes.iter().map(|process| (process.pid, process.ours)).collect()
}

fn flags(out: &GpuFold) -> Vec<bool> {
    out.rates.iter().map(|gpu| gpu.attached).collect()
}

#[test]
fn link_goes_from_processes_to_minors_to_visible_devices() {
    let mut job = job(0, vec![process(10)]);
    job.nvidia_minors = Some(vec![1]);
    job.cuda_visible_devices = Some("0".into());
    let mut devices = vec![device(0), device(1), device(2)];
    devices[2].processes = vec![on(10, 5, None)];
    let out = one(devices.clone(), job.clone());
    assert_eq!((out.link, flags(&out)), (GpuLink::Processes, vec![false, false, true]));
    devices[2].processes.clear();
    let out = one(devices.clone(), job.clone());
    assert_eq!((out.link, flags(&out)), (GpuLink::OpenDevice, vec![false, true, false]));
    job.nvidia_minors = Some(vec![]);
    let out = one(devices.clone(), job.clone());
    assert_eq!((out.link, flags(&out)), (GpuLink::VisibleDevices, vec![true, false, false]));
    job.cuda_visible_devices = None;
    let out = one(devices.clone(), job.clone());
    assert_eq!((out.link, flags(&out)), (GpuLink::None, vec![false; 3]));
    let choice = [GpuChoice::Uuid("GPU-1".into()), GpuChoice::Index(2)];
    let out = fold(&choice, None, &with(1000, devices, job), None);
    assert_eq!((out.link, flags(&out)), (GpuLink::Chosen, vec![false, true, true]));
}

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

#[test]
fn inner_pids_count_only_in_our_own_namespace() {
    let mut job = job(0, vec![process(4000)]);
    job.processes[0].inner_pid = Some(10);
    let mut gpu = device(0);
    gpu.processes = vec![on(10, 5, None)];
    assert_eq!(one(vec![gpu.clone()], job.clone()).link, GpuLink::Processes);
    job.other_pid_namespace = true;
    assert_eq!(one(vec![gpu], job).link, GpuLink::None);
}

#[test]
fn the_jobs_part_and_the_others() {
    let job = job(0, vec![process(10), process(11)]);
    let mut gpu = device(0);
    gpu.processes = vec![on(10, 5, Some(20)), on(11, 7, Some(5)), on(99, 100, Some(15))];
    let out = one(vec![gpu], job);
    let rates = &out.rates[0];
    assert_eq!(rates.job_utilization_pct, Some(25.0));
    assert_eq!(rates.job_memory_bytes, Some(12));
    assert_eq!(rates.others.len(), 1);
    assert_eq!(shown(rates), [(11, Some(true)), (10, Some(true)), (99, Some(false))]);
    assert_eq!((rates.processes[1].memory_bytes, rates.processes[1].sm_utilization_pct), (Some(5), Some(20)));
    assert!((out.attached[0].busy(0) - 0.25).abs() < 1e-9, "the device's use is cut to the job's part");
    assert_eq!(out.memory_by_pid().get(&11), Some(&7));
}

#[test]
fn alone_on_the_device_its_use_is_the_jobs() {
    let job = job(0, vec![process(10)]);
    let mut gpu = device(0);
    gpu.processes = vec![on(10, 5, None)];
    assert_eq!(one(vec![gpu.clone()], job.clone()).rates[0].job_utilization_pct, Some(40.0));
    gpu.processes.push(on(99, 5, None));
    assert_eq!(one(vec![gpu], job).rates[0].job_utilization_pct, None);
}

#[test]
fn in_a_container_nobody_is_called_a_stranger() {
    let mut job = job(0, vec![process(10)]);
    job.nvidia_minors = Some(vec![0]);
    let mut gpu = device(0);
    gpu.processes = vec![on(54_321, 6, Some(30))];
    let out = one(vec![gpu.clone()], job.clone());
    let rates = &out.rates[0];
    assert_eq!((rates.others.len(), rates.job_memory_bytes, rates.job_utilization_pct), (0, Some(6), Some(30.0)));
    assert_eq!(shown(rates), [(54_321, Some(true))]);
    gpu.processes.push(on(54_400, 7, Some(30)));
    let rates = one(vec![gpu], job).rates.remove(0);
    assert_eq!((rates.others.len(), rates.job_memory_bytes, rates.job_utilization_pct), (0, None, None));
    assert_eq!(shown(&rates), [(54_400, None), (54_321, None)]);
}

#[test]
fn utilisation_is_the_mean_of_the_points() {
    let mut gpu = device(0);
    gpu.utilization_points = [0, 50, 100, 4_000_000].map(|pct| UtilizationPoint { unix_us: 0, pct }).to_vec();
    assert_eq!(one(vec![gpu], job(0, vec![])).rates[0].utilization_pct, Some(50.0));
    let sentinel = GpuDevice { utilization_pct: Some(u32::MAX), ..device(0) };
    assert_eq!(one(vec![sentinel], job(0, vec![])).rates[0].utilization_pct, None);
}

#[test]
fn power_from_energy_where_it_moves() {
    let at = |ms, energy_mj| {
        let gpu = GpuDevice { energy_mj: Some(energy_mj), power_mw: Some(70_000), ..device(0) };
        with(ms, vec![gpu], job(ms, vec![]))
    };
    let power = |before: &Sample, now: &Sample| fold(&[], Some(before), now, Some(before)).rates[0].power_w;
    assert_eq!(power(&at(1000, 5_000), &at(2000, 155_000)), Some(150.0));
    assert_eq!(power(&at(1000, 5_000), &at(2000, 5_000)), Some(70.0), "did not move");
    assert_eq!(power(&at(1000, 5_000), &at(2000, 4_000)), Some(70.0), "went back");
    assert_eq!(power(&at(1000, 5_000), &at(1200, 9_000)), Some(70.0), "interval too short");
}

#[test]
fn a_stale_or_lost_device_has_no_use() {
    let mut gpu = device(0);
    gpu.gpm = Some(Gpm { sm_active_pct: Some(5.0), ..Gpm::default() });
    gpu.memory_used_bytes = Some(3);
    gpu.processes = vec![on(10, 5, Some(20))];
    let sample = with(1000, vec![gpu.clone()], job(1000, vec![]));
    let rates = fold(&[], Some(&sample), &sample, Some(&sample)).rates.remove(0);
    assert_eq!((rates.utilization_pct, rates.sm_active_pct, rates.memory_used_bytes), (None, None, Some(3)));
    assert_eq!((rates.processes[0].memory_bytes, rates.processes[0].sm_utilization_pct), (Some(5), None));
    gpu.lost = true;
    let rates = one(vec![gpu], job(0, vec![])).rates.remove(0);
    assert_eq!((rates.utilization_pct, rates.lost), (None, true));
}

#[test]
fn link_capacity() {
    let gpu = |generation, width| GpuDevice {
        pcie_generation: Some(1),
        pcie_generation_max: generation,
        pcie_width: Some(8),
        pcie_width_max: width,
        ..device(0)
    };
    assert_eq!(pcie_capacity(&gpu(Some(4), Some(16))), Some(1969e6 * 16.0));
    assert_eq!(pcie_capacity(&gpu(None, None)), Some(250e6 * 8.0));
    assert_eq!(pcie_capacity(&gpu(Some(0), Some(16))), None);
    assert_eq!(pcie_capacity(&gpu(Some(99), Some(16))), None);
}
