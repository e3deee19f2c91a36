//! The tables of sysstat: `pidstat` on one process and `sar` on the host. Their rates become counters again, which is what samples
//! hold.

use std::collections::HashMap;
use std::io::BufRead;

use super::sysstat_rows::{Row, rows};
use super::{ImportContext, ImportError, Imported, ProcessReading, TICKS_PER_S, ToolReading, usual_interval_ms};
use trainmon_sample::{BlockDevice, CpuTimes, IoCounters, NetInterface};

const PIDSTAT: &str = "LC_ALL=C pidstat -u -d -r -h -p PID 1";
const SAR: &str = "LC_ALL=C sar -u -d -n DEV -r 1";
/// Most processes, disks and interfaces of a table.
const NAMES_MAX: usize = 256;
const KIB: f64 = 1024.0;

/// Seconds of each interval: since the last moment, or as usual for the first.
fn lengths(times: &[i64], usual_ms: u64) -> impl Fn(usize) -> f64 {
    let before = times.first().map(|first| first.saturating_sub(i64::try_from(usual_ms).unwrap_or(i64::MAX)));
    let times: Vec<i64> = before.into_iter().chain(times.iter().copied()).collect();
    move |at| match times.get(at..at + 2) {
        Some(&[before, now]) => now.saturating_sub(before).max(0) as f64 / 1000.0,
        _ => 0.0,
    }
}

/// What pidstat said of a process in an interval.
#[derive(Debug, Clone, Default)]
struct PidstatRow {
    user_pct: f64,
    system_pct: f64,
    faults: (f64, f64),
    rss_bytes: u64,
    /// KiB/s read and written.
    io: Option<(f64, f64)>,
}

/// Reads pidstat's tables: of the process that used the most CPU time, if there are several.
pub(super) fn pidstat(from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let mut processes: HashMap<u32, (String, Vec<(i64, PidstatRow)>)> = HashMap::new();
    let undated = rows(from, context, PIDSTAT, |row| {
        if row.has("TGID") {
            return Err(ImportError::Bad(format!("it is of threads: record with `{PIDSTAT}`, without -t")));
        }
        let Some(pid) = row.text("PID").and_then(|pid| pid.parse().ok()) else { return Ok(()) };
        if processes.len() >= NAMES_MAX && !processes.contains_key(&pid) {
            return Ok(());
        }
        let (name, moments) = processes.entry(pid).or_default();
        if name.is_empty() {
            *name = row.text("Command").unwrap_or_default().to_owned();
        }
        if moments.last().is_none_or(|(at, _)| *at != row.unix_ms) {
            moments.push((row.unix_ms, PidstatRow::default()));
        }
        let Some((_, known)) = moments.last_mut() else { return Ok(()) };
        if let Some(pct) = row.number("%usr").or_else(|| row.number("%user")) {
            (known.user_pct, known.system_pct) = (pct, row.number("%system").unwrap_or_default());
        }
        if let Some(minor) = row.number("minflt/s") {
            known.faults = (minor, row.number("majflt/s").unwrap_or_default());
        }
        if let Some(rss) = row.number("RSS") {
            known.rss_bytes = (rss * KIB) as u64;
        }
        if let Some(io) = row.number("kB_rd/s").zip(row.number("kB_wr/s")) {
            known.io = Some(io);
        }
        Ok(())
    })?;
    let several = processes.len();
    let used =
        |moments: &[(i64, PidstatRow)]| moments.iter().map(|(_, row)| row.user_pct + row.system_pct).sum::<f64>();
    let busiest = processes.into_iter().max_by(|a, b| used(&a.1.1).total_cmp(&used(&b.1.1)).then(b.0.cmp(&a.0)));
    let Some((pid, (command, moments))) = busiest else {
        return Err(ImportError::Nothing { what: "process", with: PIDSTAT });
    };
    let times: Vec<i64> = moments.iter().map(|(at, _)| *at).collect();
    let interval_ms = usual_interval_ms(times.iter().copied()).unwrap_or(1000);
    let seconds = lengths(&times, interval_ms);
    let readings = counted(ProcessReading { pid, command, ..ProcessReading::default() }, moments, seconds);
    let others =
        (several > 1).then(|| format!("of its {several} processes, only the busiest is imported: PID {pid}"));
    let notes = undated.into_iter().chain(others).collect();
    Ok(Imported { readings, interval_ms, timeless: false, pid: Some(pid), account: None, notes })
}

/// Rates of the intervals as sums.
fn counted(
    mut sum: ProcessReading,
    moments: Vec<(i64, PidstatRow)>,
    seconds: impl Fn(usize) -> f64,
) -> Vec<ToolReading> {
    let ticks = |pct: f64, seconds: f64| (pct / 100.0 * seconds * f64::from(TICKS_PER_S)) as u64;
    let mut readings = Vec::with_capacity(moments.len());
    for (at, (unix_ms, row)) in moments.into_iter().enumerate() {
        let seconds = seconds(at);
        sum.ticks.0 += ticks(row.user_pct, seconds);
        sum.ticks.1 += ticks(row.system_pct, seconds);
        sum.faults.0 += (row.faults.0 * seconds) as u64;
        sum.faults.1 += (row.faults.1 * seconds) as u64;
        sum.rss_bytes = row.rss_bytes;
        if let Some((read, written)) = row.io {
            let io = sum.io.get_or_insert_default();
            io.read_bytes += (read * KIB * seconds) as u64;
            io.write_bytes += (written * KIB * seconds) as u64;
            // What came from storage was read at least.
            *io = IoCounters { read_chars: io.read_bytes, write_chars: io.write_bytes, ..*io };
        }
        readings.push(ToolReading { unix_ms, process: Some(sum.clone()), ..ToolReading::default() });
    }
    readings
}

/// What sar said of the host in an interval.
#[derive(Debug, Clone, Default)]
struct SarMoment {
    unix_ms: i64,
    /// CPU number and shares of user, nice, system, iowait, steal and idle, percent; −1 for all of them.
    cpus: Vec<(i32, [f64; 6])>,
    /// KiB in total and available.
    memory: Option<(f64, f64)>,
    /// Name; I/Os a second, KiB/s read and written, queue, milliseconds each, use in percent.
    disks: Vec<(String, [f64; 6])>,
    /// Name; KiB/s received and sent.
    nets: Vec<(String, [f64; 2])>,
}

impl SarMoment {
    fn take(&mut self, row: &Row<'_>) {
        let all = |names: [&str; 6]| names.map(|name| row.number(name).unwrap_or_default());
        if row.has("%idle")
            && self.cpus.len() < NAMES_MAX
            && let Some(cpu) = row.text("CPU")
        {
            let user = if row.has("%user") { "%user" } else { "%usr" };
            let system = if row.has("%system") { "%system" } else { "%sys" };
            let number = cpu.parse().unwrap_or(-1);
            self.cpus.push((number, all([user, "%nice", system, "%iowait", "%steal", "%idle"])));
        } else if let Some(free) = row.number("kbmemfree") {
            let used = row.number("kbmemused").unwrap_or_default();
            let cached = row.number("kbbuffers").unwrap_or_default() + row.number("kbcached").unwrap_or_default();
            // What older kernels and sysstat do not know is mostly this.
            let available = row.number("kbavail").unwrap_or(free + cached);
            // What is used excludes buffers and the page cache since sysstat 12; %memused tells which.
            let share = row.number("%memused").filter(|pct| *pct > 0.0);
            let total = share.map_or(free + used + cached, |pct| used * 100.0 / pct);
            self.memory = Some((total.max(available), available));
        } else if row.has("tps")
            && self.disks.len() < NAMES_MAX
            && let Some(disk) = row.text("DEV")
        {
            // Before sysstat 11.7: sectors of 512 bytes, and another name of the queue.
            let either = |name: &str, older: &str, unit: f64| {
                row.number(name).or_else(|| row.number(older).map(|value| value * unit)).unwrap_or_default()
            };
            let [tps, await_ms, use_pct] = ["tps", "await", "%util"].map(|name| row.number(name).unwrap_or_default());
            let (read, written) = (either("rkB/s", "rd_sec/s", 0.5), either("wkB/s", "wr_sec/s", 0.5));
            let values = [tps, read, written, either("aqu-sz", "avgqu-sz", 1.0), await_ms, use_pct];
            self.disks.push((disk.to_owned(), values));
        } else if row.has("rxkB/s")
            && self.nets.len() < NAMES_MAX
            && let Some(net) = row.text("IFACE")
        {
            let kib = ["rxkB/s", "txkB/s"].map(|name| row.number(name).unwrap_or_default());
            if net != "lo" {
                self.nets.push((net.to_owned(), kib));
            }
        }
    }
}

/// Reads sar's tables.
pub(super) fn sar(from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let mut moments: Vec<SarMoment> = Vec::new();
    let undated = rows(from, context, SAR, |row| {
        if moments.last().is_none_or(|last| last.unix_ms != row.unix_ms) {
            moments.push(SarMoment { unix_ms: row.unix_ms, ..SarMoment::default() });
        }
        moments.iter_mut().last().into_iter().for_each(|last| last.take(row));
        Ok(())
    })?;
    if moments.is_empty() {
        return Err(ImportError::Nothing { what: "row", with: SAR });
    }
    let times: Vec<i64> = moments.iter().map(|moment| moment.unix_ms).collect();
    let interval_ms = usual_interval_ms(times.iter().copied()).unwrap_or(1000);
    let seconds = lengths(&times, interval_ms);
    let mut cpus: HashMap<u16, CpuTimes> = HashMap::new();
    let mut disks: HashMap<String, BlockDevice> = HashMap::new();
    let mut nets: HashMap<String, NetInterface> = HashMap::new();
    let mut readings = Vec::with_capacity(moments.len());
    for (at, moment) in moments.into_iter().enumerate() {
        let seconds = seconds(at);
        let each = moment.cpus.iter().any(|(cpu, _)| *cpu >= 0);
        for (cpu, shares) in moment.cpus.iter().filter(|(cpu, _)| !each || *cpu >= 0) {
            let cpu = u16::try_from(*cpu).unwrap_or_default();
            let times = cpus.entry(cpu).or_insert(CpuTimes { cpu, ..CpuTimes::default() });
            add_cpu(times, shares.map(|pct| (pct / 100.0 * seconds * f64::from(TICKS_PER_S)) as u64));
        }
        for (name, values) in &moment.disks {
            let disk = disks.entry(name.clone()).or_insert_with(|| disk(name));
            add_disk(disk, values, seconds);
        }
        for (name, kib) in &moment.nets {
            let new = || NetInterface { name: name.as_str().into(), ..NetInterface::default() };
            let net = nets.entry(name.clone()).or_insert_with(new);
            let [received, sent] = kib.map(|kib| (kib * KIB * seconds) as u64);
            net.rx_bytes = net.rx_bytes.saturating_add(received);
            net.tx_bytes = net.tx_bytes.saturating_add(sent);
        }
        let mut reading = ToolReading {
            unix_ms: moment.unix_ms,
            cpus: cpus.values().copied().collect(),
            nets: nets.values().cloned().collect(),
            memory: moment.memory.map(|(total, available)| ((total * KIB) as u64, (available * KIB) as u64)),
            disks: disks.values().cloned().collect(),
            ..ToolReading::default()
        };
        reading.cpus.sort_unstable_by_key(|cpu| cpu.cpu);
        reading.nets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        reading.disks.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        readings.push(reading);
    }
    Ok(Imported { readings, interval_ms, notes: undated.into_iter().collect(), ..Imported::default() })
}

fn add_cpu(times: &mut CpuTimes, [user, nice, system, iowait, steal, idle]: [u64; 6]) {
    let sums = [
        (&mut times.user, user),
        (&mut times.nice, nice),
        (&mut times.system, system),
        (&mut times.iowait, iowait),
        (&mut times.steal, steal),
        (&mut times.idle, idle),
    ];
    sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
}

fn disk(name: &str) -> BlockDevice {
    BlockDevice { name: name.into(), whole: name.into(), ..BlockDevice::default() }
}

/// sar does not tell reads from writes: its I/Os are divided in proportion to their bytes.
fn add_disk(disk: &mut BlockDevice, [tps, read_kib, written_kib, queue, await_ms, use_pct]: &[f64; 6], seconds: f64) {
    let bytes = read_kib + written_kib;
    let of_reads = if bytes > 0.0 { read_kib / bytes } else { 0.0 };
    let mut add = |sum: fn(&mut BlockDevice) -> &mut u64, rate: f64| {
        let sum = sum(disk);
        *sum = sum.saturating_add((rate * seconds) as u64);
    };
    add(|disk| &mut disk.reads, tps * of_reads);
    add(|disk| &mut disk.writes, tps * (1.0 - of_reads));
    add(|disk| &mut disk.read_sectors, read_kib * 2.0);
    add(|disk| &mut disk.written_sectors, written_kib * 2.0);
    add(|disk| &mut disk.read_ms, tps * of_reads * await_ms);
    add(|disk| &mut disk.write_ms, tps * (1.0 - of_reads) * await_ms);
    add(|disk| &mut disk.busy_ms, use_pct * 10.0);
    add(|disk| &mut disk.weighted_ms, queue * 1000.0);
}

#[cfg(test)]
#[path = "sysstat_tests.rs"]
mod tests;
