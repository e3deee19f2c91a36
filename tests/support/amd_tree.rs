//! Shows a simulated GPU as an AMD card: `amd_tree STATE FOLDER` keeps `FOLDER/sys` up to date, a `/sys` with the files of amdgpu and
//! amdkfd in front of the machine's own, until the state file is gone or the process that started it has ended.
//!
//! The card is like an MI300X: `gpu_metrics` 1.7 with sums, an activity that lags behind by about a second, and no rates of PCIe.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "for tests")]

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::getppid;
use trainmon::sources::simulated_gpu::{Meter, SimulatedGpuState, StateFile, monotonic_ns};

/// How often the files are written.
const EVERY: Duration = Duration::from_millis(20);
/// How far the firmware's own average reaches back.
const AVERAGE_NS: u64 = 1_000_000_000;
/// Compute units of an MI300X.
const COMPUTE_UNITS: u64 = 304;
/// Bytes of `struct gpu_metrics_v1_7`.
const METRICS: usize = 2208;
/// The clock event reasons of heat, of the board's alarms, and of the power limit, and where a table has their residencies.
const RESIDENCIES: [(u64, usize); 3] = [(0x40 | 0x80 | 0x8, 44), (0x4, 48), (0x20, 52)];

fn main() {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [state, folder] = &words[..] else { panic!("amd_tree STATE FOLDER") };
    let sys = folder.join("sys");
    overlay(&sys);
    let parent = getppid();
    let (mut file, mut inode, mut cards) = (StateFile::open(state).unwrap(), 0, Vec::new());
    while let Ok(place) = fs::metadata(state)
        && getppid() == parent
    {
        // A job with several GPUs makes the file anew.
        if place.ino() != inode {
            (file, inode) = (StateFile::open(state).unwrap(), place.ino());
            cards = (0..file.device_count).map(|index| Card::new(&sys, index)).collect();
        }
        for (index, card) in (0..).zip(&mut cards) {
            if let Some(record) = file.read(index).unwrap() {
                let is_alive = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
                card.show(&sys, record.without_the_dead(is_alive), monotonic_ns());
            }
        }
        fs::write(folder.join("ready"), "").unwrap();
        std::thread::sleep(EVERY);
    }
}

/// The machine's own `/sys`, but for the classes of GPUs.
fn overlay(sys: &Path) {
    let link_all = |from: &Path, into: &Path, but: &[&str]| {
        fs::create_dir_all(into).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            if !but.iter().any(|name| entry.file_name() == *name) {
                let _ = symlink(entry.path(), into.join(entry.file_name()));
            }
        }
    };
    link_all(Path::new("/sys"), sys, &["class"]);
    link_all(Path::new("/sys/class"), &sys.join("class"), &["drm", "kfd"]);
}

/// One card, and what its firmware has summed up.
struct Card {
    device: PathBuf,
    gpu_id: u32,
    meter: Meter,
    begun_ns: u64,
    /// Percent times milliseconds: of the compute units, of the memory.
    sums: [f64; 2],
    residencies: [f64; 3],
    /// When, and the sums then.
    recent: VecDeque<(u64, [f64; 2])>,
    pids: Vec<u32>,
}

impl Card {
    fn new(sys: &Path, index: u32) -> Self {
        let device = sys.join(format!("class/drm/card{index}/device"));
        let (gpu_id, bus) = (4098 + index, index + 1);
        fs::create_dir_all(device.join(format!("drm/renderD{}", 128 + index))).unwrap();
        for (name, content) in [
            ("vendor", "0x1002".to_owned()),
            ("device", "0x74a1".to_owned()),
            ("revision", "0x00".to_owned()),
            ("uevent", format!("DRIVER=amdgpu\nPCI_SLOT_NAME=0000:{bus:02x}:00.0")),
            ("product_name", "AMD Instinct MI300X".to_owned()),
            ("unique_id", format!("5ead10ad0000000{index:x}")),
            ("power/runtime_status", "active".to_owned()),
            ("current_link_speed", "32.0 GT/s PCIe".to_owned()),
            ("current_link_width", "16".to_owned()),
            ("max_link_speed", "32.0 GT/s PCIe".to_owned()),
            ("max_link_width", "16".to_owned()),
            ("hwmon/hwmon0/name", "amdgpu".to_owned()),
            ("hwmon/hwmon0/temp2_label", "junction".to_owned()),
        ] {
            write(&device.join(name), &format!("{content}\n"));
        }
        let node = sys.join(format!("class/kfd/kfd/topology/nodes/{}", index + 1));
        write(&node.join("gpu_id"), &format!("{gpu_id}\n"));
        let properties =
            format!("cpu_cores_count 0\nlocation_id {}\ndomain 0\ndrm_render_minor {}\n", bus << 8, 128 + index);
        write(&node.join("properties"), &properties);
        fs::create_dir_all(sys.join("class/kfd/kfd/proc")).unwrap();
        let (sums, recent) = ([0.0; 2], VecDeque::new());
        Self {
            device,
            gpu_id,
            meter: Meter::default(),
            begun_ns: monotonic_ns(),
            sums,
            residencies: [0.0; 3],
            recent,
            pids: Vec::new(),
        }
    }

    fn show(&mut self, sys: &Path, state: SimulatedGpuState, now_ns: u64) {
        let then_ns = self.meter.last.map_or(now_ns, |(_, then_ns)| then_ns);
        let passed_ms = now_ns.saturating_sub(then_ns) as f64 / 1e6;
        let busy = self.meter.read(state, now_ns).map_or(0.0, |activity| activity.device);
        self.sums[0] += busy * 100.0 * passed_ms;
        self.sums[1] += busy * state.memory_busy_pct as f64 * passed_ms;
        for (residency, (reasons, _)) in self.residencies.iter_mut().zip(RESIDENCIES) {
            *residency += if state.clock_event_reasons & reasons == 0 { 0.0 } else { passed_ms };
        }
        self.recent.push_back((now_ns, self.sums));
        while self.recent.len() > 2 && self.recent[1].0 + AVERAGE_NS < now_ns {
            self.recent.pop_front();
        }
        let (from_ns, from) = self.recent[0];
        let averages = [0, 1].map(|at| (self.sums[at] - from[at]) / ((now_ns - from_ns) as f64 / 1e6).max(1.0));
        let file = |name: &str| self.device.join(name);
        let watts = state.power_mw(averages[0] / 100.0) / 1000;
        write_bytes(&file("gpu_metrics"), &self.table(now_ns, averages, watts));
        for (name, value) in [
            ("mem_info_vram_total", state.memory_total_bytes),
            ("mem_info_vram_used", state.memory_used_bytes),
            ("hwmon/hwmon0/power1_input", watts * 1_000_000),
            ("hwmon/hwmon0/power1_cap", state.power_limit_mw * 1000),
            ("hwmon/hwmon0/temp2_input", state.temperature_c * 1000),
            ("hwmon/hwmon0/freq1_input", state.sm_clock_mhz * 1_000_000),
            ("hwmon/hwmon0/freq2_input", 1_300_000_000),
        ] {
            write(&file(name), &format!("{value:<16}\n"));
        }
        write(&file("pp_dpm_sclk"), &format!("0: 132Mhz\n1: {}Mhz *\n", state.sm_clock_max_mhz));
        self.show_processes(&sys.join("class/kfd/kfd/proc"), &state, now_ns);
    }

    /// `gpu_metrics`; nothing that the simulated GPU does not have.
    fn table(&self, now_ns: u64, averages: [f64; 2], watts: u64) -> Vec<u8> {
        let mut table = vec![0xff; METRICS];
        let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[(METRICS % 256) as u8, (METRICS / 256) as u8, 1, 7]);
        put(10, &(watts as u16).to_le_bytes());
        for (at, average) in [12, 14].into_iter().zip(averages) {
            put(at, &(average.round() as u16).to_le_bytes());
        }
        put(24, &((self.meter.energy_mj / 1000.0 * 65_536.0) as u64).to_le_bytes());
        let count = (now_ns - self.begun_ns) / 1_000_000;
        put(40, &(count as u32).to_le_bytes());
        put(44, &[0; 20]);
        for ((_, at), residency) in RESIDENCIES.into_iter().zip(self.residencies) {
            put(at, &(residency as u32).to_le_bytes());
        }
        for (at, sum) in [76, 80].into_iter().zip(self.sums) {
            put(at, &(sum as u64 as u32).to_le_bytes());
        }
        table
    }

    fn show_processes(&mut self, folder: &Path, state: &SimulatedGpuState, now_ns: u64) {
        let held = [
            (state.owner(), state.owner_memory_bytes, state.queue),
            (state.other_process(), state.other_memory_bytes, state.other_queue),
        ];
        let held: Vec<_> = held.into_iter().filter_map(|(pid, bytes, queue)| Some((pid?, bytes, queue))).collect();
        let (memory, stats) = (format!("vram_{}", self.gpu_id), format!("stats_{}", self.gpu_id));
        for gone in self.pids.iter().filter(|pid| !held.iter().any(|(held, ..)| held == *pid)) {
            let process = folder.join(gone.to_string());
            let _ = fs::remove_file(process.join(&memory));
            let _ = fs::remove_dir_all(process.join(&stats));
            let _ = fs::remove_dir(process);
        }
        for (pid, bytes, queue) in &held {
            let process = folder.join(pid.to_string());
            write(&process.join(&memory), &format!("{bytes:<16}\n"));
            let units = if queue.running(now_ns) { COMPUTE_UNITS } else { 0 };
            write(&process.join(&stats).join("cu_occupancy"), &format!("{units:<8}\n"));
        }
        self.pids = held.into_iter().map(|(pid, ..)| pid).collect();
    }
}

fn write(path: &Path, content: &str) {
    write_bytes(path, content.as_bytes());
}

/// In place, because readers keep the file open.
fn write_bytes(path: &Path, content: &[u8]) {
    let file = fs::File::options().write(true).create(true).truncate(false).open(path);
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path)
        }
        file => file,
    };
    file.unwrap().write_all_at(content, 0).unwrap();
}
