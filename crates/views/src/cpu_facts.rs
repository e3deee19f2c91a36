//! Facts about the CPUs as a whole: use, queues, quota, pressure, load.

use crate::labels::number;
use trainmon_base::text::{fit, format, sanitize};
use trainmon_waits::Frame;

/// The facts, each with whether it limits the job; those come first.
pub fn facts(frame: &Frame) -> Vec<(String, bool)> {
    let (job, host) = (&frame.job, &frame.host);
    let cores = |pct: Option<f64>| format::number(pct.map(|pct| pct / 100.0));
    let mut pieces = Vec::new();
    let throttled = job.throttled_share.filter(|share| *share >= 0.005);
    pieces.extend(throttled.map(|share| {
        let quota = format::number(job.cpu_quota_cores);
        (format!("THROTTLED in {} of periods: quota {quota} CPUs", format::share(Some(share))), true)
    }));
    let steal = format::percent(host.steal_pct);
    let stolen = host.steal_pct.is_some_and(|steal| steal >= 1.0);
    pieces.extend(stolen.then(|| (format!("the hypervisor takes {steal}"), true)));
    let mut fact = |text: String| pieces.push((text, false));
    let (allowed, seen) = (number(job.cpus_allowed), number(Some(host.cpus.len()).filter(|seen| *seen > 0)));
    let used = format::percent(host.allowed_cpu_pct);
    fact(format!("the job may use {allowed} of {seen} CPUs, which are {used} busy"));
    fact(format!("this job uses {}, other processes {}", cores(job.cpu_pct), cores(host.others_cpu_pct)));
    if throttled.is_none() {
        fact(match job.cpu_quota_cores {
            Some(quota) => format!("quota of {} CPUs, not reached", format::number(Some(quota))),
            None => "no quota".to_owned(),
        });
    }
    let main = frame.ranks.iter().filter_map(|rank| rank.run_delay_share).reduce(f64::max);
    let name = if frame.ranks.len() > 1 { "training loops up to" } else { "the training loop" };
    fact(format!(
        "waits for a free CPU: {} of the job's time, {name} {}",
        format::share(job.run_delay_share),
        format::share(main)
    ));
    let pressure =
        [("CPU", host.psi_cpu_some_pct), ("I/O", host.psi_io_some_pct), ("memory", host.psi_memory_some_pct)];
    let pressure = pressure.map(|(what, pct)| format!("{what} {}", format::percent(pct)));
    fact(format!("time in which any task waited: {}", pressure.join(", ")));
    let load = host.load.map(|load| load.map(|v| format::number(Some(f64::from(v)))).join(" "));
    fact(format!("load {}", number(load)));
    pieces
}

/// The process outside the job that uses most of the CPUs, if that is worth a name: ` (rustc 0.9)`.
pub fn busiest_other(frame: &Frame) -> Option<String> {
    let processes = frame.other_processes.as_ref()?.processes.iter().filter(|process| !process.own);
    let busiest = processes.max_by(|a, b| a.cpu_pct.total_cmp(&b.cpu_pct))?;
    let cpus = busiest.cpu_pct / 100.0;
    let name = fit(&sanitize(&busiest.comm), COMM_CELLS);
    (cpus >= WORTH_A_NAME).then(|| format!(" ({name} {})", format::number(Some(cpus))))
}

/// A process that uses less than this of a CPU holds nothing up.
const WORTH_A_NAME: f64 = 0.2;
/// The length of a name in the kernel, comm in proc(5).
const COMM_CELLS: usize = 15;
