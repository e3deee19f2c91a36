//! Calls that were counted from outside beside the verdict of the run. They tell how much the host asks of the GPU and how long it
//! waits. What the GPU did meanwhile they do not tell, so the verdict stays what it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::class::Class;
use super::super::verdict::{Context, Verdict};
use trainmon_base::stats::{percent, round};
use trainmon_base::text::format::precise;
use trainmon_profiles::account::{ProfileAccount, ProfileSource, SyncRow};
use trainmon_profiles::calls::{CallRow, CountedCalls};
use trainmon_sample::probe_counts::{GpuCallKind, ProbeCounts, ProbeRow, ProbeWindow};

/// Most sentences beside the verdict's own.
const SENTENCES: usize = 2;

/// The verdict of the run with what was counted. `live` is `None` before the first verdict.
pub fn probed(counts: &ProbeCounts, live: Option<&Verdict>, context: &Context) -> Verdict {
    let mut verdict = live.cloned().unwrap_or_else(|| Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").into(),
        pid: context.pid,
        command: context.command.clone(),
        started: context.started.clone(),
        observed_s: round(counts.elapsed_s, 3),
        class: Class::Unknown,
        summary: "There is no verdict yet.".to_owned(),
        ..Verdict::default()
    });
    let account = account(counts, verdict.steps.per_s.filter(|steps| *steps > 0.0));
    for sentence in account.calls.iter().flat_map(sentences) {
        verdict.summary = format!("{} {sentence}", verdict.summary).trim_start().to_owned();
    }
    verdict.profile = Some(Arc::new(account));
    verdict
}

/// What was counted, per second and per step.
fn account(counts: &ProbeCounts, steps_per_s: Option<f64>) -> ProfileAccount {
    let (calls_s, waits_s) = (length_s(&counts.calls), length_s(&counts.waits));
    let mut rows: Vec<CallRow> =
        counts.rows.iter().filter_map(|row| call_row(row, counts, (calls_s, waits_s), steps_per_s)).collect();
    rows.sort_by(|a, b| {
        b.waits.unwrap_or(0.0).total_cmp(&a.waits.unwrap_or(0.0)).then(b.calls_per_s.total_cmp(&a.calls_per_s))
    });
    let sync = |row: &ProbeRow| SyncRow {
        call: row.call.to_owned(),
        count: row.count,
        per_step: steps_per_s.map(|steps| round(row.count as f64 / waits_s / steps, 3)),
        wait_ms: round(row.waited_ns as f64 / 1e6, 3),
        idle_ms: f64::NAN,
        idle_inside_ms: f64::NAN,
        ..SyncRow::default()
    };
    let mut syncs: Vec<SyncRow> =
        counts.rows.iter().filter(|row| row.kind == GpuCallKind::Sync && row.count > 0).map(sync).collect();
    syncs.sort_by(|a, b| b.wait_ms.total_cmp(&a.wait_ms));
    let mut notes = vec!["Kernels, and what the GPU does while the job waits: probes see calls alone.".to_owned()];
    if counts.waits.is_empty() {
        notes.push(
            "Waits for the GPU: this kernel ends a process in a container where a return is probed.".to_owned(),
        );
    }
    if counts.lost > 0 {
        notes.push(format!("{} calls: more threads called than there was room for.", counts.lost));
    }
    ProfileAccount {
        source: ProfileSource::Probe,
        window_ms: round(1000.0 * counts.elapsed_s, 1),
        step_ms: steps_per_s.map(|steps| round(1000.0 / steps, 3)),
        calls: Some(CountedCalls {
            rows,
            counted_ms: round(1000.0 * calls_s, 3),
            windows: counts.calls.len() as u32,
            waits_counted_ms: round(1000.0 * waits_s, 3),
            hits: counts.hits,
            hit_us: round(1e6 * counts.hit_s, 2),
            cost: round(counts.hits as f64 * counts.hit_s / counts.elapsed_s.max(f64::MIN_POSITIVE), 5),
        }),
        syncs,
        notes,
        ..ProfileAccount::default()
    }
}

fn length_s(windows: &[ProbeWindow]) -> f64 {
    windows.iter().map(|window| window.length_s).sum()
}

fn call_row(
    row: &ProbeRow,
    counts: &ProbeCounts,
    (calls_s, waits_s): (f64, f64),
    steps_per_s: Option<f64>,
) -> Option<CallRow> {
    let waits = row.kind == GpuCallKind::Sync;
    let counted_s = if waits { waits_s } else { calls_s };
    if row.count == 0 || counted_s <= 0.0 {
        return None;
    }
    let per_s = if waits { row.count as f64 / counted_s } else { usual_count(row, counts) / counted_s };
    Some(CallRow {
        kind: row.kind.word().to_owned(),
        call: row.call.to_owned(),
        tid: row.tid,
        thread: row.thread.clone(),
        count: row.count,
        calls_per_s: round(per_s, 3),
        error: if waits { None } else { error(&row.by_window, &counts.calls).map(|error| round(error, 3)) },
        per_step: steps_per_s.map(|steps| round(per_s / steps, 3)),
        waits: waits.then(|| round((row.waited_ns as f64 / 1e9 / waits_s).min(1.0), 4)),
    })
}

/// As many calls as the thread would have made at its usual speed: in a window it was slower by what the hits took. Where it did not call
/// all the time, it is less than it should be.
fn usual_count(row: &ProbeRow, counts: &ProbeCounts) -> f64 {
    let lost_s = counts.lost_s.iter().find(|(tid, _)| *tid == row.tid).map_or(&[][..], |(_, lost_s)| lost_s);
    let each = row.by_window.iter().zip(&counts.calls).enumerate().map(|(nth, (count, window))| {
        let lost_s = lost_s.get(nth).copied().unwrap_or(0.0).min(0.9 * window.length_s);
        *count as f64 * window.length_s / (window.length_s - lost_s)
    });
    each.sum()
}

/// The standard error of a rate by how it differs between windows, as a share of it.
fn error(by_window: &[u64], windows: &[ProbeWindow]) -> Option<f64> {
    let number = by_window.len() as f64;
    let (all, length) = (by_window.iter().sum::<u64>() as f64, length_s(windows));
    if by_window.len() < 2 || by_window.len() != windows.len() || all <= 0.0 {
        return None;
    }
    let rate = all / length;
    let squares: f64 =
        by_window.iter().zip(windows).map(|(count, window)| (*count as f64 - rate * window.length_s).powi(2)).sum();
    Some((squares * number / (number - 1.0)).sqrt() / all)
}

/// What was counted, a sentence each.
fn sentences(calls: &CountedCalls) -> Vec<String> {
    let of = |kinds: &[GpuCallKind]| -> Vec<&CallRow> {
        calls
            .rows
            .iter()
            .filter(|row| GpuCallKind::named(&row.kind).is_some_and(|kind| kinds.contains(&kind)))
            .collect()
    };
    let per_step = |rows: &[&CallRow]| -> String {
        let all: Option<f64> = rows.iter().map(|row| row.per_step).sum();
        all.map(|all| format!(", {} a step", precise(all))).unwrap_or_default()
    };
    let threads = |rows: &[&CallRow]| match rows.iter().map(|row| row.tid).collect::<BTreeSet<_>>().len() {
        1 => "1 thread".to_owned(),
        several => format!("{several} threads"),
    };
    let mut all = Vec::new();
    if calls.rows.is_empty() {
        all.push("Counted: no call of CUDA or HIP meanwhile.".to_owned());
    }
    let launches = of(&[GpuCallKind::Launch, GpuCallKind::GraphLaunch]);
    if !launches.is_empty() {
        let per_s: f64 = launches.iter().map(|row| row.calls_per_s).sum();
        let (per_step, threads) = (per_step(&launches), threads(&launches));
        all.push(format!("Counted: {} launches a second{per_step}, from {threads}.", precise(per_s)));
    }
    let waits = of(&[GpuCallKind::Sync]);
    for tid in waits.iter().map(|row| row.tid).collect::<BTreeSet<_>>() {
        let rows: Vec<&CallRow> = waits.iter().copied().filter(|row| row.tid == tid).collect();
        let share: f64 = rows.iter().filter_map(|row| row.waits).sum();
        let per_s: f64 = rows.iter().map(|row| row.calls_per_s).sum();
        let per_step = per_step(&rows);
        all.push(format!(
            "Counted: thread {tid} waits for the GPU {} of the time, in {} calls a second{per_step}.",
            percent(share),
            precise(per_s)
        ));
    }
    // A job in which many threads wait has its table.
    all.truncate(SENTENCES);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::causes::Cause;

    fn row(kind: GpuCallKind, call: &'static str, count: u64, by_window: Vec<u64>, waited_ns: u64) -> ProbeRow {
        ProbeRow { kind, call, tid: 7, thread: "python".into(), count, by_window, waited_ns }
    }

    fn counts() -> ProbeCounts {
        ProbeCounts {
            elapsed_s: 3.0,
            calls: vec![ProbeWindow { length_s: 0.005 }; 2],
            waits: vec![ProbeWindow { length_s: 3.0 }],
            rows: vec![
                row(GpuCallKind::Launch, "cudaLaunchKernel", 100, vec![40, 60], 0),
                row(GpuCallKind::Sync, "cudaStreamSynchronize", 30, vec![30], 360_000_000),
            ],
            lost_s: vec![(7, vec![0.001, 0.001])],
            hits: 260,
            hit_s: 10e-6,
            lost: 0,
        }
    }

    #[test]
    fn rates_are_those_of_the_job_at_its_usual_speed() {
        let account = account(&counts(), Some(10.0));
        let calls = account.calls.unwrap();
        let [sync, launch] = &calls.rows[..] else { panic!("{calls:?}") };
        // 10 ms, of which 200 hits took 2.
        assert_eq!((launch.calls_per_s, launch.per_step, launch.error), (12_500.0, Some(1250.0), Some(0.2)));
        assert_eq!((sync.calls_per_s, sync.per_step, sync.waits), (10.0, Some(1.0), Some(0.12)));
        assert_eq!((account.syncs[0].wait_ms, account.syncs[0].per_step), (360.0, Some(1.0)));
        assert!((calls.cost - 0.000_87).abs() < 1e-5, "{}", calls.cost);
    }

    #[test]
    fn the_verdict_of_the_run_stays_and_no_idle_gpu_is_claimed() {
        let mut live = Verdict { class: Class::Cpu, cause: Some(Cause::LaunchBound), ..Verdict::default() };
        (live.confidence, live.steps.per_s) = (0.6, Some(10.0));
        live.summary = "Python launches.".into();
        let verdict = probed(&counts(), Some(&live), &Context::default());
        assert_eq!((verdict.class, verdict.cause, verdict.confidence), (live.class, live.cause, 0.6));
        assert!(verdict.gpu_idle.is_none() && verdict.profile.as_ref().unwrap().devices.is_empty());
        assert_eq!(
            verdict.summary,
            "Python launches. Counted: 12500 launches a second, 1250 a step, from 1 thread. \
             Counted: thread 7 waits for the GPU 12% of the time, in 10 calls a second, 1 a step."
        );
        let json = serde_json::to_string(&verdict).unwrap();
        let read: Verdict = serde_json::from_str(&json).unwrap();
        assert!(read.profile.unwrap().syncs[0].idle_ms.is_nan());
    }

    #[test]
    fn without_a_verdict_none_is_made_up() {
        let verdict = probed(&counts(), None, &Context { pid: 9, ..Context::default() });
        assert_eq!((verdict.class, verdict.confidence, verdict.pid), (Class::Unknown, 0.0, 9));
    }
}
