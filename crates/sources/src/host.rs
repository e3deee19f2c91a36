//! The host's own counters: CPUs, load, memory, swap, pressure and network, each from a kept descriptor.
//!
//! Files that this kernel lacks leave their fields `None`; CPUs may come and go between two reads.
//!
//! All of them are read on every tick. The procfs crate (0.18) allocates for each line of a file with one line per CPU,
//! interface or event; it panics on a pressure line that ends after `some`, and requires meminfo fields that sandboxes
//! lack. sysinfo does not refresh CPUs within 200 ms.

mod cpu_model;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procfs::{FromRead, LoadAverage};

use trainmon_sample::{CpuTimes, HostSample, NetInterface, Pressure};

use super::Roots;
use super::fields::{Fields, lines, number, text};
use super::files::{KeptPath, ReadFailure, read_once};

/// First read size for `/proc/stat`; later reads end a little beyond its CPU lines.
const FIRST_STAT_BYTES: usize = 16 << 10;
/// And never more than this: 8192 CPUs (the kernel's highest NR_CPUS) at about 120 bytes each.
const MOST_STAT_BYTES: usize = 1 << 20;
/// The begin of `/proc/cpuinfo`: more than the lines of one CPU, up to its list of features.
const CPUINFO_BYTES: usize = 2 << 10;
/// Longest name of a machine (HOST_NAME_MAX is 64) or of a model kept, bytes.
const LONGEST_NAME: usize = 128;
/// Interface names remembered; container hosts keep creating and deleting veth pairs.
const MOST_NET_NAMES: usize = 1024;

/// Reads [`HostSample`]s.
#[derive(Debug)]
pub struct HostReader {
    stat: KeptPath,
    stat_bytes: usize,
    meminfo: KeptPath,
    vmstat: KeptPath,
    loadavg: KeptPath,
    /// CPU, I/O, memory.
    pressure: [KeptPath; 3],
    net_dev: KeptPath,
    net_names: NetNames,
    names: Option<HostNames>,
    proc_root: PathBuf,
    buffer: Vec<u8>,
}

/// What does not change while the machine runs: read once.
#[derive(Debug, Clone)]
struct HostNames {
    name: Option<Arc<str>>,
    cpu_model: Option<Arc<str>>,
}

impl HostNames {
    fn read(proc_root: &Path) -> Self {
        let file = |name: &str, most| read_once(proc_root.join(name), most).unwrap_or_default();
        let known = |bytes: &[u8]| {
            let short = bytes.get(..LONGEST_NAME).unwrap_or(bytes).trim_ascii();
            (!short.is_empty()).then(|| text(short))
        };
        let cpuinfo = file("cpuinfo", CPUINFO_BYTES);
        let cpu_model = cpu_model::of_first(&cpuinfo).and_then(|model| known(&model));
        Self { name: known(&file("sys/kernel/hostname", LONGEST_NAME)), cpu_model }
    }
}

impl HostReader {
    /// Opens nothing yet.
    pub fn new(roots: &Roots) -> Self {
        let at = |name: &str| KeptPath::new(roots.proc.join(name));
        Self {
            stat: at("stat"),
            stat_bytes: FIRST_STAT_BYTES,
            meminfo: at("meminfo"),
            vmstat: at("vmstat"),
            loadavg: at("loadavg"),
            pressure: ["pressure/cpu", "pressure/io", "pressure/memory"].map(at),
            net_dev: at("net/dev"),
            net_names: NetNames { folder: roots.sys.join("class/net"), known: Vec::new() },
            names: None,
            proc_root: roots.proc.clone(),
            buffer: Vec::new(),
        }
    }

    /// Reads everything once. `now_ns` is CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// Only if neither `stat` nor `meminfo` can be read: there is no procfs here.
    pub fn read(&mut self, now_ns: u64) -> io::Result<HostSample> {
        let page_bytes = u32::try_from(rustix::param::page_size()).ok();
        let mut sample = HostSample { monotonic_ns: now_ns, page_bytes, ..HostSample::default() };
        let stat = self.read_cpus(&mut sample.cpus);
        let meminfo = self.meminfo.read(&mut self.buffer).map(|text| meminfo(text, &mut sample));
        if let (Err(failure), Err(_)) = (stat, meminfo) {
            return Err(failure.into());
        }
        if let Ok(text) = self.vmstat.read(&mut self.buffer) {
            vmstat(text, &mut sample);
        }
        sample.load = self.loadavg.read(&mut self.buffer).ok().and_then(loadavg);
        [sample.cpu_pressure, sample.io_pressure, sample.memory_pressure] =
            self.pressure.each_mut().map(|file| file.read(&mut self.buffer).ok().and_then(pressure));
        if let Ok(text) = self.net_dev.read(&mut self.buffer) {
            sample.net = self.net_names.count_once(text);
        }
        let names = self.names.get_or_insert_with(|| HostNames::read(&self.proc_root));
        (sample.name, sample.cpu_model) = (names.name.clone(), names.cpu_model.clone());
        Ok(sample)
    }

    /// Reads the CPU lines, which come first. The `intr` line after them can be longer than all others together, so the
    /// read stops a little beyond the last known CPU line.
    fn read_cpus(&mut self, cpus: &mut Vec<CpuTimes>) -> Result<(), ReadFailure> {
        loop {
            cpus.clear();
            let text = self.stat.read_up_to(&mut self.buffer, self.stat_bytes)?;
            let end = cpu_lines(text, cpus);
            // The CPU lines are cut: more CPUs have come online.
            if end == text.len()
                && !text.is_empty()
                && self.stat_bytes < MOST_STAT_BYTES
                && end + 256 > self.stat_bytes
            {
                self.stat_bytes = (self.stat_bytes * 2).min(MOST_STAT_BYTES);
                continue;
            }
            cpus.shrink_to_fit();
            // Leave room for growing counters, and for one more line, which shows that none is missing.
            self.stat_bytes = (end + end / 8 + 1024).min(MOST_STAT_BYTES);
            return Ok(());
        }
    }
}

/// Reads the `cpuN` lines at the start of `/proc/stat` (proc(5)). Returns how many bytes they and the total line take.
/// Columns that an old kernel lacks are 0.
fn cpu_lines(text: &[u8], cpus: &mut Vec<CpuTimes>) -> usize {
    let mut end = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Some(rest) = line.strip_prefix(b"cpu") else { break };
        end += line.len();
        let mut fields = Fields::new(rest.strip_suffix(b"\n").unwrap_or(rest));
        // The total line has a blank in place of the CPU number.
        if rest.starts_with(b" ") {
            continue;
        }
        let Some(cpu) = fields.number() else { continue };
        let mut next = || fields.number();
        let (Some(user), Some(nice), Some(system), Some(idle)) = (next(), next(), next(), next()) else { continue };
        let mut later = || next().unwrap_or(0);
        cpus.push(CpuTimes {
            cpu,
            user,
            nice,
            system,
            idle,
            iowait: later(),
            irq: later(),
            softirq: later(),
            steal: later(),
        });
    }
    end
}

/// Stores the numbers of lines `KEY NUMBER` in `places`, up to and including the line `last`.
fn keyed(text: &[u8], last: &[u8], places: &mut [(&[u8], &mut Option<u64>)]) {
    for line in lines(text) {
        let mut fields = Fields::new(line);
        let key = fields.next().unwrap_or_default();
        if let Some((_, place)) = places.iter_mut().find(|(wanted, _)| *wanted == key) {
            **place = fields.number();
        }
        if key == last {
            break;
        }
    }
}

/// The unit is KiB despite its name (proc(5)). Most lines come after the last one needed.
fn meminfo(text: &[u8], sample: &mut HostSample) {
    let mut places =
        [(&b"MemTotal:"[..], &mut sample.memory_total_bytes), (b"MemAvailable:", &mut sample.memory_available_bytes)];
    keyed(text, b"MemAvailable:", &mut places);
    for (_, place) in places {
        *place = place.and_then(|kib| kib.checked_mul(1024));
    }
}

/// Before Linux 5.9 there was a single `workingset_refault`, for file pages only.
fn vmstat(text: &[u8], sample: &mut HostSample) {
    let mut older = None;
    keyed(
        text,
        b"",
        &mut [
            (b"pswpin", &mut sample.swapped_in_pages),
            (b"workingset_refault_file", &mut sample.refaulted_file_pages),
            (b"workingset_refault", &mut older),
        ],
    );
    sample.refaulted_file_pages = sample.refaulted_file_pages.or(older);
}

fn loadavg(text: &[u8]) -> Option<[f32; 3]> {
    let load = LoadAverage::from_read(text).ok()?;
    Some([load.one, load.five, load.fifteen]).filter(|load| load.iter().all(|mean| mean.is_finite()))
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, then the same for `full`.
pub(super) fn pressure(text: &[u8]) -> Option<Pressure> {
    let some = lines(text).find_map(|line| line.strip_prefix(b"some "))?;
    let some_us = Fields::new(some).find_map(|field| number(field.strip_prefix(b"total=")?))?;
    Some(Pressure { some_us })
}

/// Decides which interfaces to count, so that no byte is counted twice.
///
/// A container's packet passes its veth, a bridge and the network card; a bond's packet passes the bond and a member.
/// So only interfaces with hardware behind them (`/sys/class/net/NAME/device`: PCI, virtio, USB) are counted. Inside a
/// container no interface has any, so all count except those whose name says that they sit on top of another one. RDMA
/// traffic appears in none of these counters.
#[derive(Debug)]
struct NetNames {
    folder: PathBuf,
    /// Names, and whether hardware is behind them.
    known: Vec<(Arc<str>, bool)>,
}

/// Names that the kernel, docker, libvirt, CNI plug-ins and VPNs give to interfaces that carry other interfaces'
/// packets.
const ON_TOP: [&str; 17] = [
    "veth", "docker", "br-", "virbr", "vnet", "tap", "tun", "wg", "cni", "flannel", "cali", "cilium", "lxc", "ifb",
    "dummy", "bond", "kube-",
];

impl NetNames {
    /// Parses `/proc/net/dev`: two heading lines, then `NAME: 8 receive columns, 8 transmit columns`.
    fn count_once(&mut self, text_of_file: &[u8]) -> Vec<NetInterface> {
        let mut found = Vec::new();
        let mut any_device = false;
        for line in lines(text_of_file).skip(2) {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, counters) = line.split_at(colon);
            let name = name.trim_ascii();
            if name.is_empty() || name == b"lo" || ON_TOP.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
                continue;
            }
            let mut fields = Fields::new(counters.get(1..).unwrap_or_default());
            let (Some(rx_bytes), Some(tx_bytes)) = (fields.number(), fields.nth(7).and_then(number)) else {
                continue;
            };
            let (name, device) = self.look_up(name);
            any_device |= device;
            found.push((NetInterface { name, rx_bytes, tx_bytes }, device));
        }
        found.into_iter().filter(|(_, device)| *device || !any_device).map(|(interface, _)| interface).collect()
    }

    fn look_up(&mut self, name: &[u8]) -> (Arc<str>, bool) {
        if let Some(known) = self.known.iter().find(|(known, _)| known.as_bytes() == name) {
            return known.clone();
        }
        if self.known.len() >= MOST_NET_NAMES {
            self.known.clear();
        }
        let name = text(name);
        let plain = !name.contains('/') && &*name != "..";
        let device = plain && self.folder.join(&*name).join("device").symlink_metadata().is_ok();
        self.known.push((Arc::clone(&name), device));
        (name, device)
    }
}

#[cfg(test)]
mod tests;
