//! One AMD GPU: what is read of it in a tick, and what is remembered in between.

use std::path::{Path, PathBuf};

use super::super::plausible::{self as believed, within};
use super::kfd::KfdNode;
use super::metrics::Metrics;
use crate::fields::{Fields, lines, number, text};
use crate::files::{KeptPath, ReadFailure, read_once};
use trainmon_sample::gpu::GpuReading;

/// How often slow readings are read, nanoseconds.
const SLOW_EVERY_NS: u64 = 5_000_000_000;
/// The APU among the Instincts.
const MI300A: &[u8] = b"0x74a0";
/// APUs with fewer compute units are those of desktops and laptops (2 to 16); Strix Halo has 40, MI300A 228.
const LEAST_COMPUTE_UNITS: u64 = 20;
/// Sensors, and the bit of each in the driver's throttle status (metrics.rs).
const SENSORS: [(&[u8], u32); 3] = [(b"edge", 35), (b"junction", 36), (b"mem", 34)];
/// How near a temperature is to its limit where it lowers the clocks, thousandths of a degree. The driver sets the bit of the hottest
/// place on RDNA 3 and 4 always, cool or not (gitlab.freedesktop.org/drm/amd/-/issues/3251).
const NEAR_TOO_HOT: u64 = 5000;
/// Room for a file of sysfs, which is at most a page.
const SYSFS_PAGE: usize = 4096;
/// Transfer rates of the generations of PCIe, from the first, GT/s (drivers/pci/probe.c, `pci_speed_string`).
const GENERATIONS: [&[u8]; 6] = [b"2.5", b"5.0", b"8.0", b"16.0", b"32.0", b"64.0"];

/// Where a card is found.
#[derive(Debug, Clone)]
pub(super) struct CardPlace {
    /// The PCI device's folder.
    pub folder: PathBuf,
    /// N of its `/dev/dri/renderDN`.
    pub render_minor: Option<u32>,
    /// PCI domain, and bus and device.
    pub place: (u64, u64),
}

/// A GPU, or a partition of one.
#[derive(Debug)]
pub(super) struct Card {
    pub gpu_id: Option<u32>,
    compute_units: u64,
    folder: PathBuf,
    /// Its position among the partitions of the GPU, and its memory.
    partition: Option<(usize, Option<u64>)>,
    files: Files,
    /// What does not change.
    facts: GpuReading,
    /// The facts, and the slow readings as last read.
    slow: GpuReading,
    slow_next_ns: u64,
    /// Its [`SENSORS`], once they have been looked for.
    sensors: Option<[Option<Sensor>; 3]>,
    /// Bits of the throttle status whose sensor is not near its limit.
    cool: u64,
    metrics: Option<Metrics>,
    lost: bool,
}

/// A sensor of temperature: the name of its file, and its limit in thousandths of a degree Celsius.
#[derive(Debug)]
struct Sensor {
    file: String,
    limit: Option<u64>,
}

/// What is read in every tick.
#[derive(Debug)]
struct Files {
    runtime_status: KeptPath,
    gpu_metrics: KeptPath,
    busy_percent: KeptPath,
    memory_busy_percent: KeptPath,
    vram_used: KeptPath,
    gtt_used: KeptPath,
    power: [KeptPath; 2],
    clock: KeptPath,
}

impl Files {
    fn new(folder: &Path) -> Self {
        let at = |name: &str| KeptPath::new(folder.join(name));
        let monitor = monitor(folder);
        let sensor = |name: &str| KeptPath::new(monitor.join(name));
        Self {
            runtime_status: at("power/runtime_status"),
            gpu_metrics: at("gpu_metrics"),
            busy_percent: at("gpu_busy_percent"),
            memory_busy_percent: at("mem_busy_percent"),
            vram_used: at("mem_info_vram_used"),
            gtt_used: at("mem_info_gtt_used"),
            power: ["power1_average", "power1_input"].map(sensor),
            clock: sensor("freq1_input"),
        }
    }
}

impl Card {
    /// A card, as ROCm sees it if it does, and its position among its partitions if there are several.
    pub fn new(index: u32, place: &CardPlace, node: Option<&KfdNode>, partition: Option<usize>, names: &str) -> Self {
        let render_minor = node.map(|node| node.render_minor).or(place.render_minor);
        let files = render_minor.map(|minor| [format!("/dev/dri/renderD{minor}").into(), "/dev/kfd".into()]);
        let name = name(&place.folder, names);
        let name = partition.map(|partition| format!("{name}, partition {partition}")).unwrap_or(name);
        let unique = short(&place.folder, "unique_id").filter(|id| id.iter().all(u8::is_ascii_hexdigit));
        let facts = GpuReading {
            index,
            uuid: unique.map(|id| format!("GPU-{}", text(&id)).into()),
            name: Some(name.into()),
            files: files.into_iter().flatten().collect(),
            ..GpuReading::default()
        };
        Self {
            gpu_id: node.map(|node| node.gpu_id),
            compute_units: node.map(|node| node.compute_units).unwrap_or_default(),
            folder: place.folder.clone(),
            partition: partition.map(|partition| (partition, node.and_then(|node| node.memory_bytes))),
            files: Files::new(&place.folder),
            slow: facts.clone(),
            facts,
            slow_next_ns: 0,
            sensors: None,
            cool: 0,
            metrics: None,
            lost: false,
        }
    }

    /// Whether it is a part of a GPU.
    pub fn is_partition(&self) -> bool {
        self.partition.is_some()
    }

    /// Reads it. A card that is asleep is left asleep: nearly every other file would wake it.
    pub fn read(&mut self, now_ns: u64) -> GpuReading {
        let mut room = [0; SYSFS_PAGE];
        let status = self.files.runtime_status.read_page(&mut room);
        if status.is_ok_and(|status| status.trim_ascii() == b"suspended") {
            self.metrics = None;
            return GpuReading { asleep: true, ..self.facts.clone() };
        }
        let unplugged = status == Err(ReadFailure::Gone);
        if now_ns >= self.slow_next_ns || unplugged {
            self.slow_next_ns = now_ns.saturating_add(SLOW_EVERY_NS);
            self.read_slow(unplugged);
        }
        if self.lost {
            return GpuReading { lost: true, ..self.facts.clone() };
        }
        let mut seen = self.slow.clone();
        self.read_load(&mut seen, &mut room);
        self.read_memory(&mut seen, &mut room);
        let limit_mw = seen.power_limit_mw;
        let power_mw = self.files.power.iter_mut().find_map(|file| file_number(file, &mut room)).map(|uw| uw / 1000);
        let of_socket =
            self.metrics.as_ref().and_then(|metrics| metrics.power_w).map(|watts| u64::from(watts) * 1000);
        seen.power_mw = power_mw.or(of_socket).and_then(small).and_then(|mw| believed::power(mw, limit_mw));
        seen.sm_clock_mhz = file_number(&mut self.files.clock, &mut room).and_then(mhz);
        seen
    }

    fn read_load(&mut self, seen: &mut GpuReading, room: &mut [u8; SYSFS_PAGE]) {
        let table = self.files.gpu_metrics.read_page(room).ok();
        let now = table.and_then(|table| Metrics::parse(table, self.cool));
        let before = std::mem::replace(&mut self.metrics, now);
        let metrics = self.metrics.as_ref();
        if let Some((partition, _)) = self.partition {
            seen.utilization_pct = metrics.and_then(|metrics| metrics.partition_pct(partition));
        } else {
            let [activity, memory] = metrics.map(|metrics| metrics.means(before.as_ref())).unwrap_or_default();
            let percent = |file: &mut KeptPath, room: &mut [u8]| {
                file_number(file, room).and_then(small).and_then(within(believed::PERCENT))
            };
            seen.utilization_pct = activity.or_else(|| percent(&mut self.files.busy_percent, room));
            seen.memory_utilization_pct = memory.or_else(|| percent(&mut self.files.memory_busy_percent, room));
        }
        seen.clock_event_reasons = metrics.and_then(|metrics| metrics.clock_event_reasons(before.as_ref()));
        // 2⁻¹⁶ J.
        seen.energy_mj = metrics
            .and_then(|metrics| metrics.energy)
            .map(|energy| energy / 65_536 * 1000 + energy % 65_536 * 1000 / 65_536);
    }

    /// The memory in use. An APU's is the host's: a part set aside, and what it maps. Of a partition only the processes tell.
    fn read_memory(&mut self, seen: &mut GpuReading, room: &mut [u8; SYSFS_PAGE]) {
        let (Some(total), None) = (seen.memory_total_bytes, self.partition) else { return };
        let own = file_number(&mut self.files.vram_used, room);
        let mapped = self.facts.integrated.then(|| file_number(&mut self.files.gtt_used, room)).flatten();
        let used = own.map(|own| own.saturating_add(mapped.unwrap_or(0)));
        seen.memory_used_bytes = used.and_then(|used| believed::memory(used, total).0);
    }

    fn read_slow(&mut self, unplugged: bool) {
        let was_lost = std::mem::replace(&mut self.lost, !self.folder.join("vendor").exists());
        let (folder, facts) = (&self.folder, &mut self.facts);
        if self.lost || was_lost || unplugged {
            self.files = Files::new(folder);
            (self.metrics, self.sensors) = (None, None);
        }
        let value = |name: &str| short(folder, name).and_then(|value| number::<u64>(&value));
        let monitor = monitor(folder);
        let sensor = |name: &str| short(&monitor, name).and_then(|value| number::<u64>(&value));
        if facts.memory_total_bytes.is_none() {
            // The table of an APU has another format; MI300A has that of a card.
            let table = read_once(folder.join("gpu_metrics"), SYSFS_PAGE).unwrap_or_default();
            facts.integrated =
                matches!(table.get(2), Some(2 | 3)) || short(folder, "device").as_deref() == Some(MI300A);
            facts.for_display = facts.integrated && self.compute_units < LEAST_COMPUTE_UNITS;
            let own = value("mem_info_vram_total");
            let mapped = if facts.integrated { value("mem_info_gtt_total") } else { None };
            let of_partition = self.partition.map(|(_, bytes)| bytes);
            let total = of_partition.unwrap_or_else(|| own.map(|own| own.saturating_add(mapped.unwrap_or(0))));
            facts.memory_total_bytes = total.and_then(|total| believed::memory(0, total).1);
        }
        facts.sm_clock_max_mhz = facts.sm_clock_max_mhz.or_else(|| highest_mhz(folder, "pp_dpm_sclk"));
        facts.memory_clock_max_mhz = facts.memory_clock_max_mhz.or_else(|| highest_mhz(folder, "pp_dpm_mclk"));
        // The link of an APU is inside the chip.
        let is_apu = facts.integrated;
        let link = |name: &str| if is_apu { None } else { short(folder, name) };
        let width = |name: &str| link(name).and_then(|value| number(&value)).and_then(within(believed::PCIE_WIDTH));
        facts.pcie_generation_max = link("max_link_speed").as_deref().and_then(generation);
        facts.pcie_width_max = width("max_link_width");
        let sensors = self.sensors.get_or_insert_with(|| SENSORS.map(|(label, _)| Sensor::find(&monitor, label)));
        let now = sensors.each_ref().map(|found| sensor(&found.as_ref()?.file));
        let limits = sensors.each_ref().map(|found| found.as_ref()?.limit);
        self.cool = SENSORS.iter().zip(now.into_iter().zip(limits)).fold(0, |cool, ((_, bit), (now, limit))| {
            let is_cool = now.zip(limit).is_some_and(|(now, limit)| now.saturating_add(NEAR_TOO_HOT) < limit);
            cool | u64::from(is_cool) << bit
        });
        let [edge, junction, _] = now;
        self.slow = GpuReading {
            power_limit_mw: sensor("power1_cap")
                .and_then(|uw| small(uw / 1000))
                .and_then(within(believed::POWER_LIMIT_MW)),
            // Instincts have no sensor at the edge.
            temperature_c: edge
                .or(junction)
                .and_then(|now| small(now / 1000))
                .and_then(within(believed::TEMPERATURE_C)),
            memory_clock_mhz: sensor("freq2_input").and_then(mhz),
            pcie_generation: link("current_link_speed").as_deref().and_then(generation),
            pcie_width: width("current_link_width"),
            ..facts.clone()
        };
    }
}

/// The folder of the card's sensors (Documentation/gpu/amdgpu/thermal.rst); without sensors a folder that has none.
fn monitor(folder: &Path) -> PathBuf {
    let monitors = folder.join("hwmon");
    let entries = std::fs::read_dir(&monitors).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(64).min().unwrap_or(monitors)
}

impl Sensor {
    fn find(monitor: &Path, label: &[u8]) -> Option<Self> {
        let n = (1..=8).find(|n| short(monitor, &format!("temp{n}_label")).as_deref() == Some(label))?;
        let limit = short(monitor, &format!("temp{n}_crit")).and_then(|limit| number(&limit));
        Some(Self { file: format!("temp{n}_input"), limit })
    }
}

/// The highest of a clock's levels, lines like `1: 2660Mhz *`.
fn highest_mhz(folder: &Path, name: &str) -> Option<u32> {
    let levels = read_once(folder.join(name), SYSFS_PAGE).ok()?;
    let level = |line: &[u8]| {
        let field = Fields::new(line).nth(1)?;
        number::<u32>(field.to_ascii_lowercase().strip_suffix(b"mhz")?)
    };
    lines(&levels).filter_map(level).max().and_then(within(believed::CLOCK_MAX_MHZ))
}

/// The product's name from the card's own memory, else from libdrm's list by device and revision, else the PCI identifiers.
fn name(folder: &Path, names: &str) -> String {
    let hexadecimal = |file: &str| short(folder, file).map(|value| String::from_utf8_lossy(&value).replace("0x", ""));
    let (device, revision) = (hexadecimal("device"), hexadecimal("revision"));
    let listed = || {
        names.lines().find_map(|line| {
            let mut fields = line.splitn(3, ',').map(str::trim);
            let is_it = |field: Option<&str>, id: &Option<String>| Some(field?.eq_ignore_ascii_case(id.as_deref()?));
            (is_it(fields.next(), &device)? && is_it(fields.next(), &revision)?)
                .then(|| fields.next().map(str::to_owned))?
        })
    };
    let printed = short(folder, "product_name").map(|value| text(&value).to_string());
    match printed.or_else(listed) {
        Some(name) if name.contains("AMD") => name,
        Some(name) => format!("AMD {name}"),
        None => format!("AMD GPU 1002:{}", device.as_deref().unwrap_or("?")),
    }
}

/// A short file without blanks and zeros around it; `None` where it is empty.
fn short(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let bytes = read_once(folder.join(name), SYSFS_PAGE).ok()?;
    let line = lines(&bytes).next()?;
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
    let line = line.get(..end.min(128))?.trim_ascii();
    (!line.is_empty()).then(|| line.to_vec())
}

fn file_number(file: &mut KeptPath, room: &mut [u8]) -> Option<u64> {
    number(lines(file.read_page(room).ok()?).next()?.trim_ascii())
}

fn small(value: u64) -> Option<u32> {
    value.try_into().ok()
}

fn mhz(hertz: u64) -> Option<u32> {
    small(hertz / 1_000_000).and_then(within(believed::CLOCK_MHZ))
}

/// The generation of a link, of a text like `16.0 GT/s PCIe`.
fn generation(speed: &[u8]) -> Option<u32> {
    let rate = Fields::new(speed).next()?;
    let at = GENERATIONS.iter().position(|known| *known == rate)?;
    u32::try_from(at + 1).ok()
}
