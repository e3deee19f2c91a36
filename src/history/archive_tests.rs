use std::time::Instant;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::diagnosis::verdict::{Advice, Evidence, NotSeen, Shares, WorkerVerdict};
use crate::rates::frame::{CpuRates, GpuRates, ProcessRates, StorageRates, TrainerRates, WorkerRates};
use crate::sample::{ProcessId, ProcessRole};

/// Numbers that look random and are the same every time.
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Second `t` of a trainer with 32 workers on 64 CPUs and a device, with numbers that come about as the real ones do:
/// CPU time in ticks and bytes over an interval that is never quite a second, shares of a whole number of looks.
fn busy(t: u64, noise: &mut Noise) -> Frame {
    let seconds = 1.0 + (noise.below(400_000) as f64 - 200_000.0) / 1e9;
    let id = |n: u64| ProcessId { pid: 1234 + n as u32, start_ticks: 77_000 + n };
    let mut looks = |of: u64| noise.below(of) as f64 / 40.0;
    let workers = (1..33)
        .map(|n| {
            let (busy, io_wait) = (looks(30), looks(8));
            WorkerRates {
                id: id(n),
                trainer: 1234,
                busy: Some(busy),
                io_wait: Some(io_wait),
                runnable: Some(0.025),
                idle: Some(0.975 - busy - io_wait),
                disk_wait: Some(io_wait),
                socket_wait: Some(0.0),
                ..WorkerRates::default()
            }
        })
        .collect::<Vec<_>>();
    let workers = workers
        .into_iter()
        .map(|w| WorkerRates {
            cpu_pct: Some((60 + noise.below(40)) as f64 / seconds),
            active_threads: 1,
            batches_s: Some(noise.below(3) as f64 / seconds),
            read_chars_s: Some(noise.below(20_000_000) as f64 / seconds),
            read_calls_s: Some(noise.below(300) as f64 / seconds),
            read_bytes_s: Some((noise.below(20) * 4096) as f64 / seconds),
            major_faults_s: Some(0.0),
            ..w
        })
        .collect();
    let processes = (0..33)
        .map(|n| ProcessRates {
            id: id(n),
            parent: 1234,
            role: if n == 0 { ProcessRole::Trainer } else { ProcessRole::Worker },
            command: Arc::from("python train.py --data /data/imagenet --epochs 90 --batch-size 256"),
            comm: Arc::from("pt_data_worker"),
            state: if noise.below(3) == 0 { 'S' } else { 'R' },
            cpu_pct: Some((60 + noise.below(40)) as f64 / seconds),
            run_delay_share: Some(noise.below(20_000_000) as f64 / (seconds * 1e9)),
            rss_bytes: 812 << 20 | noise.below(16) << 12,
            read_bytes_s: Some((noise.below(20) * 4096) as f64 / seconds),
            write_bytes_s: Some(0.0),
            threads: 3,
            gpu_memory_bytes: None,
        })
        .collect();
    let cpus = (0..64).map(|cpu| CpuRates {
        cpu,
        allowed: true,
        busy_pct: (noise.below(100) as f64 / seconds) as f32,
        ..CpuRates::default()
    });
    Frame {
        sequence: t,
        unix_ms: 1_760_000_000_000 + t as i64 * 1000,
        monotonic_ns: 5_000_000_000_000 + t * 1_000_000_000,
        seconds,
        alive: true,
        state: 'S',
        host: crate::rates::frame::HostRates { cpus: cpus.collect(), ..Default::default() },
        workers,
        processes,
        trainers: vec![TrainerRates {
            id: id(0),
            seconds_seen: seconds,
            input_wait_s: noise.below(1000) as f64 * seconds / 1000.0,
            wait_lengths_s: (0..20).map(|_| noise.below(50_000_000) as f32 / 1e9).collect(),
            step_lengths_s: (0..20).map(|_| noise.below(100_000_000) as f32 / 1e9).collect(),
            device_idle_s: Some([0.1, 0.2, 0.0, 0.0, noise.below(100) as f64 / 100.0]),
            ..TrainerRates::default()
        }],
        storage: StorageRates { read_bytes_s: Some(noise.below(20_000_000) as f64 / seconds), ..Default::default() },
        gpus: vec![GpuRates {
            uuid: Some("GPU-8f1d7a52-0000-0000-0000-000000000000".into()),
            name: Some("NVIDIA H100".into()),
            attached: true,
            utilization_pct: Some(noise.below(100) as f64),
            power_w: Some(noise.below(700_000) as f64 / 1000.0),
            ..GpuRates::default()
        }],
        ..Frame::default()
    }
}

fn verdict(class: Class, noise: &mut Noise) -> Verdict {
    let share = noise.below(1_000_000) as f64 / 1_000_003.0;
    Verdict {
        schema: 1,
        trainmon: "0.1.0".into(),
        command: "python train.py --data /data/imagenet --epochs 90 --batch-size 256".into(),
        class,
        cause: Some("too-few-workers".into()),
        confidence: share,
        summary: format!(
            "The main thread waits {:.0} % of its time for a batch: the workers are busy",
            share * 100.0
        ),
        shares: Some(Shares { input_wait: share, host_busy: 1.0 - share, ..Shares::default() }),
        workers: (1..33)
            .map(|pid| WorkerVerdict {
                pid,
                busy: Some(noise.below(1_000_000) as f64 / 1_000_003.0),
                io_wait: Some(share / 10.0),
                runnable: Some(0.025),
                idle: Some(noise.below(1_000_000) as f64 / 1_000_003.0),
                batches_per_s: Some(0.19),
                ..WorkerVerdict::default()
            })
            .collect(),
        evidence: ["input_wait", "workers_busy", "gpu_idle", "run_delay", "read_rate", "disk_util"]
            .map(|signal| Evidence {
                signal: signal.into(),
                value: Some(noise.below(1_000_000) as f64 / 1_000_003.0),
                unit: "share".into(),
                threshold: Some(0.1),
                text: format!("{signal} is {:.1} % of the time, which is over its threshold", share * 100.0),
            })
            .to_vec(),
        advice: vec![
            Advice {
                title: "Raise num_workers from 32 to 48".into(),
                why: "All workers are busy while the main thread waits, and CPUs are free".into(),
                speedup_at_most: Some(1.0 + share),
                predicted_step_ms: Some(share * 200.0),
            };
            3
        ],
        not_seen: vec![NotSeen { what: "stacks".into(), why: "py-spy is not there".into(), mend: None }],
        ..Verdict::default()
    }
}

#[test]
#[ignore = "measures: cargo test --release archive -- --ignored --nocapture"]
fn cost_of_an_hour() {
    let mut noise = Noise(88_172_645_463_325_252);
    let moments: Vec<_> =
        (0..3600).map(|t| (busy(t, &mut noise), Arc::new(verdict(Class::DataLoader, &mut noise)))).collect();
    let mut archive = Archive::new(Limits::default());
    let start = Instant::now();
    let mut longest = 0.0f64;
    for (frame, verdict) in &moments {
        let one = Instant::now();
        archive.push(frame);
        archive.judge(verdict, None);
        longest = longest.max(one.elapsed().as_secs_f64());
    }
    let each = start.elapsed().as_secs_f64() / 3600.0;
    println!("push and judge: {:.0} µs, the longest {:.0} µs", each * 1e6, longest * 1e6);
    println!("{} moments in {:.2} MiB", archive.len(), archive.bytes() as f64 / f64::from(1 << 20));
    let mut all: Vec<_> = (0..archive.len() as u64)
        .map(|n| {
            let one = Instant::now();
            assert!(archive.load(MomentId(archive.first().unwrap().id.0 + n)).is_some());
            one.elapsed()
        })
        .collect();
    all.sort_unstable();
    println!("load: median {:?}, longest {:?}", all[all.len() / 2], all[all.len() - 1]);
    let mut plain = Packed::default();
    packed::pack(&mut plain, &moments[7]).unwrap();
    let (bytes, floats) = (plain.bytes.len(), plain.floats.len());
    println!(
        "a moment: {bytes} bytes and {floats} of floats, {} as JSON",
        serde_json::to_vec(&moments[7]).unwrap().len()
    );
}

/// One tick of a made-up run.
#[derive(Debug, Clone)]
struct Tick {
    /// How far the clock moves; it may go backwards.
    by_ns: i64,
    /// Share of that time which the frame covers.
    covers: f64,
    gap: bool,
    processes: usize,
    value: f64,
    verdict: Option<(usize, Option<u8>)>,
}

fn tick() -> impl Strategy<Value = Tick> {
    let by_ns = prop_oneof![20 => 100_000_000..20_000_000_000i64, 2 => Just(0i64), 1 => any::<i64>()];
    let verdict = option::weighted(0.8, (0..3usize, option::of(0..2u8)));
    let covers = prop_oneof![4 => Just(1.0), 1 => 0.0..1.0f64, 1 => Just(f64::NAN)];
    (by_ns, covers, any::<bool>(), 0..20usize, any::<f64>(), verdict).prop_map(
        |(by_ns, covers, gap, processes, value, verdict)| Tick { by_ns, covers, gap, processes, value, verdict },
    )
}

/// What was pushed: the frame, and the verdict that it was judged with.
type Pushed = (Frame, Option<Arc<Verdict>>);

fn run(archive: &mut Archive, ticks: &[Tick], mut after_each: impl FnMut(&Archive)) -> Vec<Pushed> {
    let mut now = 1_000_000_000_000u64;
    let mut pushed = Vec::new();
    for (n, tick) in ticks.iter().enumerate() {
        now = now.saturating_add_signed(tick.by_ns);
        let processes =
            ProcessRates { cpu_pct: Some(tick.value), command: "x".repeat(50).into(), ..Default::default() };
        let frame = Frame {
            sequence: n as u64,
            monotonic_ns: now,
            seconds: tick.by_ns.max(0) as f64 / 1e9 * tick.covers,
            gap: tick.gap,
            state: 'S',
            own_cpu_pct: Some(tick.value),
            processes: vec![processes; tick.processes],
            ..Frame::default()
        };
        archive.push(&frame);
        after_each(archive);
        let verdict = tick.verdict.map(|(class, cause)| {
            let cause = cause.map(|c| format!("cause {c}"));
            Arc::new(Verdict { class: Class::ALL[class], cause, ..Verdict::default() })
        });
        if let Some(verdict) = &verdict {
            // Judged twice: only the last counts.
            archive.judge(&Arc::new(Verdict { class: Class::Idle, ..Verdict::default() }), None);
            archive.judge(verdict, Some(now));
        }
        after_each(archive);
        pushed.push((frame, verdict));
    }
    pushed
}

/// Positions at which class or cause differ from those of the last judged moment before.
fn changes(pushed: &[Pushed]) -> Vec<u64> {
    let judged: Vec<(u64, &Verdict)> =
        pushed.iter().enumerate().filter_map(|(n, (_, v))| Some((n as u64, v.as_deref()?))).collect();
    let differ = |pair: &&[(u64, &Verdict)]| pair[0].1.class != pair[1].1.class || pair[0].1.cause != pair[1].1.cause;
    judged.windows(2).filter(differ).map(|pair| pair[1].0).collect()
}

fn json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_comes_is_kept_within_the_limits_and_given_back(
        ticks in vec(tick(), 1..150), span_s in 0..600u64, bytes in 0..400_000usize,
    ) {
        let limits = Limits { span: Duration::from_secs(span_s), bytes };
        let mut archive = Archive::new(limits);
        let pushed = run(&mut archive, &ticks, |archive| {
            assert!(archive.bytes() <= bytes || archive.len() == 1, "{} bytes", archive.bytes());
            let ids: Vec<u64> = archive.stamps.iter().map(|s| s.id.0).collect();
            assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            let now = archive.last().unwrap().monotonic_ns;
            let series = archive.stamps.iter().filter(|s| s.id >= archive.series);
            assert!(series.clone().is_sorted_by_key(|s| s.monotonic_ns));
            let old = series.filter(|s| u128::from(now - s.monotonic_ns) > limits.span.as_nanos()).count();
            assert!(old < BLOCK, "{old} are too old");
        });
        let first = archive.first().unwrap().id.0;
        prop_assert_eq!(archive.last().unwrap().id.0 + 1, pushed.len() as u64);
        let changes: Vec<u64> = changes(&pushed).into_iter().filter(|id| *id >= first).collect();
        for (n, (frame, verdict)) in pushed.iter().enumerate() {
            let id = MomentId(n as u64);
            prop_assert_eq!(archive.stamp(id).is_some(), id.0 >= first);
            let Some(moment) = archive.load(id) else {
                prop_assert!(id.0 < first);
                continue;
            };
            prop_assert_eq!(json(&moment.frame), json(frame));
            prop_assert_eq!(&moment.verdict, verdict);
            prop_assert_eq!(moment.since_ns, verdict.as_ref().map(|_| frame.monotonic_ns));
            let stamp = archive.stamp(id).unwrap();
            prop_assert_eq!((stamp.monotonic_ns, stamp.gap), (frame.monotonic_ns, frame.gap));
            prop_assert_eq!(stamp.class, verdict.as_ref().map(|v| v.class));
            prop_assert_eq!(stamp.cause.as_deref(), verdict.as_ref().and_then(|v| v.cause.as_deref()));
            let next = changes.iter().find(|c| **c > id.0);
            prop_assert_eq!(archive.change(id, true), next.map(|c| MomentId(*c)));
            let before = changes.iter().rev().find(|c| **c < id.0);
            prop_assert_eq!(archive.change(id, false), before.map(|c| MomentId(*c)));
        }
    }

    #[test]
    fn a_time_finds_the_moment_that_holds_it_or_the_nearest(ticks in vec(tick(), 1..60), at in any::<f64>()) {
        let mut archive = Archive::new(Limits::default());
        run(&mut archive, &ticks, |_| {});
        let series: Vec<&Stamp> = archive.stamps.iter().filter(|s| s.id >= archive.series).collect();
        let (from, to) = (series[0].monotonic_ns, series[series.len() - 1].monotonic_ns);
        let inside = from + ((to - from) as f64 * at.fract().abs().min(1.0)) as u64;
        for ns in [inside, from, to, 0, u64::MAX] {
            let found = archive.stamp(archive.at(ns).unwrap()).unwrap();
            let holds = |s: &&&Stamp| {
                let length = (s.seconds.max(0.0) * 1e9) as u64;
                s.monotonic_ns.saturating_sub(length) < ns && ns <= s.monotonic_ns
            };
            let nearest = series.iter().map(|s| s.monotonic_ns.abs_diff(ns)).min().unwrap();
            match series.iter().find(holds) {
                Some(holder) => prop_assert_eq!(found.monotonic_ns, holder.monotonic_ns),
                None => prop_assert_eq!(found.monotonic_ns.abs_diff(ns), nearest),
            }
        }
    }

    #[test]
    fn steps_stay_inside(ticks in vec(tick(), 1..60), id in any::<u64>(), by in any::<i64>()) {
        let mut archive = Archive::new(Limits { bytes: 20_000, ..Limits::default() });
        run(&mut archive, &ticks, |_| {});
        for id in [MomentId(id), archive.last().unwrap().id] {
            for by in [by, -1, 1] {
                let stepped = archive.step(id, by).unwrap();
                prop_assert!(archive.stamp(stepped).is_some());
            }
        }
    }
}

#[test]
fn nothing_is_found_in_an_archive_of_nothing() {
    let mut archive = Archive::new(Limits::default());
    archive.judge(&Arc::default(), None);
    assert!(archive.is_empty() && archive.first().is_none() && archive.last().is_none());
    assert!(archive.at(7).is_none() && archive.step(MomentId(0), 1).is_none());
    assert!(archive.change(MomentId(0), true).is_none() && archive.load(MomentId(0)).is_none());
}

#[test]
fn an_hour_at_ten_a_second_fits_and_an_hourly_moment_too() {
    let step = |ns: u64, count: u64| {
        let mut archive = Archive::new(Limits::default());
        for n in 0..count {
            archive.push(&Frame { monotonic_ns: n * ns, seconds: ns as f64 / 1e9, ..Frame::default() });
        }
        archive
    };
    let fast = step(100_000_000, 40_000);
    assert!((36_001..36_001 + BLOCK).contains(&fast.len()), "{}", fast.len());
    let slow = step(3_600_000_000_000, 100);
    assert!((2..=1 + BLOCK).contains(&slow.len()), "{}", slow.len());
}

#[test]
fn a_damaged_block_gives_nothing() {
    let mut archive = Archive::new(Limits::default());
    for n in 0..60u64 {
        archive.push(&Frame { sequence: n, monotonic_ns: n, ..Frame::default() });
    }
    let whole = archive.blocks[0].packed.clone();
    let end = *archive.blocks[0].ends.last().unwrap();
    for ends in [vec![], vec![(9, 9), (3, 3), end]] {
        let block = Block { ends, packed: whole.clone() };
        for place in 0..3 {
            assert!(unpack(&block, place).is_none());
        }
    }
    let mut broken = whole;
    broken.truncate(7);
    assert!(unpack(&Block { ends: vec![end], packed: broken }, 0).is_none());
}
