//! The words for a profile of the host alone.

use super::super::parts::Advice;
use super::super::stats::percent;
use super::losses::{Loss, LossKind};
use super::said::{Words, advice, called, line, named, of_ranks, place};
use crate::profiles::account::{IdleReason, ProfileAccount};
use crate::profiles::{NOTHING_RECORDED, blocks};

/// The words for a loss without a GPU.
pub(super) fn words_for(loss: &Loss, account: &ProfileAccount) -> Words {
    let row = account.idle_at.iter().find(|row| match loss.kind {
        LossKind::Data => row.reason == Some(IdleReason::InputWait),
        LossKind::CpuOperators => row.reason == Some(IdleReason::Operator),
        LossKind::HostWork => row.reason == Some(IdleReason::Python) && row.name != NOTHING_RECORDED,
        LossKind::Blocked => blocks(&row.name),
        _ => false,
    });
    let most = row.map(|row| {
        let named = if loss.kind == LossKind::Blocked { called(row) } else { named(row) };
        format!(", most of it in {named}{}", place(row.at.as_deref()))
    });
    let culprit = row.and_then(|row| {
        line(row.function.as_deref(), row.at.as_deref(), row.idle_ms / account.window_ms.max(f64::MIN_POSITIVE))
    });
    let words =
        HostLoss { account, lost: percent(loss.share), gain: Some(loss.gain()), most: most.unwrap_or_default() };
    let (summary, advice) = match loss.kind {
        LossKind::Data => words.data(),
        LossKind::Communication => words.communication(),
        LossKind::Blocked => words.blocked(),
        LossKind::Unrecorded => words.unrecorded(),
        LossKind::CpuOperators => words.operators(),
        _ => words.host_work(),
    };
    Words { summary, advice, culprits: culprit.into_iter().collect() }
}

struct HostLoss<'a> {
    account: &'a ProfileAccount,
    /// The loss as a percentage.
    lost: String,
    /// What it gains at most to remove it.
    gain: Option<f64>,
    /// `, most of it in f (train.py:41)`.
    most: String,
}

impl HostLoss<'_> {
    fn data(&self) -> (String, Vec<Advice>) {
        let lost = &self.lost;
        if self.account.of_loop.is_some_and(|of_loop| of_loop.makes_batches) {
            let workers = advice(
                "Make batches in workers: num_workers=4, persistent_workers=True",
                "they are then ready when the loop needs them",
                self.gain,
            );
            return (format!("The loop makes its batches itself, {lost} of the time."), vec![workers]);
        }
        let look = advice(
            "See what the workers do: trainmon diagnose --pid PID while the job runs",
            "whether they lack CPUs, wait for the disk, or decode",
            self.gain,
        );
        let summary =
            format!("The loop waits for data {lost} of the time: the workers are late. A trace does not show why.");
        (summary, vec![look])
    }

    fn communication(&self) -> (String, Vec<Advice>) {
        let less = advice(
            "Communicate less: larger batches per rank, no_sync() while gradients accumulate",
            "the same exchange then serves more work",
            self.gain,
        );
        (
            format!("The loop waits in collectives {} of the time.", self.lost),
            of_ranks(self.account).into_iter().chain([less]).collect(),
        )
    }

    fn blocked(&self) -> (String, Vec<Advice>) {
        let remove =
            advice("Remove the sleep, or wait in another thread", "the loop does nothing meanwhile", self.gain);
        (format!("The loop sleeps or waits {} of the time{}.", self.lost, self.most), vec![remove])
    }

    fn unrecorded(&self) -> (String, Vec<Advice>) {
        let record = advice(
            "Record the GPU: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
            "without its kernels, a launch looks like work",
            None,
        );
        let unread = unread(self.account);
        let advice = if unread.is_empty() { vec![record] } else { Vec::new() };
        (format!("The job uses a GPU, and the trace has nothing that ran on it{unread}."), advice)
    }

    fn operators(&self) -> (String, Vec<Advice>) {
        let most = self.account.operators.first();
        let most = most.map(|row| format!(", most of it in {}", row.name)).unwrap_or_default();
        let summary = format!("The model runs on the CPU: operators take {} of the time{most}.", self.lost);
        let gpu = advice(
            "Move model and batches to a GPU: .to(\"cuda\")",
            "operators are the larger part of the loop's time",
            None,
        );
        let fuse = advice(
            "Use torch.compile, or bf16 where the CPU has it",
            "fused operators read and write less memory",
            None,
        );
        (summary, vec![gpu, fuse])
    }

    fn host_work(&self) -> (String, Vec<Advice>) {
        let of_loop = self.account.of_loop.unwrap_or_default();
        let advice = if self.account.with_stack {
            advice("Take this work out of the loop, or make it cheaper", "no operator runs meanwhile", self.gain)
        } else {
            advice(
                "Record with torch.profiler.profile(with_stack=True)",
                "the trace then names the Python functions",
                None,
            )
        };
        let part = if of_loop.nothing > of_loop.python {
            "in what the trace does not show: Python, or a sleep"
        } else {
            "in Python"
        };
        (format!("The loop spends {} of the time {part}{}.", self.lost, self.most), vec![advice])
    }
}

/// What the trace has of an accelerator that is not read.
fn unread(account: &ProfileAccount) -> String {
    let of_kind = account.notes.iter().find(|note| note.contains("does not read"));
    of_kind.map(|note| format!(" that trainmon reads: {}", note.trim_end_matches('.'))).unwrap_or_default()
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
