//! Metrics of a large machine and of nothing, and of hostile values: names, labels, limits, both formats.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use trainmon_diagnosis::fleet::query::{FleetQuery, HOLD_DOWN};
use trainmon_rates::frame::{HostRates, JobRates};
use trainmon_sample::gpu::CLOCK_EVENT_REASONS;
use trainmon_sample::{JobSample, ProcessId, RankPlace, RunIdentity, Sample};
use trainmon_waits::Frame;
use trainmon_waits::frame::{RankRates, WorkerRates};
use trainmon_waits::time_split::TimeSplit;

/// Labels that a scraper sets.
const OF_THE_SCRAPER: [&str; 4] = ["job", "instance", "node", "pod"];

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: 1 }
}

/// A machine of 16 GPUs whose 16 ranks have four workers each, with everything measured.
fn large() -> ExportedMachine {
    let gpus = (0..16).map(|index| GpuRates {
        index,
        uuid: Some(format!("GPU-{index:08}").into()),
        name: Some("NVIDIA H100 80GB HBM3".into()),
        attached: true,
        utilization_pct: Some(97.0),
        memory_utilization_pct: Some(50.0),
        memory_used_bytes: Some(60 << 30),
        memory_total_bytes: Some(80 << 30),
        power_w: Some(650.0),
        power_limit_w: Some(700.0),
        temperature_c: Some(60),
        sm_clock_mhz: Some(1755),
        sm_clock_max_mhz: Some(1980),
        clock_event_reasons: Some(0x4),
        pcie_rx_bytes_per_s: Some(1e9),
        pcie_tx_bytes_per_s: Some(1e9),
        sm_active_pct: Some(80.0),
        tensor_active_pct: Some(40.0),
        dram_active_pct: Some(60.0),
        ecc_uncorrected: Some(0),
        job_pids: vec![100 + index],
        ..GpuRates::default()
    });
    let ranks = (0..16).map(|rank| RankRates {
        id: id(100 + rank),
        place: Some(RankPlace { rank: 32 + rank, world: 64, local_world: Some(16) }),
        seconds_seen: 1.0,
        split_s: TimeSplit { host_busy: 1.0, ..TimeSplit::default() },
        steps: Some(2),
        ..RankRates::default()
    });
    let worker = |at: u32| WorkerRates {
        id: id(1000 + at),
        rank: 100 + at / 4,
        busy: Some(0.5),
        io_wait: Some(0.1),
        runnable: Some(0.1),
        idle: Some(0.3),
        batches_per_s: Some(0.5),
        ..WorkerRates::default()
    };
    let frame = Frame {
        monotonic_ns: 5_000_000_000,
        seconds: 1.0,
        alive: true,
        gpus: gpus.collect(),
        ranks: ranks.collect(),
        workers: (0..64).map(worker).collect(),
        host: HostRates { memory_available_bytes: Some(1 << 40), ..HostRates::default() },
        job: JobRates { cpu_pct: Some(6400.0), ..JobRates::default() },
        ..Frame::default()
    };
    let ranks = (0..16).map(|rank| trainmon_diagnosis::diagnosis::verdict::Rank {
        pid: 100 + rank,
        rank: Some(32 + rank),
        shares: TimeSplit { other: 0.4, host_busy: 0.6, ..TimeSplit::default() },
        collectives: Some(0.3),
        straggler: rank == 3,
        at: None,
        steps_per_s: Some(9.9),
    });
    let verdict =
        trainmon_diagnosis::diagnosis::Verdict { ranks: ranks.collect(), ..crate::testing_views::verdict() };
    let run =
        RunIdentity { name: Some("llama".into()), slurm_job_id: Some("77".into()), ends_unix_s: Some(1_790_000_000) };
    let sample = Sample { job: Some(Arc::new(JobSample { run, ..JobSample::default() })), ..Sample::default() };
    let verdict = Arc::new(verdict);
    let tick = Arc::new(Tick {
        sample: Arc::new(sample),
        frame: Arc::new(frame),
        judged: Arc::clone(&verdict),
        verdict,
        alive: true,
        ..Tick::default()
    });
    let mut counters = JobCounters::default();
    counters.add(&tick);
    let job = FollowedJob { pid: 99, name: None, tick: Some(tick), answers: true, counters };
    let own = OwnProcess {
        cpu_s: Some(1.5),
        rss_bytes: Some(9 << 20),
        descriptors: Some(50),
        started_unix_s: Some(1.79e9),
    };
    ExportedMachine { jobs: vec![job], own, ..ExportedMachine::default() }
}

/// The series of a text: name and labels, with the value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<(String, f64)> = lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect();
    let by_name: BTreeMap<String, f64> = series.iter().cloned().collect();
    assert_eq!(by_name.len(), series.len(), "no series is there twice");
    by_name
}

#[test]
fn a_large_machine_has_few_enough_series_and_all_of_its_ranks_and_workers() {
    let (text, kind) = exposition(&large(), true);
    assert_eq!(kind, OPEN_METRICS_TYPE);
    assert!(text.ends_with("# EOF\n"));
    let series = series(&text);
    assert!((1_000..=MOST_SERIES).contains(&series.len()), "{}", series.len());
    assert_eq!(series["trainmon_left_out_series{}"], 0.0);
    let job = r#"pid="99",training_job="llama",slurm_job_id="77""#;
    for (name, value) in [
        (format!(r#"trainmon_verdict{{{job},class="data-loader"}}"#), 1.0),
        (format!(r#"trainmon_verdict{{{job},class="io"}}"#), 0.0),
        (format!(r#"trainmon_verdict_info{{{job},class="data-loader",cause="too-few-workers"}}"#), 1.0),
        (format!(r#"trainmon_verdict_seconds_total{{{job},class="data-loader"}}"#), 1.0),
        (format!("trainmon_job_end_time_seconds{{{job}}}"), 1.79e9),
        (format!("trainmon_job_cpu_seconds_total{{{job}}}"), 64.0),
        (format!(r#"trainmon_rank_late{{{job},rank="35"}}"#), 1.0),
        (format!(r#"trainmon_rank_late{{{job},rank="36"}}"#), 0.0),
        (format!(r#"trainmon_rank_steps_total{{{job},rank="47"}}"#), 2.0),
        (format!(r#"trainmon_rank_gpu_info{{{job},rank="33",gpu="1",UUID="GPU-00000001"}}"#), 1.0),
        (format!(r#"trainmon_worker_time_ratio{{{job},rank="47",worker="3",state="busy"}}"#), 0.5),
        (r#"trainmon_gpu_utilization_ratio{gpu="15",UUID="GPU-00000015"}"#.to_owned(), 0.97),
        (r#"trainmon_gpu_clock_event{gpu="0",UUID="GPU-00000000",reason="power-cap"}"#.to_owned(), 1.0),
        (r#"trainmon_gpu_sm_clock_hertz{gpu="0",UUID="GPU-00000000"}"#.to_owned(), 1.755e9),
        ("trainmon_host_memory_available_bytes{}".to_owned(), f64::from(1 << 20) * f64::from(1 << 20)),
    ] {
        assert_eq!(series.get(&name), Some(&value), "{name}");
    }
}

#[test]
fn names_are_ours_and_no_label_is_the_scraper_s_or_a_command_line() {
    let (text, _) = exposition(&large(), false);
    for name in series(&text).keys() {
        let (name, labels) = name.split_once('{').unwrap();
        assert!(name.starts_with("trainmon_") && !name.contains("__"), "{name}");
        let labels: BTreeSet<&str> =
            labels.split(',').filter_map(|label| label.split_once('=')).map(|(key, _)| key).collect();
        assert!(OF_THE_SCRAPER.iter().all(|label| !labels.contains(label)), "{name} {labels:?}");
    }
    assert!(!text.contains("train.py") && !text.contains("python"));
}

#[test]
fn prometheus_own_format_describes_counters_by_their_whole_name() {
    let (text, kind) = exposition(&large(), false);
    assert_eq!(kind, PLAIN_TYPE);
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    assert!(text.contains(
        "# HELP trainmon_rank_steps_total steps\n# TYPE trainmon_rank_steps_total counter\ntrainmon_rank_steps_total{"
    ));
    assert!(
        text.contains("# TYPE trainmon_verdict gauge\n")
            && text.contains("# TYPE trainmon_verdict_seconds_total counter\n")
    );
    let (open, _) = exposition(&large(), true);
    assert_eq!(series(&open), series(&text), "the same in both formats");
}

#[test]
fn what_is_not_measured_has_no_series() {
    let tick = Arc::new(Tick { alive: true, ..Tick::default() });
    let job = |tick| FollowedJob { pid: 7, name: None, tick, answers: false, counters: JobCounters::default() };
    let machine = ExportedMachine { jobs: vec![job(Some(tick)), job(None)], ..ExportedMachine::default() };
    let (text, _) = exposition(&machine, false);
    let names: BTreeSet<String> =
        series(&text).into_keys().map(|name| name.split('{').next().unwrap().to_owned()).collect();
    let known = [
        "trainmon_up",
        "trainmon_build_info",
        "trainmon_followed_jobs",
        "trainmon_left_out_jobs",
        "trainmon_left_out_series",
        "trainmon_verdict",
        "trainmon_verdict_info",
        "trainmon_verdict_confidence_ratio",
        "trainmon_verdict_age_seconds",
        "trainmon_verdict_seconds_total",
        "trainmon_phase",
        "trainmon_job_workers",
        "trainmon_source_up",
    ];
    assert_eq!(names, known.map(str::to_owned).into());
    assert_eq!(series(&text)["trainmon_up{}"], 0.0);
}

#[test]
fn too_many_series_lose_whole_metrics_of_the_smallest_things() {
    let machine = large();
    let jobs = (0..4).map(|at| FollowedJob { pid: 99 + at, ..machine.jobs[0].clone() }).collect();
    let (text, _) = exposition(&ExportedMachine { jobs, ..machine }, false);
    let series = series(&text);
    assert!(series.len() <= MOST_SERIES, "{}", series.len());
    assert!(series["trainmon_left_out_series{}"] > 0.0);
    assert!(series.keys().all(|name| !name.starts_with("trainmon_worker_batches")));
    assert_eq!(series.keys().filter(|name| name.starts_with("trainmon_rank_late")).count(), 64);
}

#[test]
fn the_tables_of_the_docs_are_what_is_written() {
    let described: BTreeSet<String> = tables().into_iter().flat_map(|(_, rows)| rows).map(|row| row.name).collect();
    let (text, _) = exposition(&large(), false);
    for name in series(&text).into_keys() {
        assert!(described.contains(name.split('{').next().unwrap()), "{name}");
    }
}

#[test]
fn sums_leave_out_gaps_and_what_is_no_number() {
    let mut counters = JobCounters::default();
    let frame = |gap, cpu_pct| Frame {
        seconds: 2.0,
        gap,
        job: JobRates { cpu_pct, ..JobRates::default() },
        ..Frame::default()
    };
    for frame in [
        frame(false, Some(50.0)),
        frame(true, Some(100.0)),
        frame(false, None),
        frame(false, Some(f64::NAN)),
        frame(false, Some(-5.0)),
    ] {
        counters.add(&Tick { frame: Arc::new(frame), ..Tick::default() });
    }
    assert_eq!((counters.cpu_s, counters.read_bytes), (Some(1.0), None));
}

proptest! {
    #[test]
    fn hostile_names_and_numbers_stay_one_line_each(name in ".*", uuid in ".*", number in any::<f64>()) {
        let mut machine = large();
        let job = &mut machine.jobs[0];
        job.name = Some(name.as_str().into());
        let mut tick = Tick::clone(job.tick.as_ref().unwrap());
        let mut frame = Frame::clone(&tick.frame);
        frame.gpus.truncate(1);
        frame.gpus[0].uuid = Some(uuid.as_str().into());
        frame.gpus[0].power_w = Some(number);
        tick.frame = Arc::new(frame);
        job.tick = Some(Arc::new(tick));
        let (text, _) = exposition(&machine, false);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            prop_assert!(line.starts_with("trainmon_") && line.len() < 2_000, "{line}");
            let (_, value) = line.rsplit_once(' ').unwrap();
            prop_assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            prop_assert!(!line.chars().any(char::is_control), "{line}");
        }
    }
}

#[test]
fn what_fleet_asks_for_is_exported() {
    let tables = tables();
    let names: Vec<&str> = tables.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.name.as_str())).collect();
    let text: String = FleetQuery::ALL.iter().map(|query| query.text(Duration::from_secs(300)) + " ").collect();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics: Vec<&str> = words.filter(|word| word.starts_with("trainmon_")).collect();
    assert!(metrics.len() >= FleetQuery::COUNT && metrics.iter().all(|name| names.contains(name)), "{metrics:?}");
    assert!(HOLD_DOWN.iter().all(|held| CLOCK_EVENT_REASONS.iter().any(|(_, reason)| reason == held)));
    assert!(text.contains("[300000ms]"));
}
