//! Runs of one piece after the other, and what is said of each in short.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::verdict::Advice;
use trainmon_diagnosis::history::interval::Interval;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_diagnosis::watch::{WatchOptions, Watcher};
use trainmon_rates::frame::GpuRates;
use trainmon_sample::{CgroupSample, EndingSample, JobSample, OutputEnd, ProcessId, ProcessSample, Sample};
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;

/// Seconds of a run that are alike.
#[derive(Debug, Clone)]
struct Piece {
    seconds: usize,
    phase: Phase,
    verdict: (Class, Option<Cause>),
    /// Share of the loop's time.
    waiting: f64,
    saving: f64,
    step_s: f32,
    gpu_used_pct: Option<f64>,
    /// Its training process, and the processes of its control group that were killed so far.
    rank: u32,
    oom_kills: u64,
}

fn training(seconds: usize) -> Piece {
    Piece {
        seconds,
        phase: Phase::Training,
        verdict: (Class::Balanced, None),
        waiting: 0.0,
        saving: 0.0,
        step_s: 0.1,
        gpu_used_pct: None,
        rank: 7,
        oom_kills: 0,
    }
}

fn waiting(seconds: usize, waiting: f64) -> Piece {
    Piece { verdict: (Class::DataLoader, Some(Cause::TooFewWorkers)), waiting, ..training(seconds) }
}

fn in_phase(phase: Phase, seconds: usize) -> Piece {
    Piece { phase, verdict: (Class::Idle, None), ..training(seconds) }
}

fn tick(second: usize, piece: &Piece, ending: Option<EndingSample>) -> Arc<Tick> {
    let advice = Advice { title: "Raise num_workers from 2 to 6".into(), ..Advice::default() };
    let (class, cause) = piece.verdict;
    let verdict = Verdict {
        pid: 7,
        phase: piece.phase,
        class,
        cause,
        confidence: 0.9,
        summary: "Nothing moves.".into(),
        advice: if cause.is_some() { vec![advice] } else { Vec::new() },
        ..Verdict::default()
    };
    let own_work = 1.0 - piece.waiting - piece.saving;
    let split_s = TimeSplit {
        input_wait: piece.waiting,
        checkpoint: piece.saving,
        host_busy: own_work,
        ..TimeSplit::default()
    };
    let trains = piece.phase == Phase::Training;
    let count = (1.0 / piece.step_s).round() as usize;
    let id = ProcessId { pid: piece.rank, start_ticks: u64::from(piece.rank) };
    let rank = RankRates {
        id,
        split_s,
        steps: trains.then_some(count as u64),
        step_lengths_s: if trains { vec![piece.step_s; count] } else { Vec::new() },
        ..RankRates::default()
    };
    let gpu = piece.gpu_used_pct.map(|used| GpuRates {
        attached: true,
        utilization_pct: Some(used),
        power_w: Some(100.0),
        ..GpuRates::default()
    });
    let frame = Frame {
        unix_ms: second as i64 * 1000,
        monotonic_ns: second as u64 * 1_000_000_000,
        seconds: 1.0,
        ranks: vec![rank],
        gpus: gpu.into_iter().collect(),
        ..Frame::default()
    };
    let alive = ending.is_none();
    let cgroup = CgroupSample { oom_kills: Some(piece.oom_kills), ..CgroupSample::default() };
    let processes = vec![ProcessSample { id, ..ProcessSample::default() }];
    let job = JobSample { alive, processes, cgroup, ..JobSample::default() };
    let sample = Sample { job: Some(Arc::new(job)), ending: ending.map(Arc::new), ..Sample::default() };
    let shares = frame.loop_shares();
    let (frame, verdict, sample) = (Arc::new(frame), Arc::new(verdict), Arc::new(sample));
    Arc::new(Tick { frame, verdict, sample, alive, shares, ..Tick::default() })
}

/// A run of these pieces that ends so.
fn run(pieces: &[Piece], ending: Option<EndingSample>) -> (Totals, RunStory) {
    let (mut totals, mut story) = (Totals::default(), RunStory::default());
    let mut watcher = Watcher::new(WatchOptions::default());
    let seconds = pieces.iter().flat_map(|piece| std::iter::repeat_n(piece, piece.seconds));
    let mut ticks: Vec<_> = seconds.enumerate().map(|(second, piece)| tick(second, piece, None)).collect();
    if let (Some(last), Some(ending)) = (pieces.last(), ending) {
        ticks.push(tick(ticks.len(), last, Some(ending)));
    }
    for tick in ticks {
        totals.add(&Interval::new(&tick.frame, &tick.verdict, tick.shares), &tick.verdict);
        watcher.push(&tick).iter().for_each(|event| story.push(event));
    }
    (totals, story)
}

/// All that is said, one line each.
fn told(summary: &RunSummary<'_>) -> Vec<String> {
    let mut lines = vec![summary.answer()];
    lines.extend(summary.lines());
    lines.extend(summary.costliest());
    for section in summary.sections() {
        lines.push(format!("# {}", section.title));
        match &section.body {
            SectionBody::Points(points) => {
                lines.extend(points.iter().map(|point| format!("{}: {}", point.name, point.text)));
            }
            SectionBody::Table(_, rows) => lines.extend(rows.iter().map(|row| row.join(" | "))),
            SectionBody::Tree(tree) => lines.extend(tree.iter().map(|(lead, text)| format!("{lead}{text}"))),
            other => panic!("{other:?}"),
        }
        lines.extend(section.below(usize::MAX));
    }
    lines
}

fn short(pieces: &[Piece], ending: Option<EndingSample>, price: Option<&str>) -> Vec<String> {
    let (totals, story) = run(pieces, ending);
    let price: Option<Price> = price.map(|price| price.parse().unwrap());
    let zone = TimeZone::UTC;
    told(&RunSummary { totals: &totals, story: Some(&story), zone: &zone, price: price.as_ref() })
}

fn exit(code: u8) -> Option<EndingSample> {
    Some(EndingSample { exit_code: Some(code), ..EndingSample::default() })
}

#[test]
fn what_was_lost_to_what_and_what_that_cost() {
    let gpu = |piece: Piece| Piece { gpu_used_pct: Some(25.0), ..piece };
    let saving = Piece { saving: 1.0, verdict: (Class::Io, Some(Cause::CheckpointWrite)), ..training(360) };
    let pieces = [
        gpu(in_phase(Phase::Init, 60)),
        gpu(waiting(1800, 0.5)),
        gpu(training(1380)),
        gpu(Piece { seconds: 359, ..saving }),
    ];
    let told = short(&pieces, exit(0), Some("$2"));
    assert_eq!(
        told,
        [
            "Watched for 1h00m, 00:00:00 to 00:59:59: 35400 steps in 59m00s of training, 10 per second.",
            "It ended at 00:59:59 with exit code 0.",
            "Besides training: starting up 1m00s.",
            "GPU time: 1 h ($2.00), 75% while they idle ($1.50).",
            "Energy of the GPUs: 100 Wh, 100 W on average.",
            "Most costly: data loader · too few workers, 30m00s in total.",
            "▶ Raise num_workers from 2 to 6",
            "# What was lost",
            "waiting for data: 15m00s, 25% of the loop's time ($0.50); all of it: data loader · too few workers",
            "saving: 6m00s, 10% of the loop's time ($0.20); all of it: IO · saving to disk",
            "# What happened",
            "00:00:59 | 30m00s | bottleneck: DATA LOADER · too few workers",
            "00:53:59 | 6m00s | bottleneck: IO · saving to disk",
        ]
    );
}

#[test]
fn a_job_that_hung_and_slowed_says_when() {
    let slow = Piece { step_s: 0.2, ..training(600) };
    let told = short(&[training(600), in_phase(Phase::Hung, 300), training(600), slow], None, None);
    assert!(
        told[0].starts_with("Watched for 35m00s, 00:00:00 to 00:34:59: 15000 steps in 30m00s of training, 8.3"),
        "{told:?}"
    );
    assert_eq!(told[1], "It had not ended by 00:34:59.");
    let lost = told.iter().position(|line| line == "# What was lost").unwrap();
    assert_eq!(told[lost + 1], "hung, nothing moves: 5m00s, 14% of the time watched");
    let happened = &told[told.iter().position(|line| line == "# What happened").unwrap() + 1..];
    assert_eq!(happened[0], "00:09:59 | 5m00s | Nothing moves.");
    assert!(happened[1].starts_with("00:25:") && happened[1].contains("steps take 100% longer"), "{happened:?}");
    assert_eq!(happened.len(), 2);
}

#[test]
fn why_a_run_ended_is_said_as_far_as_it_is_known() {
    let signal =
        |signal, out_of_memory| Some(EndingSample { signal: Some(signal), out_of_memory, ..EndingSample::default() });
    let after_kill = |ago: usize| [training(100), Piece { oom_kills: 2, ..training(ago) }];
    for (pieces, ending, expected) in [
        (vec![training(100)], exit(3), "It ended at 00:01:40 with exit code 3."),
        (vec![training(100)], signal(11, None), "It was killed by SIGSEGV at 00:01:40."),
        (vec![training(100)], signal(9, Some(true)), "It was killed by SIGKILL because memory ran out at 00:01:40."),
        (
            vec![training(100)],
            signal(9, None),
            "It was killed by SIGKILL at 00:01:40. The kernel killed nothing in its control group for lack of memory.",
        ),
        (
            after_kill(5).to_vec(),
            signal(9, None),
            "It was killed by SIGKILL at 00:01:45. The kernel killed 2 processes of its control group because memory ran out, \
             the last one 5 s before.",
        ),
        (
            after_kill(5).to_vec(),
            exit(1),
            "It ended at 00:01:45 with exit code 1. The kernel killed 2 processes of its control group because memory ran out, \
             the last one 5 s before.",
        ),
        (
            vec![training(100)],
            Some(EndingSample::default()),
            "It ended at 00:01:40. Its exit status is not known: only its parent process can read it.",
        ),
    ] {
        assert_eq!(short(&pieces, ending, None)[1], expected);
    }
}

#[test]
fn a_traceback_is_shown_below_and_its_exception_at_once() {
    let lines = ["  File \"train.py\", line 5, in main", "    loss.backward()", "RuntimeError: CUDA error"];
    let output = OutputEnd {
        file: "/home/a/train.log".into(),
        lines: lines.map(Into::into).to_vec(),
        traceback: true,
        lines_after: 2,
    };
    let ending = EndingSample { exit_code: Some(1), output: Some(output), ..EndingSample::default() };
    let told = short(&[training(100)], Some(ending.clone()), None);
    assert_eq!(told[1], "It ended at 00:01:40 with exit code 1. Last traceback: RuntimeError: CUDA error.");
    assert_eq!(
        told[2..],
        [
            "# Last traceback in /home/a/train.log",
            "      File \"train.py\", line 5, in main",
            "        loss.backward()",
            "    RuntimeError: CUDA error",
            "2 lines follow it.",
        ]
    );
    let well = short(&[training(100)], Some(EndingSample { exit_code: Some(0), ..ending }), None);
    assert_eq!(well.len(), 2, "after a good end it means nothing: {well:?}");
}

#[test]
fn a_restart_of_the_ranks_is_told() {
    let told = short(&[training(100), in_phase(Phase::Init, 20), Piece { rank: 9, ..training(100) }], None, None);
    assert_eq!(told.last().unwrap(), "00:02:00 |  | 1 training process was started anew");
}

#[test]
fn several_jobs_are_summed_up_apart() {
    let (first, second) = (short(&[training(100)], exit(0), None), short(&[waiting(50, 0.9)], exit(1), None));
    assert!(first[0].starts_with("Watched for 1m41s") && second[0].starts_with("Watched for 51 s"));
    assert!(first.iter().all(|line| !line.contains("waiting for data")));
}

#[test]
fn what_was_not_measured_is_absent() {
    let (totals, zone) = (Totals::default(), TimeZone::UTC);
    let nothing = RunSummary { totals: &totals, story: None, zone: &zone, price: None };
    assert_eq!(told(&nothing), ["Watched for 0 s: no training was seen."]);
    let numbers = nothing.numbers();
    for unknown in
        ["steps", "steps_per_s", "loop_s", "gpu_s", "gpu_idle_s", "energy_j", "cost", "end", "began_unix_ms"]
    {
        assert!(numbers.get(unknown).is_some_and(serde_json::Value::is_null), "{unknown}");
    }
}

#[test]
fn the_numbers_are_those_of_the_page() {
    let (totals, story) = run(&[waiting(99, 0.5)], exit(1));
    let zone = TimeZone::UTC;
    let numbers = RunSummary { totals: &totals, story: Some(&story), zone: &zone, price: None }.numbers();
    assert_eq!(
        (&numbers["watched_s"], &numbers["steps"], &numbers["end"]["exit_code"]),
        (&100.0.into(), &1000.0.into(), &1.into())
    );
    assert_eq!(
        (&numbers["verdicts"][0]["cause"], &numbers["loop_s"]["input_wait"]),
        (&"too-few-workers".into(), &50.0.into())
    );
    assert_eq!((&numbers["episodes"][0]["kind"], &numbers["more_episodes"]), (&"bottleneck".into(), &0.into()));
}

proptest! {
    #[test]
    fn any_run_gives_few_safe_lines(
        pieces in prop::collection::vec((1usize..40, 0usize..10, 0usize..7, 0.0..1.0f64, any::<u64>()), 1..6),
        line in "\\PC{0,20}|\x1b\\[2J|```",
        signal in any::<u8>(),
    ) {
        let pieces: Vec<_> = pieces.into_iter().map(|(seconds, phase, class, waiting, oom_kills)| Piece {
            phase: Phase::ALL[phase], verdict: (Class::ALL[class], None), waiting, oom_kills, ..training(seconds)
        }).collect();
        let output = OutputEnd { file: line.as_str().into(), lines: vec![line.as_str().into(); 30], ..OutputEnd::default() };
        let ending = EndingSample { signal: Some(signal), output: Some(output), ..EndingSample::default() };
        let told = short(&pieces, Some(ending), Some("$1"));
        prop_assert!(told.len() < 60);
        prop_assert!(told.iter().all(|line| !line.chars().any(char::is_control)), "{told:?}");
    }
}
