//! Judgement and numbers → the verdict that people and scripts read.

use std::collections::BTreeMap;

use crate::rates::stacks::Activity;
use crate::rates::time_split::TimeSplit;
use crate::sample::{Access, Sample, SourceState, SourceStatus};

use super::Context;
use super::causes;
use super::rules::Judgement;
use super::stalls;
use super::thresholds::{self as limit, Threshold};
use super::verdict::{
    Advice, Class, Evidence, Finding, Hottest, NotSeen, OwnCost, Phase, Steps, Verdict, WorkerVerdict,
};
use super::what_if::{self, Loop, Prediction};
use super::window::{MainWindow, Window};

/// Builds the verdict. Session counters (`observed_s`, `first_verdict_s`, `steps.count`) are for the caller.
pub(super) fn verdict(context: &Context, judgement: &Judgement, window: &Window, sample: &Sample) -> Verdict {
    let (seen, mut not_seen) = visibility(sample, context.pid);
    for doubt in &judgement.doubts {
        if judgement.class == Class::Unknown {
            not_seen.insert(0, NotSeen { what: "verdict".into(), why: doubt.clone(), mend: None });
        }
    }
    let bound = bound(judgement, window);
    Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").into(),
        pid: context.pid,
        command: context.command.clone(),
        started: context.started.clone(),
        observed_s: 0.0,
        phase: judgement.phase,
        class: judgement.class,
        cause: judgement.cause.map(Into::into),
        confidence: round(judgement.confidence, 2),
        summary: summary(judgement, window),
        first_verdict_s: None,
        shares: window.main.as_ref().map(|main| shares(judgement, main)),
        gpu_idle: window.gpu.as_ref().map(|gpu| gpu.idle),
        steps: steps(window),
        main_thread: window.main.as_ref().and_then(|main| Some(main.activities.as_ref()?.verdict())),
        ranks: Vec::new(),
        workers: workers(window, judgement.phase == Phase::Stopped),
        evidence: evidence(judgement, window),
        advice: advice(judgement, window, bound),
        other_findings: judgement
            .others
            .iter()
            .map(|other| Finding {
                class: other.class,
                cause: Some(other.cause.into()),
                confidence: round(other.confidence.clamp(0.0, 1.0), 2),
                text: other.text.clone(),
            })
            .chain(next_limit(judgement, window))
            .chain(judgement.doubts.iter().filter(|_| judgement.class != Class::Unknown).map(|doubt| Finding {
                class: judgement.class,
                cause: None,
                confidence: 0.0,
                text: format!("less sure because {doubt}"),
            }))
            .collect(),
        seen,
        not_seen,
        own: OwnCost {
            cpu_pct: None,
            rss_mib: sample.own.rss_bytes.map(|bytes| round(bytes as f64 / f64::from(1 << 20), 1)),
        },
    }
}

/// The five shares. A main thread that loads the batches itself waits for them while it works: without stacks its own
/// work cannot be told from loading, so all of it counts as loading.
fn shares(judgement: &Judgement, main: &MainWindow) -> TimeSplit {
    let mut shares = main.shares;
    if judgement.cause == Some("in-process-loading") && main.activities.is_none() {
        shares.input_wait += main.running;
        shares.host_busy -= main.running;
    }
    shares
}

/// What would hold the loop back once its waits for batches are gone.
fn next_limit(judgement: &Judgement, window: &Window) -> Option<Finding> {
    let main = window.main.as_ref()?;
    let lost = window.lost_wait();
    let waits = matches!(judgement.class, Class::DataLoader | Class::Io | Class::Cpu);
    if !waits || !(limit::LOST_WAIT.value..=0.97).contains(&lost) {
        return None;
    }
    let rest = 1.0 - lost;
    let (class, cause, text) = match &window.gpu {
        Some(gpu) if gpu.job_busy / rest >= limit::DEVICE_BUSY.value => {
            let busy = percent((gpu.job_busy / rest).min(1.0));
            (
                Class::Gpu,
                "compute-bound",
                format!("next: without these waits the GPU would be busy {busy} of the time"),
            )
        }
        _ if main.shares.host_busy / rest >= 0.5 => {
            let host = percent((main.shares.host_busy / rest).min(1.0));
            let text = format!("next: without these waits the loop's own work on the host takes {host} of the time");
            (Class::Cpu, "main-thread", text)
        }
        _ => return None,
    };
    let confidence = round(judgement.confidence * 0.6, 2);
    Some(Finding { class, cause: Some(cause.into()), confidence, text })
}

fn round(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (value * factor).round() / factor
}

/// `67 %` of a share.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Upper bound of the speed-up that removing the cause can bring: what the loop waits, and never more than what the
/// device's busy time leaves.
fn bound(judgement: &Judgement, window: &Window) -> Option<f64> {
    let main = window.main.as_ref()?;
    let device = window.gpu.as_ref().map(|gpu| gpu.job_busy.max(0.01));
    let vanishing = match (judgement.class, judgement.cause) {
        (Class::DataLoader, Some("in-process-loading")) => match &main.activities {
            Some(seen) => {
                let cores = window.cpu.cores.unwrap_or(1.0);
                let used = main.cpu_pct.unwrap_or(100.0) / 100.0;
                return Some(round(what_if::workers_for_inline(seen, used, cores, device.unwrap_or(0.0)).1, 2));
            }
            None => 1.0 - device?,
        },
        (Class::DataLoader | Class::Io, Some(cause)) if cause != "checkpoint-write" => window.lost_wait(),
        (Class::Io, Some("checkpoint-write")) => main.shares.checkpoint,
        (Class::Cpu, Some("cpu-training")) => return None,
        // Starved of CPUs everything is slow, the waits and the work: what the job could use, over what it gets.
        (Class::Cpu, Some("cgroup-throttled" | "noisy-neighbour")) => {
            let used = window.cpu.job.filter(|used| *used > 0.05)?;
            1.0 - used / window.cpu.allowed?.max(used)
        }
        (Class::Cpu, _) => {
            if window.lost_wait() >= limit::LOST_WAIT.value {
                window.lost_wait()
            } else {
                1.0 - device?
            }
        }
        (Class::Gpu, Some("shared-gpu")) => {
            let gpu = window.gpu.as_ref()?;
            gpu.busy - gpu.job_busy
        }
        _ => return None,
    };
    let from_wait = 1.0 / (1.0 - vanishing.clamp(0.0, 0.99));
    Some(round(device.map_or(from_wait, |busy| from_wait.min(1.0 / busy)), 2))
}

fn summary(judgement: &Judgement, window: &Window) -> String {
    let why = judgement.cause.and_then(|cause| causes::find(judgement.class, cause)).map(|cause| cause.meaning);
    let doubt = judgement.doubts.first().map_or("too little has been seen", String::as_str);
    let training = match judgement.class {
        Class::Unknown => return format!("No verdict: {doubt}."),
        Class::Idle => {
            return match judgement.phase {
                Phase::Stopped => {
                    "The process is stopped (SIGSTOP or a debugger); `kill -CONT` lets it go on.".into()
                }
                Phase::Finished => "The process has ended.".into(),
                Phase::Init => "The job is starting: it does not step yet.".into(),
                _ => "The job is alive, but neither computes nor waits for data: done, hung or waiting for input."
                    .into(),
            };
        }
        Class::Balanced => "Nothing costs the loop more than a few percent.".to_owned(),
        Class::DataLoader | Class::Io => waits(window),
        Class::Cpu if window.lost_wait() >= limit::LOST_WAIT.value => waits(window),
        Class::Cpu => match &window.gpu {
            Some(gpu) => format!("The GPU is idle {} of the time", percent(1.0 - gpu.job_busy)),
            None => "The loop runs on the CPU".into(),
        },
        Class::Gpu => match &window.gpu {
            Some(gpu) => format!("The GPU is busy {} of the time", percent(gpu.busy)),
            None => "The GPU is busy".into(),
        },
    };
    let mut text = match why {
        Some(why) => format!("{training}: {why}"),
        None => training,
    };
    if let (Some(workers), Class::DataLoader | Class::Io) = (&window.workers, judgement.class) {
        text.push_str(&format!("; {} worker{} {} busy", workers.count, plural(workers.count), percent(workers.busy)));
        if workers.io_wait > 0.05 {
            text.push_str(&format!(", {} waiting for their source", percent(workers.io_wait)));
        }
    }
    if let Some(place) = place(judgement, window) {
        text.push_str(&format!("; {place}"));
    }
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

/// Where in the code the time goes, for causes that a line of code can mend.
fn place(judgement: &Judgement, window: &Window) -> Option<String> {
    let seen = window.main.as_ref().and_then(|main| main.activities.as_ref());
    let main = || seen.and_then(|seen| seen.hottest.first());
    let workers = || {
        let each =
            window.workers.iter().flat_map(|workers| &workers.each).filter_map(|worker| worker.hottest.as_ref());
        each.max_by(|a, b| a.share.total_cmp(&b.share).then_with(|| b.line.cmp(&a.line)))
    };
    let (words, found) = match (judgement.class, judgement.cause?) {
        (_, "host-device-sync") => ("it waits in", seen.and_then(|seen| seen.sync_lines.first())),
        (_, "in-process-loading" | "main-thread" | "launch-bound" | "cpu-training") => ("most of it in", main()),
        (
            Class::DataLoader,
            "too-few-workers" | "decode" | "transform" | "collate" | "slow-samples" | "worker-imbalance",
        )
        | (Class::Cpu, "cores-saturated") => ("most of it in", workers().or_else(main)),
        _ => return None,
    };
    let Hottest { function, file, line, share } = found.filter(|found| found.share >= 0.1)?;
    Some(format!("{words} {function} ({file}:{line}, {})", percent(*share)))
}

fn waits(window: &Window) -> String {
    let wait = window.main.as_ref().map_or(0.0, |main| main.shares.input_wait);
    let checkpoint = window.main.as_ref().map_or(0.0, |main| main.shares.checkpoint);
    let who = if window.gpu.is_some() { "The GPU waits while the loop waits" } else { "The loop waits" };
    if checkpoint > window.lost_wait() {
        return format!("The loop saves state {} of the time", percent(checkpoint));
    }
    if wait < limit::LOST_WAIT.value {
        return match &window.gpu {
            Some(gpu) => format!("The GPU is idle {} of the time", percent(1.0 - gpu.job_busy)),
            None => "The loop makes its own batches".into(),
        };
    }
    format!("{who} for batches {} of the time", percent(wait))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn steps(window: &Window) -> Steps {
    let lengths = &window.steps;
    Steps {
        per_s: lengths.per_s.map(|rate| round(rate, 3)),
        p50_ms: lengths.quantile_ms(0.5).map(|ms| round(ms, 1)),
        p95_ms: lengths.quantile_ms(0.95).map(|ms| round(ms, 1)),
        count: lengths.count,
        stall_every: stalls::period(&window.stalls).map(|period| period.every),
        source: lengths.per_s.map(|_| "feeder-writes".into()),
    }
}

/// Stopped workers stand somewhere, but are in no stage.
fn workers(window: &Window, stopped: bool) -> Vec<WorkerVerdict> {
    let Some(workers) = &window.workers else { return Vec::new() };
    workers
        .each
        .iter()
        .map(|worker| {
            let share = |at: usize| worker.shares.and_then(|shares| shares.get(at).map(|share| round(*share, 3)));
            WorkerVerdict {
                pid: worker.pid,
                busy: share(0),
                io_wait: share(1),
                runnable: share(2),
                idle: share(3),
                batches_per_s: worker.batches_s.map(|rate| round(rate, 3)),
                stages: worker.stages.filter(|_| !stopped),
                hottest: worker.hottest.clone().filter(|_| !stopped),
            }
        })
        .collect()
}

/// Collects evidence lines.
struct Lines(Vec<Evidence>);

impl Lines {
    fn add(&mut self, signal: &str, value: Option<f64>, unit: &str, threshold: Option<&Threshold>, text: String) {
        if let Some(value) = value {
            self.0.push(Evidence {
                signal: signal.into(),
                value: Some(round(value, 3)),
                unit: unit.into(),
                threshold: threshold.map(|threshold| threshold.value),
                text,
            });
        }
    }

    fn share(&mut self, signal: &str, value: Option<f64>, threshold: Option<&Threshold>, words: &str) {
        self.add(signal, value, "share", threshold, words.to_owned());
    }
}

/// What the stacks add about the main thread.
fn main_evidence(lines: &mut Lines, main: &MainWindow, receiving: f64) {
    let Some(seen) = &main.activities else { return };
    let parts = [
        ("loading", seen.inline, "main thread loads batches itself"),
        ("receiving", receiving, "main thread works at taking batches over"),
        ("loader_start", seen.share(Activity::LoaderStart), "main thread starts workers"),
        ("queue_wait", seen.share(Activity::QueueWait), "main thread waits for a queue of the program's own"),
        ("model", seen.of_model(), "main thread in forward, backward, optimizer and copies"),
        ("report", seen.share(Activity::Report), "main thread logs and reports"),
        ("collectives", seen.share(Activity::Collective), "main thread in collectives"),
        ("sync_lines", seen.sync_share(), "main thread at lines that wait for the device"),
    ];
    for (signal, share, words) in parts {
        if share >= 0.01 {
            lines.share(signal, Some(share), None, words);
        }
    }
}

fn evidence(judgement: &Judgement, window: &Window) -> Vec<Evidence> {
    let mut lines = Lines(Vec::new());
    let cause = judgement.cause.unwrap_or_default();
    if let Some(main) = &window.main {
        lines.share(
            "input_wait",
            Some(main.shares.input_wait),
            Some(&limit::LOST_WAIT),
            "main thread waits for batches",
        );
        if window.gpu.is_some() {
            lines.share(
                "lost_wait",
                Some(window.lost_wait()),
                Some(&limit::LOST_WAIT),
                "of it with the device idle, at most",
            );
        }
        lines.share("host_busy", Some(main.shares.host_busy), None, "main thread works on the host");
        if main.shares.device_sync > 0.01 || cause == "host-device-sync" {
            lines.share(
                "device_sync",
                Some(main.shares.device_sync),
                Some(&limit::SYNC),
                "main thread waits for the device",
            );
        }
        if main.shares.checkpoint > 0.01 {
            lines.share(
                "checkpoint",
                Some(main.shares.checkpoint),
                Some(&limit::CHECKPOINT),
                "main thread saves state",
            );
        }
        lines.share(
            "main_run_delay",
            main.run_delay,
            Some(&limit::MAIN_RUN_DELAY),
            "main thread queues for a CPU, of its runnable time",
        );
        main_evidence(&mut lines, main, window.receiving());
        if window.workers.is_none() {
            lines.add(
                "main_read",
                main.read_chars_s,
                "bytes/s",
                Some(&limit::INLINE_READ),
                "the trainer reads through read calls".to_owned(),
            );
        }
    }
    if let Some(gpu) = &window.gpu {
        lines.share("gpu_busy", Some(gpu.busy), Some(&limit::DEVICE_BUSY), "device busy");
        if gpu.others {
            lines.share(
                "gpu_others",
                Some(gpu.busy - gpu.job_busy),
                Some(&limit::SHARED_GPU),
                "device busy for other processes",
            );
        }
        lines.share("gpu_power", gpu.power, Some(&limit::LOW_POWER), "power draw, of the limit");
        lines.share(
            "gpu_memory_busy",
            gpu.dram_active.or(gpu.memory_busy),
            Some(&limit::MEMORY_BUSY),
            "device memory busy",
        );
        lines.share("sm_active", gpu.sm_active, Some(&limit::SM_ACTIVE), "multiprocessors active");
        if gpu.throttled > 0.0 {
            lines.share(
                "gpu_throttled",
                Some(gpu.throttled),
                Some(&limit::GPU_THROTTLED),
                "device throttled, of the samples",
            );
        }
        if gpu.pcie.is_some_and(|pcie| pcie > 0.2) {
            lines.share("pcie", gpu.pcie, Some(&limit::PCIE_BUSY), "PCIe link used");
        }
    }
    if let Some(workers) = &window.workers {
        lines.add("workers", Some(workers.count as f64), "count", None, "data workers".to_owned());
        lines.share("workers_busy", Some(workers.busy), Some(&limit::BUSY), "workers on a CPU");
        lines.share("workers_io_wait", Some(workers.io_wait), None, "workers wait for their source");
        lines.share("workers_runnable", Some(workers.runnable), None, "workers queue for a CPU");
        lines.share("workers_idle", Some(workers.idle), Some(&limit::WORKERS_IDLE), "workers have nothing to do");
        if let Some(stages) = workers.stages {
            let parts = [
                ("workers_load", stages.load, "workers read"),
                ("workers_decode", stages.decode, "workers decode"),
                ("workers_transform", stages.transform, "workers transform"),
                ("workers_collate", stages.collate, "workers collate"),
                ("workers_hand_over", stages.hand_over, "their threads send batches"),
            ];
            for (signal, share, words) in parts {
                if share >= 0.01 {
                    lines.share(signal, Some(share), None, words);
                }
            }
        }
        if let Some(period) = stalls::period(&window.stalls) {
            lines.add(
                "stall_every",
                Some(f64::from(period.every)),
                "steps",
                None,
                format!(
                    "a stall of {:.0} ms each time: {} workers take turns",
                    period.stall_s * 1000.0,
                    workers.count
                ),
            );
        }
    }
    let cpu = &window.cpu;
    lines.share("cpu_full", cpu.full, Some(&limit::CORES_FULL), "allowed CPUs in use");
    lines.add(
        "cpu_job",
        cpu.job,
        "cores",
        None,
        format!("used by the job, of {:.1} that it may use", cpu.cores.unwrap_or(0.0)),
    );
    if cpu.others.is_some_and(|others| others > 0.2) {
        lines.add("cpu_others", cpu.others, "cores", None, "used by other processes, of the same CPUs".to_owned());
    }
    if cpu.throttled.is_some_and(|share| share > 0.0) {
        lines.share("cgroup_throttled", cpu.throttled, Some(&limit::THROTTLED), "CFS periods throttled");
    }
    let io = &window.io;
    if judgement.class == Class::Io || io.disk_busy_pct.is_some_and(|pct| pct > 30.0) {
        let known = if io.devices_known { "the data's disk" } else { "the busiest disk" };
        lines.add("disk_busy", io.disk_busy_pct, "percent", Some(&limit::DISK_BUSY), format!("{known} is busy"));
        lines.add("disk_read", io.disk_read_s, "bytes/s", None, format!("read from {known}"));
        lines.add(
            "disk_read_size",
            io.read_size,
            "bytes",
            Some(&limit::SMALL_READ),
            "mean size of a read".to_owned(),
        );
        lines.add("disk_await", io.await_ms, "ms", None, "mean time of an I/O".to_owned());
    }
    if let Some(most) = io.limit_bytes_s {
        lines.add("io_limit", Some(most), "bytes/s", None, "read limit of the cgroup".to_owned());
    }
    if io.psi_memory.is_some_and(|pct| pct > 1.0) {
        lines.add(
            "psi_memory",
            io.psi_memory,
            "percent",
            Some(&limit::MEMORY_PRESSURE),
            "some task waits for memory (PSI)".to_owned(),
        );
    }
    lines.0
}

fn advice(judgement: &Judgement, window: &Window, bound: Option<f64>) -> Vec<Advice> {
    let Some(cause) = judgement.cause.and_then(|cause| causes::find(judgement.class, cause)) else {
        return visibility_advice(judgement);
    };
    let mut advice: Vec<Advice> = cause
        .advice
        .iter()
        .map(|(title, why)| Advice {
            title: (*title).into(),
            why: (*why).into(),
            speedup_at_most: bound.filter(|bound| *bound > 1.0),
            predicted_step_ms: None,
        })
        .collect();
    if let Some(first) = advice.first_mut() {
        sharpen(first, cause.name, window);
    }
    advice
}

/// Gives the first advice the numbers of this run: how many workers, and what that brings.
fn sharpen(first: &mut Advice, cause: &str, window: &Window) {
    let most = first.speedup_at_most.unwrap_or(f64::INFINITY);
    match cause {
        "too-few-workers" => {
            let Some(workers) = &window.workers else { return };
            let more = |fed: Loop| Some(fed.enough_workers()).filter(|found| found.workers > workers.count);
            let fed = Loop::of(window);
            let now = fed.and_then(more);
            // Where others hold the CPUs, what their leaving would allow is the bound, and no step is predicted.
            let found = now.or_else(|| more(fed?.undisturbed(window)));
            let Some(Prediction { workers: needed, capped, step_s, speedup }) = found else {
                first.title = format!("Raise num_workers from {} to {}", workers.count, workers.count + 1);
                return;
            };
            first.title = format!("Raise num_workers from {} to {needed}", workers.count);
            first.speedup_at_most = Some(round(speedup.min(most), 2)).filter(|speedup| *speedup > 1.0);
            first.predicted_step_ms = now.map(|_| round(step_s * 1000.0, 1));
            if now.is_none() {
                first.why = "each worker is busy, and more can run as far as other processes leave them CPUs".into();
            }
            if capped {
                first.why =
                    format!("{}; beyond {needed} the CPUs are full and transforms must get cheaper", first.why);
            }
        }
        "in-process-loading" => {
            let Some(seen) = window.main.as_ref().and_then(|main| main.activities.as_ref()) else { return };
            let (workers, _) = what_if::workers_for_inline(seen, 1.0, window.cpu.cores.unwrap_or(1.0), 0.0);
            first.title = format!("Set num_workers to {workers} in the DataLoader");
        }
        "decode" | "transform" | "collate" => {
            let (Some(fed), Some(stages)) = (Loop::of(window), window.workers.as_ref().and_then(|all| all.stages))
            else {
                return;
            };
            let of = match cause {
                "decode" => stages.decode,
                "transform" => stages.transform,
                _ => stages.collate,
            };
            let active = stages.load + stages.decode + stages.transform + stages.collate;
            let bound = if active > 0.0 { fed.without_stage(of / active) } else { 1.0 };
            first.speedup_at_most = Some(round(bound.min(most), 2)).filter(|bound| *bound > 1.0);
        }
        _ => {}
    }
}

fn visibility_advice(judgement: &Judgement) -> Vec<Advice> {
    match judgement.phase {
        Phase::Stopped => vec![Advice {
            title: "Let the process go on: kill -CONT PID".into(),
            why: "it is stopped by a signal or a debugger".into(),
            ..Advice::default()
        }],
        _ => Vec::new(),
    }
}

fn visibility(sample: &Sample, pid: u32) -> (BTreeMap<String, String>, Vec<NotSeen>) {
    let mut seen = BTreeMap::new();
    let mut not_seen = Vec::new();
    let source = |name: &str, status: &SourceStatus, seen: &mut BTreeMap<_, _>, not_seen: &mut Vec<NotSeen>| {
        seen.insert(name.to_owned(), status.state.seen().to_owned());
        if !matches!(status.state, SourceState::Fresh | SourceState::Pending) {
            not_seen.push(NotSeen {
                what: name.into(),
                why: status.reason.as_deref().unwrap_or("no value for some seconds").into(),
                mend: status.mend.as_deref().map(Into::into),
            });
        }
    };
    source("nvml", &sample.sources.gpu, &mut seen, &mut not_seen);
    if sample.gpus.as_ref().is_some_and(|gpus| gpus.simulated) {
        seen.insert("nvml".into(), "simulated".into());
    }
    // The driver may answer while a device does not.
    if let Some(gpus) = &sample.gpus {
        for device in gpus.devices.iter().filter(|device| device.lost) {
            not_seen.push(NotSeen {
                what: format!("gpu{}", device.index),
                why: "the driver has lost the device: it does not answer any more".into(),
                mend: Some("sudo nvidia-smi --gpu-reset, or reboot".into()),
            });
        }
        if !gpus.devices.is_empty() && gpus.devices.iter().all(|device| device.lost) {
            seen.insert("nvml".into(), SourceState::Gone.seen().into());
        }
    }
    source("disks", &sample.sources.storage, &mut seen, &mut not_seen);
    let Some(job) = &sample.job else { return (seen, not_seen) };
    let mut file = |name: &str, access: Access, what: &str, mend: Option<String>| {
        seen.insert(name.to_owned(), access.seen().to_owned());
        if matches!(access, Access::Denied | Access::Absent) {
            not_seen.push(NotSeen {
                what: name.into(),
                why: format!("/proc/{pid}/{name} may not be read, so {what}"),
                mend,
            });
        }
    };
    let sudo = Some(format!("sudo trainmon --pid {pid}"));
    file("syscall", job.access.syscall, "a wait for a batch looks like any other poll", sudo.clone());
    file("wchan", job.access.wchan, "what a blocked thread waits for is not known", sudo.clone());
    file("io", job.access.io, "steps, reads and writes are not counted", sudo.clone());
    file("fd", job.access.fd, "the disks of the data files are not known", sudo);
    seen.insert("cgroup".into(), job.cgroup.version.as_deref().unwrap_or("absent").into());
    source("stacks", &sample.sources.stacks, &mut seen, &mut not_seen);
    (seen, not_seen)
}
