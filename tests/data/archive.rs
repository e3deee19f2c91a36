//! What an hour of a large job costs to keep: 33 processes, 64 CPUs, numbers with as many digits as real ones have.

use std::sync::Arc;

use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Advice, Class, Evidence, Subject, Unavailable, WorkerVerdict};
use trainmon::diagnosis::{Signal, Verdict};
use trainmon::history::archive::{Archive, Limits};
use trainmon::rates::frame::{CpuRates, GpuRates, HostRates, ProcessRates, StorageRates};
use trainmon::sample::{ProcessId, ProcessRole};
use trainmon::text::format::Unit;
use trainmon::waits::Frame;
use trainmon::waits::frame::{RankRates, WorkerRates};
use trainmon::waits::time_split::TimeSplit;

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

/// Second `t` of a rank with 32 workers on 64 CPUs and a device, with numbers that come about as the real ones do:
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
                rank: 1234,
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
            batches_per_s: Some(noise.below(3) as f64 / seconds),
            read_chars_per_s: Some(noise.below(20_000_000) as f64 / seconds),
            read_calls_per_s: Some(noise.below(300) as f64 / seconds),
            read_bytes_per_s: Some((noise.below(20) * 4096) as f64 / seconds),
            major_faults_per_s: Some(0.0),
            ..w
        })
        .collect();
    let processes = (0..33)
        .map(|n| ProcessRates {
            id: id(n),
            parent: 1234,
            role: if n == 0 { ProcessRole::Rank } else { ProcessRole::Worker },
            command: Arc::from("python train.py --data /data/imagenet --epochs 90 --batch-size 256"),
            comm: Arc::from("pt_data_worker"),
            state: if noise.below(3) == 0 { 'S' } else { 'R' },
            cpu_pct: Some((60 + noise.below(40)) as f64 / seconds),
            run_delay_share: Some(noise.below(20_000_000) as f64 / (seconds * 1e9)),
            rss_bytes: 812 << 20 | noise.below(16) << 12,
            read_bytes_per_s: Some((noise.below(20) * 4096) as f64 / seconds),
            write_bytes_per_s: Some(0.0),
            threads: 3,
            gpu_memory_bytes: None,
            ..ProcessRates::default()
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
        host: HostRates { cpus: cpus.collect(), ..Default::default() },
        workers,
        processes,
        ranks: vec![RankRates {
            id: id(0),
            seconds_seen: seconds,
            split_s: TimeSplit { input_wait: noise.below(1000) as f64 * seconds / 1000.0, ..TimeSplit::default() },
            wait_lengths_s: (0..20).map(|_| noise.below(50_000_000) as f32 / 1e9).collect(),
            step_lengths_s: (0..20).map(|_| noise.below(100_000_000) as f32 / 1e9).collect(),
            gpu_idle_s: Some([0.1, 0.2, 0.0, 0.0, noise.below(100) as f64 / 100.0].into()),
            ..RankRates::default()
        }],
        storage: StorageRates {
            read_bytes_per_s: Some(noise.below(20_000_000) as f64 / seconds),
            ..Default::default()
        },
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
        cause: Some(Cause::TooFewWorkers),
        confidence: share,
        summary: format!(
            "The main thread waits {:.0} % of its time for a batch: the workers are busy",
            share * 100.0
        ),
        shares: Some(TimeSplit { input_wait: share, host_busy: 1.0 - share, ..TimeSplit::default() }),
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
        evidence: [
            Signal::InputWait,
            Signal::WorkersBusy,
            Signal::GpuBusy,
            Signal::MainRunDelay,
            Signal::MainRead,
            Signal::DiskBusy,
        ]
        .map(|signal| Evidence {
            signal,
            value: Some(noise.below(1_000_000) as f64 / 1_000_003.0),
            unit: Unit::Share,
            threshold: Some(0.1),
            text: format!("{} is {:.1} % of the time, which is over its threshold", signal.word(), share * 100.0),
            from: None,
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
        not_seen: vec![Unavailable { what: Subject::Stacks.into(), why: "py-spy is not there".into(), fix: None }],
        ..Verdict::default()
    }
}

fn moments(count: u64) -> Vec<(Arc<Frame>, Arc<Verdict>)> {
    let mut noise = Noise(88_172_645_463_325_252);
    (0..count).map(|t| (Arc::new(busy(t, &mut noise)), Arc::new(verdict(Class::DataLoader, &mut noise)))).collect()
}

#[test]
fn an_hour_of_a_large_job_fits_twice() {
    let mut archive = Archive::new(Limits::default());
    let mut packed = 0;
    for (n, (frame, verdict)) in moments(353).iter().enumerate() {
        archive.push(Arc::clone(frame), Arc::clone(verdict), 0);
        // As many as at the end are not compressed here: none but the newest.
        if n == 32 {
            packed = archive.bytes();
        }
    }
    let each = (archive.bytes() - packed) / 320;
    assert!(each * 3600 * 2 < Limits::default().bytes, "{each} bytes a moment");
}
