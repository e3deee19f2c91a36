//! Cards made up after the kernel's sources, and the dumps of real ones that the crate amdgpu-sysfs has.

use std::path::PathBuf;
use std::process::Command;

use amdgpu_sysfs::gpu_handle::GpuHandle;
use amdgpu_sysfs::hw_mon::HwMon;
use proptest::prelude::*;
use trainmon_sample::gpu::SW_THERMAL;

use super::*;

const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A `/sys` with a machine's cards.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn sys(&self) -> PathBuf {
        self.0.path().join("sys")
    }

    fn device(&self, card: u32) -> PathBuf {
        self.sys().join(format!("class/drm/card{card}/device"))
    }

    /// Card N at PCI bus N+1, with `/dev/dri/renderD(128+N)`.
    fn card(&self, card: u32, files: &[(&str, &str)]) -> &Self {
        let folder = self.device(card);
        let uevent = format!("DRIVER=amdgpu\nPCI_SLOT_NAME=0000:{:02x}:00.0\n", card + 1);
        std::fs::create_dir_all(folder.join(format!("drm/renderD{}", 128 + card))).unwrap();
        for (name, content) in
            [("vendor", "0x1002\n"), ("device", "0x74a1\n"), ("uevent", &uevent)].iter().chain(files)
        {
            write(&folder.join(name), content);
        }
        self
    }

    /// A GPU as ROCm sees it, at the bus of card N.
    fn node(&self, node: u32, gpu_id: u32, card: u32, properties: &str) -> &Self {
        let folder = self.sys().join(format!("class/kfd/kfd/topology/nodes/{node}"));
        write(&folder.join("gpu_id"), format!("{gpu_id}\n"));
        let place = format!("domain 0\nlocation_id {}\n", (card + 1) << 8);
        write(&folder.join("properties"), format!("{properties}{place}"));
        self
    }

    fn holds(&self, pid: u32, gpu_id: u32, bytes: u64) -> &Self {
        write(&self.sys().join(format!("class/kfd/kfd/proc/{pid}/vram_{gpu_id}")), format!("{bytes}\n"));
        self
    }

    fn open(&self) -> AmdGpus {
        let roots = Roots { sys: self.sys(), ..Roots::default() };
        AmdGpus::discover(&SourceOptions { roots, ..SourceOptions::default() }).unwrap()
    }

    fn read(&self) -> Vec<GpuReading> {
        self.open().read(0).unwrap()
    }
}

const CARD: [(&str, &str); 10] = [
    ("gpu_busy_percent", "87\n"),
    ("mem_busy_percent", "35\n"),
    ("mem_info_vram_total", "206141652992\n"),
    ("mem_info_vram_used", "107374182400\n"),
    ("product_name", "AMD Instinct MI300X\n"),
    ("unique_id", "9a2b7c1d00ff8e31\n"),
    ("hwmon/hwmon3/name", "amdgpu\n"),
    ("hwmon/hwmon3/power1_input", "612000000\n"),
    ("hwmon/hwmon3/power1_cap", "750000000\n"),
    ("power/runtime_status", "active\n"),
];

/// The dumps of cards in the crate's sources, where cargo has unpacked them.
fn dumps() -> PathBuf {
    // Without this platform alone, cargo asks for crates that it needed for none.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["metadata", "--format-version", "1", "--offline", "--filter-platform", &platform];
    let output = Command::new(env!("CARGO")).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|package| package["name"] == "amdgpu-sysfs").unwrap();
    PathBuf::from(found["manifest_path"].as_str().unwrap()).parent().unwrap().join("tests/data")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn a_cool_card_is_not_held_down_by_heat_whatever_its_driver_says() {
    let mut table = [0xff; 120];
    table[..4].copy_from_slice(&[120, 0, 1, 3]);
    table[112..].copy_from_slice(&(1_u64 << 36).to_le_bytes());
    for (junction, limit, reasons) in
        [("63000\n", "110000\n", 0), ("106000\n", "110000\n", SW_THERMAL), ("63000\n", "", SW_THERMAL)]
    {
        let machine = Machine::new();
        machine.card(0, &CARD).card(
            0,
            &[
                ("hwmon/hwmon3/temp2_label", "junction\n"),
                ("hwmon/hwmon3/temp2_input", junction),
                ("hwmon/hwmon3/temp2_crit", limit),
            ],
        );
        write(&machine.device(0).join("gpu_metrics"), table);
        assert_eq!(machine.read()[0].clock_event_reasons, Some(reasons), "{junction} of {limit}");
    }
}

#[test]
fn every_value_of_five_real_cards_is_what_another_reader_finds() {
    let (mut compared, dumps) = (0, dumps());
    for card in ["rx580", "vega56", "rx6900xt", "rx7800xt", "rx7900xt"] {
        let machine = Machine::new();
        let device = machine.device(0);
        copy(&dumps.join(card), &device);
        // Some dumps lack what names the kind of sensors, and the maker.
        for monitor in std::fs::read_dir(device.join("hwmon")).unwrap() {
            write(&monitor.unwrap().path().join("name"), "amdgpu\n");
        }
        write(&device.join("vendor"), "0x1002\n");
        let [gpu] = &machine.read()[..] else { panic!("{card}") };
        let handle = GpuHandle::new_from_path(device.clone()).unwrap();
        let monitor: &HwMon = handle.hw_monitors.first().unwrap();
        let highest = |levels: Result<amdgpu_sysfs::gpu_handle::PowerLevels<u64>, amdgpu_sysfs::error::Error>| {
            levels.ok().and_then(|levels| levels.levels.iter().map(|level| level.value).max())
        };
        let rate = |generation: Option<u32>| {
            generation.map(|at| ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"][at as usize - 1])
        };
        let speed = |text: Result<String, amdgpu_sysfs::error::Error>| {
            text.ok().map(|text| text.split(' ').next().unwrap().to_owned())
        };
        let lanes =
            |text: Result<String, amdgpu_sysfs::error::Error>| text.ok().map(|text| text.parse::<u64>().unwrap());
        let milliwatts =
            |watts: Result<f64, amdgpu_sysfs::error::Error>| watts.ok().map(|watts| (watts * 1000.0).round() as u64);
        let ours = |value: Option<u32>| value.map(u64::from);
        let edge = monitor.get_temps().get("edge").and_then(|edge| edge.current).map(|celsius| celsius as u64);
        for (what, ours, theirs) in [
            ("busy", ours(gpu.utilization_pct), handle.get_busy_percent().ok().map(u64::from)),
            ("memory", gpu.memory_total_bytes, handle.get_total_vram().ok()),
            ("memory used", gpu.memory_used_bytes, handle.get_used_vram().ok()),
            (
                "power",
                ours(gpu.power_mw),
                milliwatts(monitor.get_power_average().or_else(|_| monitor.get_power_input())),
            ),
            ("power cap", ours(gpu.power_limit_mw), milliwatts(monitor.get_power_cap())),
            ("temperature", ours(gpu.temperature_c), edge),
            ("clock", ours(gpu.sm_clock_mhz), monitor.get_gpu_clockspeed().ok()),
            ("memory clock", ours(gpu.memory_clock_mhz), monitor.get_vram_clockspeed().ok()),
            ("highest clock", ours(gpu.sm_clock_max_mhz), highest(handle.get_core_clock_levels())),
            ("highest memory clock", ours(gpu.memory_clock_max_mhz), highest(handle.get_memory_clock_levels())),
            ("lanes", ours(gpu.pcie_width), lanes(handle.get_current_link_width())),
            ("most lanes", ours(gpu.pcie_width_max), lanes(handle.get_max_link_width())),
        ] {
            assert_eq!(ours, theirs, "{card}: {what}");
            compared += usize::from(theirs.is_some());
        }
        assert_eq!(rate(gpu.pcie_generation).map(str::to_owned), speed(handle.get_current_link_speed()), "{card}");
        assert_eq!(rate(gpu.pcie_generation_max).map(str::to_owned), speed(handle.get_max_link_speed()), "{card}");
        assert!(gpu.name.as_deref().unwrap().starts_with("AMD "), "{card}: {:?}", gpu.name);
    }
    assert!(compared >= 54, "{compared} values of the dumps were compared");
}

#[test]
fn one_card_tells_what_its_files_say() {
    let machine = Machine::new();
    let [gpu] = &machine.card(0, &CARD).read()[..] else { panic!() };
    assert_eq!(gpu.name.as_deref(), Some("AMD Instinct MI300X"));
    assert_eq!(gpu.uuid.as_deref(), Some("GPU-9a2b7c1d00ff8e31"));
    assert_eq!((gpu.utilization_pct, gpu.memory_utilization_pct), (Some(87), Some(35)));
    assert_eq!((gpu.memory_used_bytes, gpu.memory_total_bytes), (Some(100 * GIB), Some(206_141_652_992)));
    assert_eq!((gpu.power_mw, gpu.power_limit_mw), (Some(612_000), Some(750_000)));
    assert_eq!(gpu.files.iter().map(|file| &**file).collect::<Vec<_>>(), ["/dev/dri/renderD128", "/dev/kfd"]);
    assert_eq!((gpu.clock_event_reasons, gpu.pcie_rx_kib_per_s, gpu.gpm), (None, None, None), "not told");
    assert!(!gpu.lost && !gpu.asleep && gpu.processes.is_empty());
}

#[test]
fn a_product_without_a_name_of_its_own_is_looked_up() {
    let machine = Machine::new();
    machine.card(0, &[("device", "0x744c\n"), ("revision", "0xc8\n"), ("product_name", "\n")]).card(1, &[]);
    write(
        &machine.0.path().join("usr/share/libdrm/amdgpu.ids"),
        "1.0.0\n744C,\tC9,\tother\n744C,\tC8,\tRadeon RX 7900 XTX\n",
    );
    let names: Vec<_> = machine.read().iter().map(|gpu| gpu.name.clone().unwrap().to_string()).collect();
    assert_eq!(names, ["AMD Radeon RX 7900 XTX", "AMD GPU 1002:74a1"]);
}

#[test]
fn eight_gpus_are_numbered_as_rocm_numbers_them_and_their_processes_known() {
    let machine = Machine::new();
    for card in 0..8 {
        // The nodes are in another order than the buses.
        machine.card(card, &CARD).node(
            2 + 7 - card,
            1000 + card,
            card,
            &format!("drm_render_minor {}\n", 128 + card),
        );
    }
    machine.node(0, 0, 40, "cpu_cores_count 96\n").holds(70, 1007, 5 * GIB).holds(70, 1006, 0).holds(71, 1007, GIB);
    let seen = machine.read();
    let first: Vec<(u32, &str)> = seen.iter().map(|gpu| (gpu.index, &*gpu.files[0])).take(2).collect();
    assert_eq!(first, [(0, "/dev/dri/renderD135"), (1, "/dev/dri/renderD134")]);
    let processes: Vec<_> = seen[0].processes.iter().map(|process| (process.pid, process.memory_bytes)).collect();
    assert_eq!(processes, [(70, Some(5 * GIB)), (71, Some(GIB))]);
    assert!(seen[1..].iter().all(|gpu| gpu.processes.is_empty()), "opened, and not used");
    machine.holds(72, 1006, 0).holds(73, 1006, u64::MAX);
    let seen = machine.read();
    assert!(seen.iter().all(|gpu| gpu.unused_by == [72]), "more than there can be is nothing known");
    assert!(seen[1].processes.is_empty());
}

#[test]
fn processes_that_come_are_seen_at_once_and_memory_that_grows_soon() {
    let machine = Machine::new();
    machine.card(0, &CARD).node(1, 5, 0, "drm_render_minor 128\n").holds(70, 5, GIB);
    let mut gpus = machine.open();
    let mut held = |ns| {
        gpus.read(ns).unwrap()[0]
            .processes
            .iter()
            .map(|process| process.memory_bytes.unwrap() / GIB)
            .collect::<Vec<_>>()
    };
    assert_eq!(held(0), [1]);
    machine.holds(70, 5, 9 * GIB);
    assert_eq!(held(SECOND), [1]);
    machine.holds(71, 5, 2 * GIB);
    assert_eq!(held(2 * SECOND), [9, 2]);
    std::fs::remove_dir_all(machine.sys().join("class/kfd/kfd/proc/70")).unwrap();
    assert_eq!(held(3 * SECOND), [2]);
}

#[test]
fn processes_that_share_a_gpu_have_the_part_of_the_compute_units_that_they_hold() {
    let machine = Machine::new();
    machine.card(0, &CARD).node(1, 5, 0, "drm_render_minor 128\n").holds(70, 5, GIB).holds(71, 5, GIB);
    let parts = |units: [&str; 2]| {
        for (pid, units) in [70, 71].into_iter().zip(units) {
            write(&machine.sys().join(format!("class/kfd/kfd/proc/{pid}/stats_5/cu_occupancy")), units);
        }
        machine.read()[0].processes.iter().map(|process| process.sm_utilization_pct).collect::<Vec<_>>()
    };
    assert_eq!(parts(["228\n", "76\n"]), [Some(65), Some(22)], "of 87%");
    assert_eq!(parts(["0\n", "0\n"]), [None, None], "none at this moment");
    assert_eq!(parts(["228\n", "?\n"]), [None, None]);
}

#[test]
fn a_partition_has_its_own_memory_and_only_its_own_activity() {
    let machine = Machine::new();
    machine.card(0, &CARD);
    for partition in 0..2 {
        machine.node(1 + partition, 40 + partition, 0, &format!("drm_render_minor {}\n", 128 + partition));
        write(
            &machine.sys().join(format!("class/kfd/kfd/topology/nodes/{}/mem_banks/0/properties", 1 + partition)),
            format!("heap_type 1\nsize_in_bytes {}\n", 96 * GIB),
        );
    }
    machine.holds(70, 41, 3 * GIB).holds(71, 41, 4 * GIB);
    let seen = machine.read();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].name.as_deref(), Some("AMD Instinct MI300X, partition 1"));
    assert_eq!((&*seen[1].files[0], seen[1].memory_total_bytes), ("/dev/dri/renderD129", Some(96 * GIB)));
    assert_eq!(seen[1].utilization_pct, None, "the whole GPU's is not its own");
    assert_eq!(seen.iter().map(|gpu| gpu.memory_used_bytes).collect::<Vec<_>>(), [Some(0), Some(7 * GIB)]);
}

#[test]
fn the_memory_of_an_apu_is_what_is_set_aside_and_what_it_maps() {
    let machine = Machine::new();
    machine.card(0, &CARD).card(
        0,
        &[("mem_info_gtt_total", "51539607552\n"), ("mem_info_gtt_used", "1073741824\n"), ("max_link_width", "16\n")],
    );
    let table = [&[168, 0, 2, 4], &[0xff; 164][..]].concat();
    write(&machine.device(0).join("gpu_metrics"), table);
    machine.node(0, 9, 0, "simd_count 80\nsimd_per_cu 2\ndrm_render_minor 128\n");
    let [gpu] = &machine.read()[..] else { panic!() };
    assert!(gpu.integrated && !gpu.for_display);
    assert_eq!(gpu.memory_used_bytes, Some(101 * GIB));
    assert_eq!(gpu.memory_total_bytes, Some(206_141_652_992 + 48 * GIB));
    assert_eq!(gpu.pcie_width_max, None, "its link is inside the chip");
}

#[test]
fn a_card_that_sleeps_is_not_read_until_it_wakes() {
    let machine = Machine::new();
    machine.card(0, &CARD).card(0, &[("power/runtime_status", "suspended\n")]);
    let mut gpus = machine.open();
    let asleep = gpus.read(0).unwrap().remove(0);
    assert!(asleep.asleep && !asleep.lost);
    assert_eq!((asleep.utilization_pct, asleep.memory_total_bytes, asleep.power_limit_mw), (None, None, None));
    machine.card(0, &[("power/runtime_status", "active\n")]);
    let awake = gpus.read(SECOND).unwrap().remove(0);
    assert_eq!((awake.asleep, awake.utilization_pct, awake.power_limit_mw), (false, Some(87), Some(750_000)));
}

#[test]
fn a_card_that_vanishes_is_lost_and_may_come_back() {
    let machine = Machine::new();
    machine.card(0, &CARD).card(1, &CARD);
    let mut gpus = machine.open();
    let mut lost = |ns| gpus.read(ns).unwrap().iter().map(|gpu| (gpu.lost, gpu.utilization_pct)).collect::<Vec<_>>();
    assert_eq!(lost(0), [(false, Some(87)); 2]);
    std::fs::remove_dir_all(machine.device(0)).unwrap();
    assert_eq!(lost(6 * SECOND), [(true, None), (false, Some(87))]);
    machine.card(0, &CARD);
    assert_eq!(lost(12 * SECOND), [(false, Some(87)); 2]);
}

#[test]
fn only_amd_s_cards_are_read() {
    let machine = Machine::new();
    let roots = Roots { sys: machine.sys(), ..Roots::default() };
    let discover = || AmdGpus::discover(&SourceOptions { roots: roots.clone(), ..SourceOptions::default() });
    assert_eq!(discover().err().unwrap().to_string(), "this machine has no AMD GPU");
    machine.card(0, &[("vendor", "0x8086\n")]).card(2, &CARD);
    // A connector, and a card without an address.
    write(&machine.sys().join("class/drm/card2-DP-1/device/vendor"), "0x1002\n");
    write(&machine.device(3).join("vendor"), "0x1002\n");
    assert_eq!(discover().unwrap().read(0).unwrap().len(), 1);
}

#[test]
fn what_blocks_or_is_huge_is_not_measured() {
    let machine = Machine::new();
    machine.card(0, &CARD);
    let device = machine.device(0);
    for name in [
        "gpu_busy_percent",
        "mem_info_vram_used",
        "power/runtime_status",
        "hwmon/hwmon3/power1_input",
        "product_name",
    ] {
        std::fs::remove_file(device.join(name)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, device.join(name), 0o600.into()).unwrap();
    }
    for name in ["gpu_metrics", "mem_busy_percent", "pp_dpm_sclk", "hwmon/hwmon3/power1_cap", "unique_id"] {
        write(&device.join(name), vec![b'9'; 8 << 20]);
    }
    let [gpu] = &machine.read()[..] else { panic!() };
    assert_eq!(
        (gpu.utilization_pct, gpu.memory_used_bytes, gpu.power_mw, gpu.power_limit_mw),
        (None, None, None, None)
    );
    assert_eq!(
        (gpu.memory_total_bytes, gpu.memory_utilization_pct, gpu.sm_clock_max_mhz),
        (Some(206_141_652_992), None, None)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_content_is_read_or_not_measured(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 30)) {
        let machine = Machine::new();
        machine.card(0, &CARD).node(1, 5, 0, "drm_render_minor 128\n");
        let device = machine.device(0);
        let node = machine.sys().join("class/kfd/kfd/topology/nodes/2");
        let mut contents = contents.into_iter();
        for name in CARD.map(|(name, _)| name).iter().chain(&[
            "gpu_metrics", "hwmon/hwmon3/freq1_input", "hwmon/hwmon3/temp1_label", "hwmon/hwmon3/temp1_input", "pp_dpm_sclk",
            "current_link_speed", "max_link_width", "revision", "device",
        ]) {
            write(&device.join(name), contents.next().unwrap());
        }
        for name in ["gpu_id", "properties"] {
            write(&node.join(name), contents.next().unwrap());
        }
        write(&machine.sys().join("class/kfd/kfd/proc/7/vram_5"), contents.next().unwrap());
        write(&machine.0.path().join(NAMES), contents.next().unwrap());
        let mut gpus = machine.open();
        for second in 0..3 {
            let seen = gpus.read(second * 6 * SECOND).unwrap();
            prop_assert_eq!(seen.len(), 1);
            prop_assert!(seen[0].utilization_pct.is_none_or(|pct| pct <= 100));
            prop_assert!(seen[0].temperature_c.is_none_or(|celsius| celsius < 200));
        }
    }
}
