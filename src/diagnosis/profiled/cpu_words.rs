//! The words for a profile of the host alone.

use super::super::stats::percent;
use super::losses::{self, Loss, LossKind};
use super::said::{Words, advice, called, line, named};
use crate::profiles::account::{IdleReason, ProfileAccount};

/// The words for a loss without a GPU.
pub(super) fn words_for(loss: &Loss, account: &ProfileAccount) -> Words {
    let lost = percent(loss.share);
    let gain = Some(loss.gain());
    let of_loop = account.of_loop.unwrap_or_default();
    let row = account.idle_at.iter().find(|row| match loss.kind {
        LossKind::Data => row.reason == Some(IdleReason::InputWait),
        LossKind::CpuOperators => row.reason == Some(IdleReason::Operator),
        LossKind::HostWork => row.reason == Some(IdleReason::Python) && row.name != crate::profiles::NOTHING_RECORDED,
        LossKind::Blocked => losses::waits(&row.name),
        _ => false,
    });
    let most = row.map(|row| {
        let named = if loss.kind == LossKind::Blocked { called(row) } else { named(row) };
        let at = row.at.as_deref().map(|at| format!(" ({at})")).unwrap_or_default();
        format!("{named}{at}")
    });
    let culprits = row.and_then(|row| {
        line(row.function.as_deref(), row.at.as_deref(), row.idle_ms / account.window_ms.max(f64::MIN_POSITIVE))
    });
    let (summary, advice) = match loss.kind {
        LossKind::Data if of_loop.makes_batches => (
            format!("The loop makes its batches itself, {lost} of the time."),
            vec![advice(
                "Make batches in workers: num_workers=4, persistent_workers=True",
                "they are then ready when the loop needs them",
                gain,
            )],
        ),
        LossKind::Data => (
            format!("The loop waits for data {lost} of the time: the workers are late. A trace does not show why."),
            vec![advice(
                "See what the workers do: trainmon diagnose --pid PID while the job runs",
                "whether they lack CPUs, wait for the disk, or decode",
                gain,
            )],
        ),
        LossKind::Communication => (
            format!("The loop waits in collectives {lost} of the time."),
            vec![
                advice(
                    "Compare the ranks: trainmon diagnose rank*.json",
                    "a collective also waits for the last rank to enter",
                    gain,
                ),
                advice(
                    "Communicate less: larger batches per rank, no_sync() while gradients accumulate",
                    "the same exchange then serves more work",
                    gain,
                ),
            ],
        ),
        LossKind::Blocked => (
            format!(
                "The loop sleeps or waits {lost} of the time{}.",
                most.map(|most| format!(", most of it in {most}")).unwrap_or_default()
            ),
            vec![advice("Remove the sleep, or wait in another thread", "the loop does nothing meanwhile", gain)],
        ),
        LossKind::Unrecorded => (
            "The job uses a GPU, and the trace has nothing that ran on it.".to_owned(),
            vec![advice(
                "Record the GPU: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                "without its kernels, a launch looks like work",
                None,
            )],
        ),
        LossKind::CpuOperators => {
            let forward =
                account.operators.first().map(|row| format!(", most of it in {}", row.name)).unwrap_or_default();
            (
                format!("The model runs on the CPU: operators take {lost} of the time{forward}."),
                vec![
                    advice(
                        "Move model and batches to a GPU: .to(\"cuda\")",
                        "operators are the larger part of the loop's time",
                        None,
                    ),
                    advice(
                        "Use torch.compile, or bf16 where the CPU has it",
                        "fused operators read and write less memory",
                        None,
                    ),
                ],
            )
        }
        _ => {
            let title = if account.with_stack {
                "Take this work out of the loop, or make it cheaper"
            } else {
                "Record with torch.profiler.profile(with_stack=True)"
            };
            let why = if account.with_stack {
                "no operator runs meanwhile"
            } else {
                "the trace then names the Python functions"
            };
            let part = if of_loop.nothing > of_loop.python {
                "in what the trace does not show: Python, or a sleep"
            } else {
                "in Python"
            };
            (
                format!(
                    "The loop spends {lost} of the time {part}{}.",
                    most.map(|most| format!(", most of it in {most}")).unwrap_or_default()
                ),
                vec![advice(title, why, gain)],
            )
        }
    };
    Words { summary, advice, culprits: culprits.into_iter().collect() }
}

/// The words where nothing costs anything.
pub(super) fn nothing(account: &ProfileAccount) -> Words {
    let events = account.operators.iter().map(|row| row.count).sum::<u64>();
    Words {
        summary: format!(
            "The trace has no GPU and hardly anything of a loop: {events} operators in {:.0} ms.",
            account.window_ms
        ),
        advice: vec![advice(
            "Profile some steps: torch.profiler.schedule(wait=1, warmup=2, active=3)",
            "a trace of whole steps shows where their time goes",
            None,
        )],
        culprits: Vec::new(),
    }
}
