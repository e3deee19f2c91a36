//! The host: CPUs, pressure, memory and network over the interval between two readings.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delta::{add, by_key, delta, rate, span};
use super::pages;
use trainmon_sample::{CpuTimes, HostSample, NetInterface, Pressure, Sample};

/// Interfaces on top of others: their bytes would count twice, along with those of the cards that carry them.
const VIRTUAL: [&str; 12] =
    ["veth", "docker", "br-", "virbr", "cni", "flannel", "cali", "lxc", "vxlan", "ifb", "bond", "team"];

/// Most interfaces listed individually; the totals count all.
const MOST_NETS: usize = 32;

/// The host in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HostRates {
    /// Use of each CPU, percent, with its number.
    pub cpus: Vec<CpuRates>,
    /// Use of the CPUs that the job may run on, percent of all of them.
    pub allowed_cpu_pct: Option<f64>,
    /// CPU use of everything outside the job on the allowed CPUs, percent of one CPU.
    pub others_cpu_pct: Option<f64>,
    /// Share of the allowed CPUs' time taken by the hypervisor, percent.
    pub steal_pct: Option<f64>,
    /// Load averages.
    pub load: Option<[f32; 3]>,
    /// Memory in use (total minus available), bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory available, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Memory fitted, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Swapped in per second, in pages of 4 KiB.
    pub swap_in_per_s: Option<f64>,
    /// File pages read again soon after eviction, per second, in pages of 4 KiB.
    pub refaults_per_s: Option<f64>,
    /// PSI: percent of the interval in which some task waited for a CPU.
    pub psi_cpu_some_pct: Option<f64>,
    /// PSI: percent in which some task waited for I/O.
    pub psi_io_some_pct: Option<f64>,
    /// PSI: percent in which some task waited for memory.
    pub psi_memory_some_pct: Option<f64>,
    /// Bytes per second received on all interfaces except loopback.
    pub net_rx_bytes_per_s: Option<f64>,
    /// Bytes per second sent.
    pub net_tx_bytes_per_s: Option<f64>,
    /// Each interface counted in the two totals, in the kernel's order, at most 32.
    pub net: Vec<NetRates>,
}

/// One network interface in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRates {
    /// Name, raw.
    pub name: Arc<str>,
    /// Bytes per second received.
    pub rx_bytes_per_s: Option<f64>,
    /// Bytes per second sent.
    pub tx_bytes_per_s: Option<f64>,
}

/// One CPU in the interval, percent of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuRates {
    /// CPU number.
    pub cpu: u16,
    /// Whether the job may run on it.
    pub allowed: bool,
    /// Busy: user, nice, system and interrupts.
    pub busy_pct: f32,
    /// Idle with I/O outstanding.
    pub iowait_pct: f32,
    /// Taken by the hypervisor.
    pub steal_pct: f32,
}

pub(super) fn fold(before: Option<&Sample>, sample: &Sample, job_cpu_pct: Option<f64>) -> HostRates {
    let Some(host) = sample.host.as_deref() else { return HostRates::default() };
    let before = before.and_then(|before| before.host.as_deref());
    let seconds = span(before.map(|before| before.monotonic_ns), host.monotonic_ns);
    let mut out = HostRates {
        load: host.load.filter(|load| load.iter().all(|value| value.is_finite() && *value >= 0.0)),
        memory_available_bytes: host.memory_available_bytes,
        memory_total_bytes: host.memory_total_bytes,
        memory_used_bytes: delta(host.memory_total_bytes, host.memory_available_bytes),
        ..HostRates::default()
    };
    let (Some(before), Some(span_s)) = (before, seconds) else { return out };
    let pages_per_s = |now, before| rate(now, before, seconds).map(|pages| pages * pages::of_4_kib(sample));
    out.swap_in_per_s = pages_per_s(host.swapped_in_pages, before.swapped_in_pages);
    out.refaults_per_s = pages_per_s(host.refaulted_file_pages, before.refaulted_file_pages);
    out.psi_cpu_some_pct = pressure(before.cpu_pressure, host.cpu_pressure, span_s);
    out.psi_io_some_pct = pressure(before.io_pressure, host.io_pressure, span_s);
    out.psi_memory_some_pct = pressure(before.memory_pressure, host.memory_pressure, span_s);
    net(&mut out, before, host, seconds);
    let allowed = sample.job.as_deref().map(|job| job.allowed_cpus.as_slice()).unwrap_or_default();
    cpus(&mut out, before, host, allowed, job_cpu_pct);
    out
}

/// Clock ticks of one CPU in the interval.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    busy: f64,
    iowait: f64,
    steal: f64,
    all: f64,
}

impl Ticks {
    /// `None` if a counter went backwards. Idle and iowait alone may fall slightly (proc(5), `/proc/stat`); then they
    /// count as unchanged.
    fn between(before: &CpuTimes, now: &CpuTimes) -> Option<Self> {
        let moved =
            |field: fn(&CpuTimes) -> u64| delta(Some(field(now)), Some(field(before))).map(|ticks| ticks as f64);
        let busy = moved(|cpu| cpu.user)?
            + moved(|cpu| cpu.nice)?
            + moved(|cpu| cpu.system)?
            + moved(|cpu| cpu.irq)?
            + moved(|cpu| cpu.softirq)?;
        let idle = moved(|cpu| cpu.idle).unwrap_or(0.0);
        let iowait = moved(|cpu| cpu.iowait).unwrap_or(0.0);
        let steal = moved(|cpu| cpu.steal)?;
        Some(Self { busy, iowait, steal, all: busy + idle + iowait + steal })
    }

    fn pct(&self, part: f64) -> f64 {
        if self.all > 0.0 { (part / self.all * 100.0).clamp(0.0, 100.0) } else { 0.0 }
    }
}

fn cpus(out: &mut HostRates, before: &HostSample, host: &HostSample, allowed: &[u16], job_cpu_pct: Option<f64>) {
    let allowed: HashSet<u16> = allowed.iter().copied().collect();
    let earlier = by_key(&before.cpus, |cpu| cpu.cpu);
    let mut sum = Ticks::default();
    let mut busy_pct = 0.0;
    out.cpus.reserve_exact(host.cpus.len());
    for cpu in &host.cpus {
        let Some(ticks) = earlier.get(&cpu.cpu).and_then(|was| Ticks::between(was, cpu)) else { continue };
        let allowed = allowed.is_empty() || allowed.contains(&cpu.cpu);
        out.cpus.push(CpuRates {
            cpu: cpu.cpu,
            allowed,
            busy_pct: ticks.pct(ticks.busy) as f32,
            iowait_pct: ticks.pct(ticks.iowait) as f32,
            steal_pct: ticks.pct(ticks.steal) as f32,
        });
        if allowed {
            busy_pct += ticks.pct(ticks.busy);
            sum.busy += ticks.busy;
            sum.steal += ticks.steal;
            sum.all += ticks.all;
        }
    }
    if sum.all > 0.0 {
        out.allowed_cpu_pct = Some(sum.pct(sum.busy));
        out.steal_pct = Some(sum.pct(sum.steal));
        out.others_cpu_pct = job_cpu_pct.map(|job| (busy_pct - job).max(0.0));
    }
}

fn pressure(before: Option<Pressure>, now: Option<Pressure>, seconds: f64) -> Option<f64> {
    let us = delta(now.map(|now| now.some_us), before.map(|before| before.some_us))?;
    Some((us as f64 / 1e4 / seconds).min(100.0))
}

fn net(out: &mut HostRates, before: &HostSample, host: &HostSample, seconds: Option<f64>) {
    let is_real = |net: &NetInterface| !VIRTUAL.iter().any(|prefix| net.name.starts_with(prefix));
    let any_real = host.net.iter().any(is_real);
    for net in host.net.iter().filter(|net| !any_real || is_real(net)) {
        let Some(was) = before.net.iter().find(|was| was.name == net.name) else { continue };
        let rx_bytes_per_s = rate(Some(net.rx_bytes), Some(was.rx_bytes), seconds);
        let tx_bytes_per_s = rate(Some(net.tx_bytes), Some(was.tx_bytes), seconds);
        add(&mut out.net_rx_bytes_per_s, rx_bytes_per_s);
        add(&mut out.net_tx_bytes_per_s, tx_bytes_per_s);
        if out.net.len() < MOST_NETS {
            out.net.push(NetRates { name: Arc::clone(&net.name), rx_bytes_per_s, tx_bytes_per_s });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use trainmon_sample::JobSample;

    fn cpu(cpu: u16, user: u64, idle: u64, steal: u64) -> CpuTimes {
        CpuTimes { cpu, user, idle, steal, iowait: 10, ..CpuTimes::default() }
    }

    fn between(before: HostSample, now: HostSample, allowed: Vec<u16>, job_cpu_pct: Option<f64>) -> HostRates {
        let job = Arc::new(JobSample { allowed_cpus: allowed, ..JobSample::default() });
        let at = |ms, host| Sample {
            host: Some(Arc::new(HostSample { monotonic_ns: ms * MS, ..host })),
            job: Some(job.clone()),
            ..tick(ms / 1000, ms)
        };
        fold(Some(&at(1000, before)), &at(3000, now), job_cpu_pct)
    }

    #[test]
    fn cpus_and_the_allowed_ones() {
        let before =
            HostSample { cpus: vec![cpu(0, 0, 0, 0), cpu(1, 0, 0, 0), cpu(2, 5, 5, 5)], ..Default::default() };
        let now = HostSample {
            cpus: vec![cpu(0, 150, 50, 0), cpu(1, 50, 130, 20), cpu(2, 4, 5, 5), cpu(3, 9, 9, 9)],
            ..Default::default()
        };
        let rates = between(before.clone(), now.clone(), vec![1, 2], Some(10.0));
        assert_eq!(rates.cpus.len(), 2, "one went backwards, one is new");
        assert_eq!((rates.cpus[0].allowed, rates.cpus[0].busy_pct), (false, 75.0));
        assert_eq!((rates.cpus[1].allowed, rates.cpus[1].busy_pct, rates.cpus[1].steal_pct), (true, 25.0, 10.0));
        assert!(
            close(rates.allowed_cpu_pct, 25.0) && close(rates.steal_pct, 10.0) && close(rates.others_cpu_pct, 15.0)
        );
        let rates = between(before, now, vec![], Some(400.0));
        assert!(close(rates.allowed_cpu_pct, 50.0) && close(rates.others_cpu_pct, 0.0));
    }

    #[test]
    fn iowait_may_fall_and_a_cpu_may_stand_still() {
        let now = CpuTimes { iowait: 9, ..cpu(0, 0, 100, 0) };
        let before = HostSample { cpus: vec![cpu(0, 0, 0, 0)], ..Default::default() };
        let rates = between(before.clone(), HostSample { cpus: vec![now], ..Default::default() }, vec![], None);
        assert_eq!((rates.cpus[0].busy_pct, rates.cpus[0].iowait_pct), (0.0, 0.0));
        let rates = between(before.clone(), before, vec![], None);
        assert_eq!((rates.cpus[0].busy_pct, rates.allowed_cpu_pct), (0.0, None));
    }

    #[test]
    fn pressure_swap_memory() {
        let at = |some_us, pages| HostSample {
            io_pressure: Some(Pressure { some_us }),
            swapped_in_pages: Some(pages),
            memory_total_bytes: Some(100),
            memory_available_bytes: Some(30),
            ..Default::default()
        };
        let rates = between(at(0, 10), at(500_000, 30), vec![], None);
        assert!(close(rates.psi_io_some_pct, 25.0) && close(rates.swap_in_per_s, 10.0));
        assert_eq!((rates.psi_cpu_some_pct, rates.memory_used_bytes), (None, Some(70)));
        let rates = between(at(500_000, 30), at(0, 10), vec![], None);
        assert_eq!((rates.psi_io_some_pct, rates.swap_in_per_s), (None, None));
        let large =
            |pages| HostSample { page_bytes: Some(65_536), refaulted_file_pages: Some(pages), ..at(0, pages) };
        let rates = between(large(10), large(30), vec![], None);
        assert!(close(rates.swap_in_per_s, 160.0) && close(rates.refaults_per_s, 160.0), "pages of 64 KiB");
    }

    #[test]
    fn network_counts_a_byte_once() {
        let at = |factor: u64, names: &[&str]| HostSample {
            net: names
                .iter()
                .map(|name| NetInterface { name: (*name).into(), rx_bytes: 100 * factor, tx_bytes: 10 * factor })
                .collect(),
            ..Default::default()
        };
        let names = ["eth0", "docker0", "veth12", "br-9"];
        let rates = between(at(1, &names), at(3, &names), vec![], None);
        assert!(close(rates.net_rx_bytes_per_s, 100.0) && close(rates.net_tx_bytes_per_s, 10.0));
        let eth0 = NetRates { name: "eth0".into(), rx_bytes_per_s: Some(100.0), tx_bytes_per_s: Some(10.0) };
        assert_eq!(rates.net, [eth0]);
        let rates = between(at(1, &["bond0"]), at(3, &["bond0"]), vec![], None);
        assert!(close(rates.net_rx_bytes_per_s, 100.0));
        let back = between(at(3, &["eth0"]), at(1, &["eth0"]), vec![], None);
        assert_eq!((back.net_rx_bytes_per_s, back.net[0].rx_bytes_per_s), (None, None));
        let many: Vec<String> = (0..100).map(|at| format!("eth{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let rates = between(at(1, &many), at(3, &many), vec![], None);
        assert!(rates.net.len() == MOST_NETS && close(rates.net_rx_bytes_per_s, 10_000.0));
        assert_eq!(between(at(1, &[]), at(3, &["eth0"]), vec![], None).net_rx_bytes_per_s, None);
    }
}
