//! The pages of devices and CPUs: at every size, with one device and with sixteen, with eight CPUs and with many,
//! without a GPU, with values that were not measured, and with names made to break a terminal.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::KeyCode;
use proptest::prelude::*;
use trainmon::rates::frame::{CpuRates, GpuProcessRates, GpuRates, ProcessRates};
use trainmon::rates::other_processes::{OtherProcessRates, OtherProcesses};
use trainmon::rates::threads::{ThreadRates, ThreadRoleRates};
use trainmon::sample::gpu::GpuXids;
use trainmon::sample::{GpuProcess, ProcessRole, SourceState, SourceStatus, Sources, ThreadRole};
use trainmon::tui::{App, Message, Theme};
use trainmon::waits::Frame;
use trainmon::waits::frame::RankRates;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const GIB: u64 = 1 << 30;

/// A screen on which a minute and a half of frames were seen, each changed by `change`.
fn page(key: char, theme: Theme, size: (u16, u16), change: impl Fn(u64, &mut Frame)) -> App {
    page_after(90, key, theme, size, change)
}

fn page_after(seconds: u64, key: char, theme: Theme, size: (u16, u16), change: impl Fn(u64, &mut Frame)) -> App {
    let mut app = fresh(theme, size);
    press(&mut app, KeyCode::Char(key));
    let verdict = Arc::new(data_loader());
    for t in 1..=seconds {
        if (40..45).contains(&t) {
            continue; // five seconds that were not seen
        }
        let mut frame = frame(t, Job::default());
        change(t, &mut frame);
        tell(&mut app, frame, Arc::clone(&verdict));
    }
    app
}

/// Device `index` of a job that waits for its loader.
fn device(index: u32, t: u64) -> GpuRates {
    let busy = 60.0 + 35.0 * ((t + u64::from(index) * 3) as f64 / 4.0).sin();
    GpuRates {
        index,
        uuid: Some(format!("GPU-8932f937-d72c-4106-c12f-20bd9faed9f{index:x}").into()),
        name: Some(Arc::from("NVIDIA H100 80GB HBM3")),
        attached: true,
        utilization_pct: Some(busy),
        job_utilization_pct: Some(busy * 0.9),
        memory_utilization_pct: Some(31.0),
        memory_used_bytes: Some(61 * GIB),
        memory_total_bytes: Some(80 * GIB),
        job_memory_bytes: Some(58 * GIB),
        power_w: Some(412.0),
        power_limit_w: Some(700.0),
        temperature_c: Some(61),
        sm_clock_mhz: Some(1755),
        sm_clock_max_mhz: Some(1980),
        memory_clock_mhz: Some(2619),
        memory_clock_max_mhz: Some(2619),
        clock_event_reasons: Some(0x4),
        pcie_rx_bytes_per_s: Some(3.1e9),
        pcie_tx_bytes_per_s: Some(0.2e9),
        pcie_capacity_bytes_per_s: Some(63.0e9),
        pcie_generation: Some(5),
        pcie_width: Some(16),
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        sm_active_pct: Some(48.0),
        tensor_active_pct: Some(22.0),
        dram_active_pct: Some(35.0),
        decoder_pct: Some(12),
        encoder_pct: Some(0),
        processes: vec![
            GpuProcessRates {
                pid: 1234,
                ours: Some(true),
                memory_bytes: Some(58 * GIB),
                sm_utilization_pct: Some(70),
                compute: true,
                ..GpuProcessRates::default()
            },
            GpuProcessRates {
                pid: 4321,
                ours: Some(false),
                memory_bytes: Some(3 * GIB),
                sm_utilization_pct: None,
                compute: true,
                ..GpuProcessRates::default()
            },
        ],
        others: vec![GpuProcess { pid: 4321, memory_bytes: Some(3 * GIB), sm_utilization_pct: None, compute: true }],
        ..GpuRates::default()
    }
}

/// `count` devices with a rank each, of which number 7 idles.
fn devices(count: u32) -> impl Fn(u64, &mut Frame) {
    move |t, frame| {
        frame.gpu_driver = Some(Arc::from("550.54.15"));
        frame.gpus = (0..count).map(|index| device(index, t)).collect();
        if count > 1 {
            frame.processes =
                (0..count).map(|rank| ProcessRates { id: id(1234 + rank), ..frame.processes[0].clone() }).collect();
            frame.ranks =
                (0..count).map(|rank| RankRates { id: id(1234 + rank), ..frame.ranks[0].clone() }).collect();
            for gpu in &mut frame.gpus {
                gpu.processes.truncate(1);
                gpu.others.clear();
                gpu.processes[0].pid = 1234 + gpu.index;
            }
        }
        if let Some(seventh) = frame.gpus.get_mut(7) {
            (seventh.utilization_pct, seventh.job_utilization_pct) = (Some(2.0), Some(2.0));
            (seventh.power_w, seventh.clock_event_reasons) = (Some(71.0), Some(0x1));
            (seventh.pcie_generation, seventh.sm_clock_mhz) = (Some(1), Some(345));
        }
    }
}

/// `count` CPUs, half of them allowed, with threads and other_processes.
fn cpus(count: u16) -> impl Fn(u64, &mut Frame) {
    move |_, frame| {
        let half = count.div_ceil(2).max(1);
        frame.host.cpus = (0..count)
            .map(|cpu| CpuRates {
                cpu,
                allowed: count <= 8 || cpu < half,
                busy_pct: f32::from((cpu * 37) % 90),
                iowait_pct: if cpu % 5 == 1 { 8.0 } else { 0.0 },
                steal_pct: if cpu % 7 == 3 { 6.0 } else { 0.0 },
            })
            .collect();
        frame.job.cpus_allowed = Some(u32::from(if count <= 8 { count } else { half }));
        frame.job.cpu_quota_cores = Some(6.0);
        frame.job.throttled_share = Some(0.21);
        frame.host.load = Some([9.1, 7.4, 3.0]);
        frame.host.psi_memory_some_pct = Some(0.0);
        frame.ranks[0].run_delay_share = Some(0.012);
        let role = |process_role, thread_role, count, cpu_pct, run_delay_share| ThreadRoleRates {
            process_role,
            thread_role,
            count,
            ran: count,
            cpu_pct,
            run_delay_share,
        };
        frame.thread_roles = vec![
            role(ProcessRole::Rank, ThreadRole::Main, 1, Some(31.4), Some(0.004)),
            role(ProcessRole::Rank, ThreadRole::Pin, 1, Some(2.0), Some(0.0)),
            role(ProcessRole::Rank, ThreadRole::Communication, 2, None, None),
            role(ProcessRole::Rank, ThreadRole::Other, 38, Some(4.0), Some(0.1)),
            role(ProcessRole::Worker, ThreadRole::Main, 4, Some(381.0), Some(0.03)),
            role(ProcessRole::Worker, ThreadRole::QueueThread, 4, Some(3.0), Some(0.0)),
        ];
        let thread = |pid, tid, role, name: &str, cpu_pct, run_delay_pct| ThreadRates {
            process: id(pid),
            tid,
            role,
            name: name.into(),
            cpu_pct,
            run_delay_pct,
        };
        frame.threads = (0..4)
            .map(|n| thread(1301 + n, 1301 + n, ThreadRole::Main, "pt_data_worker", 96.0 - n as f32, 3.0))
            .chain([
                thread(1234, 1234, ThreadRole::Main, "python", 31.4, 0.4),
                thread(1234, 1250, ThreadRole::Communication, "pt_nccl_watchdg", 1.0, 0.0),
            ])
            .collect();
        let other_process = |pid, comm: &str, command: &str, cpu_pct| OtherProcessRates {
            id: id(pid),
            comm: comm.into(),
            command: command.into(),
            uid: Some(1001),
            cpu_pct,
            rss_bytes: 2 * GIB,
            ..OtherProcessRates::default()
        };
        frame.other_processes = Some(OtherProcesses {
            seconds: 3.0,
            processes: vec![
                other_process(9001, "ffmpeg", "/usr/local/bin/ffmpeg -i /in.mkv -c:v libx265 out.mkv", 188.0),
                OtherProcessRates {
                    kernel: true,
                    uid: Some(0),
                    rss_bytes: 0,
                    ..other_process(77, "kswapd0", "", 12.0)
                },
                OtherProcessRates {
                    own: true,
                    uid: None,
                    ..other_process(5000, "trainmon", "trainmon --pid 1234", 0.6)
                },
            ],
        });
    }
}

/// What nobody measured: everything that may be missing is.
fn unmeasured(_: u64, frame: &mut Frame) {
    frame.gpus = vec![
        GpuRates { index: 0, attached: true, ..GpuRates::default() },
        GpuRates { index: 1, lost: true, simulated: true, ..GpuRates::default() },
    ];
    frame.host = Default::default();
    frame.job = Default::default();
    frame.ranks.clear();
}

/// A device, a process, a thread and a other_process of this name.
fn hostile(name: &str) -> impl Fn(u64, &mut Frame) {
    move |t, frame| {
        devices(3)(t, frame);
        cpus(8)(t, frame);
        frame.gpu_driver = Some(name.into());
        for gpu in &mut frame.gpus {
            gpu.name = Some(name.into());
            gpu.uuid = Some(name.into());
        }
        frame.processes[0].command = name.repeat(100).into();
        for thread in &mut frame.threads {
            thread.name = name.into();
        }
        for process in &mut frame.other_processes.as_mut().unwrap().processes {
            process.command = name.into();
            process.comm = name.into();
        }
    }
}

fn no_gpu(size: (u16, u16)) -> App {
    let mut app = page('3', PLAIN, size, |_, frame| frame.gpus.clear());
    tell_verdict(&mut app, unknown());
    let gpu = SourceStatus {
        state: SourceState::Absent,
        reason: Some("libnvidia-ml.so.1 not found".into()),
        fix: Some("run the container with --gpus all".into()),
        age_ms: None,
    };
    tell_sources(&mut app, Sources { gpu, ..Sources::default() });
    app
}

#[test]
fn the_gpu_page_fits_one_device() {
    for size in SIZES {
        let app = page('3', PLAIN, size, devices(1));
        insta::assert_snapshot!(format!("gpu_one_{}x{}", size.0, size.1), text(&app, size));
    }
}

#[test]
fn the_gpu_page_fits_eight_and_sixteen_devices() {
    for size in SIZES {
        for count in [8, 16] {
            let app = page('3', PLAIN, size, devices(count));
            insta::assert_snapshot!(format!("gpu_{count}_{}x{}", size.0, size.1), text(&app, size));
        }
    }
}

#[test]
fn an_idle_rank_among_busy_ones_is_named_on_the_first_screen() {
    for size in SIZES {
        let text = text(&page('3', PLAIN, size, devices(16)), size);
        assert!(text.contains("GPU 7 idles while others work"), "{text}");
        assert!(text.lines().any(|line| line.contains("  7*") && line.contains("idle")), "{text}");
    }
}

#[test]
fn the_rest_of_sixteen_devices_is_reached_by_scrolling() {
    let size = (80, 24);
    let mut app = page('3', PLAIN, size, devices(16));
    assert!(!text(&app, size).contains("* ours"));
    (0..3).for_each(|_| drop(press(&mut app, KeyCode::PageDown)));
    insta::assert_snapshot!("gpu_16_scrolled", text(&app, size));
}

#[test]
fn without_a_gpu_the_page_says_why_and_names_the_fix() {
    let text = text(&no_gpu((80, 24)), (80, 24));
    assert!(text.contains("libnvidia-ml.so.1 not found") && text.contains("--gpus all"), "{text}");
    insta::assert_snapshot!("gpu_none", text);
}

#[test]
fn a_hung_driver_is_said() {
    let size = (80, 24);
    let mut app = page('3', PLAIN, size, devices(1));
    let gpu = SourceStatus { state: SourceState::Hung, age_ms: Some(12_000), ..SourceStatus::default() };
    tell_sources(&mut app, Sources { gpu, ..Sources::default() });
    let text = text(&app, size);
    assert!(text.contains("HUNG: the driver does not answer (last read 12 s ago)"), "{text}");
}

#[test]
fn in_a_container_nobody_is_called_a_stranger() {
    let size = (120, 40);
    let app = page('3', PLAIN, size, |t, frame| {
        devices(1)(t, frame);
        for process in &mut frame.gpus[0].processes {
            process.ours = None;
        }
        frame.gpus[0].others.clear();
    });
    let text = text(&app, size);
    assert!(text.contains("? unknown") && text.contains("cannot match them from inside"), "{text}");
    assert!(!text.contains("  other  "), "{text}");
}

#[test]
fn what_is_special_about_a_gpu_is_said_once() {
    let size = (160, 50);
    let app = page('3', PLAIN, size, |t, frame| {
        devices(1)(t, frame);
        let gpu = &mut frame.gpus[0];
        (gpu.vgpu, gpu.confidential, gpu.by_mps) = (Some(true), Some(true), true);
        gpu.xids = Some(GpuXids { count: 1, last: Some(79), last_ns: 0 });
        (gpu.nvlink_rx_bytes_per_s, gpu.nvlink_tx_bytes_per_s) = (Some(12.0 * GIB as f64), None);
        (gpu.sm_active_pct, gpu.tensor_active_pct, gpu.dram_active_pct) = (None, None, None);
        gpu.gpm_beside = Some("nv-hostengine (77)".into());
        let server = GpuProcessRates { pid: 50, compute: true, mps_server: true, ..GpuProcessRates::default() };
        gpu.processes.push(server);
    });
    let text = text(&app, size);
    for words in [
        "Xid 79 (fell off the bus)",
        "vGPU, confidential computing, MPS",
        "NVLink 12 in, – out GiB/s",
        "nv-hostengine (77) may hold the counters",
        "MPS server (runs its clients' work)",
    ] {
        assert_eq!(text.matches(words).count(), 1, "{words}\n{text}");
    }
    assert!(!text.contains("trainmon cannot match them"), "{text}");
}

#[test]
fn what_was_not_measured_is_a_dash() {
    let size = (80, 24);
    let gpu = text(&page('3', PLAIN, size, unmeasured), size);
    assert!(gpu.contains("LOST") && gpu.contains("simulated"), "{gpu}");
    insta::assert_snapshot!("gpu_unmeasured", gpu);
    let cpu = text(&page('4', PLAIN, size, unmeasured), size);
    assert!(cpu.contains("other processes are read every few"), "{cpu}");
    insta::assert_snapshot!("cpu_unmeasured", cpu);
}

#[test]
fn the_cpu_page_fits_eight_cpus_and_many() {
    for size in SIZES {
        for count in [8, 64, 256] {
            let app = page('4', PLAIN, size, cpus(count));
            insta::assert_snapshot!(format!("cpu_{count}_{}x{}", size.0, size.1), text(&app, size));
        }
    }
}

#[test]
fn ascii_has_nothing_but_ascii() {
    for size in SIZES {
        for (key, change) in [('3', &devices(16) as &dyn Fn(u64, &mut Frame)), ('3', &devices(1)), ('4', &cpus(64))] {
            let text = text(&page(key, ASCII, size, change), size);
            assert!(text.is_ascii(), "{text}");
        }
    }
    let size = (80, 24);
    insta::assert_snapshot!("gpu_ascii", text(&page('3', ASCII, size, devices(1)), size));
    insta::assert_snapshot!("cpu_ascii", text(&page('4', ASCII, size, cpus(8)), size));
}

#[test]
fn color_changes_no_character() {
    for (key, change) in [('3', &devices(8) as &dyn Fn(u64, &mut Frame)), ('4', &cpus(64))] {
        let (color, plain) = (page(key, *COLOR, (120, 40), change), page(key, PLAIN, (120, 40), change));
        let [color, plain] = [text(&color, (120, 40)), text(&plain, (120, 40))];
        assert!(same_words(&color, &plain), "{color}\n{plain}");
    }
}

#[test]
fn hostile_names_stay_text() {
    for (name, theme) in HOSTILE_NAMES.into_iter().zip([PLAIN, ASCII].into_iter().cycle()) {
        let mut app = page_after(2, '3', theme, SIZES[0], hostile(name));
        for (size, key) in SIZES.into_iter().flat_map(|size| [(size, '3'), (size, '4')]) {
            app.step(Message::Resize(size.0, size.1));
            press(&mut app, KeyCode::Char(key));
            for _ in 0..6 {
                assert_harmless(&draw(&app, size), theme);
                press(&mut app, KeyCode::PageDown);
            }
        }
    }
}

/// Any number there is, mostly odd ones.
fn number() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop_oneof![any::<f64>(), Just(f64::NAN), Just(-1.0), Just(1e300), 0.0..200.0])
}

fn any_device() -> impl Strategy<Value = GpuRates> {
    let numbers = prop::collection::vec(number(), 12);
    let sizes = prop::collection::vec(prop::option::of(any::<u64>()), 5);
    let small = prop::collection::vec(prop::option::of(any::<u32>()), 11);
    let process = (any::<u32>(), prop::option::of(any::<bool>()), prop::option::of(any::<u64>()), any::<bool>());
    let processes = prop::collection::vec(process, 0..4);
    (any::<u32>(), prop::option::of(any::<String>()), any::<[bool; 7]>(), numbers, sizes, small, processes).prop_map(
        |(
            index,
            name,
            [attached, lost, simulated, asleep, integrated, for_display, of_processes],
            n,
            sizes,
            small,
            processes,
        )| {
            GpuRates {
                index,
                name: name.as_deref().map(Arc::from),
                uuid: name.as_deref().map(Arc::from),
                attached,
                lost,
                simulated,
                asleep,
                integrated,
                for_display,
                of_processes,
                utilization_pct: n[0],
                job_utilization_pct: n[1],
                memory_utilization_pct: n[2],
                memory_used_bytes: sizes[0],
                memory_total_bytes: sizes[1],
                job_memory_bytes: sizes[2],
                power_w: n[3],
                power_limit_w: n[4],
                temperature_c: small[0],
                sm_clock_mhz: small[1],
                sm_clock_max_mhz: small[2],
                memory_clock_mhz: small[3],
                memory_clock_max_mhz: small[4],
                clock_event_reasons: sizes[3],
                pcie_rx_bytes_per_s: n[5],
                pcie_tx_bytes_per_s: n[6],
                pcie_capacity_bytes_per_s: n[7],
                pcie_generation: small[5],
                pcie_width: small[6],
                pcie_generation_max: small[7],
                pcie_width_max: small[8],
                ecc_uncorrected: sizes[4],
                mig: Some(simulated),
                vgpu: Some(lost),
                confidential: Some(asleep),
                by_mps: integrated,
                gpm_beside: name.as_deref().map(Arc::from),
                nvlink_rx_bytes_per_s: n[3],
                nvlink_tx_bytes_per_s: n[4],
                xids: Some(GpuXids { count: sizes[4].unwrap_or(0), last: small[10], last_ns: 0 }),
                sm_active_pct: n[8],
                tensor_active_pct: n[9],
                dram_active_pct: n[10],
                encoder_pct: small[9],
                decoder_pct: small[10],
                others: Vec::new(),
                job_pids: Vec::new(),
                processes: processes
                    .into_iter()
                    .map(|(pid, ours, memory_bytes, compute)| GpuProcessRates {
                        pid,
                        ours,
                        memory_bytes,
                        sm_utilization_pct: Some(pid),
                        compute,
                        mps_server: !compute,
                    })
                    .collect(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_at_any_size_with_any_numbers(
        gpus in prop::collection::vec(any_device(), 0..20),
        cpus in prop::collection::vec((any::<u16>(), any::<bool>(), any::<f32>(), any::<f32>()), 0..300),
        name in any::<String>(),
        values in prop::collection::vec(number(), 8),
        width in 0u16..260, height in 0u16..80, down in 0usize..12, ascii in any::<bool>(),
    ) {
        let size = (width, height);
        let mut app = fresh(if ascii { ASCII } else { *COLOR }, size);
        let mut frame = frame(1, Job::default());
        super_frame(&mut frame, &name, &values);
        frame.gpus = gpus;
        frame.host.cpus = cpus
            .into_iter()
            .map(|(cpu, allowed, busy_pct, steal_pct)| CpuRates { cpu, allowed, busy_pct, iowait_pct: steal_pct, steal_pct })
            .collect();
        tell(&mut app, frame, unknown());
        for key in ['3', '4'] {
            press(&mut app, KeyCode::Char(key));
            for _ in 0..down {
                let drawn = draw(&app, size);
                prop_assert!(!drawn.content.iter().any(|cell| cell.symbol().chars().any(char::is_control)));
                press(&mut app, KeyCode::PageDown);
            }
            draw(&app, size);
        }
    }
}

/// Threads, other_processes and totals of any value.
fn super_frame(frame: &mut Frame, name: &str, values: &[Option<f64>]) {
    cpus(8)(1, frame);
    let small = |v: Option<f64>| v.unwrap_or(f64::INFINITY) as f32;
    for thread in &mut frame.threads {
        thread.name = name.into();
        (thread.cpu_pct, thread.run_delay_pct) = (small(values[0]), small(values[1]));
    }
    for role in &mut frame.thread_roles {
        (role.cpu_pct, role.run_delay_share) = (values[2], values[3]);
    }
    for process in &mut frame.other_processes.as_mut().unwrap().processes {
        (process.comm, process.command) = (name.into(), name.into());
        process.cpu_pct = values[4].unwrap_or(f64::NAN);
    }
    let job = &mut frame.job;
    (job.cpu_quota_cores, job.throttled_share, job.cpu_pct, job.run_delay_share) =
        (values[5], values[6], values[7], values[0]);
    let host = &mut frame.host;
    (host.allowed_cpu_pct, host.steal_pct, host.psi_cpu_some_pct, host.psi_io_some_pct) =
        (values[1], values[2], values[3], values[4]);
    host.load = Some([small(values[5]); 3]);
}
