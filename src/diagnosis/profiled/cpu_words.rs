//! The words for a profile of the host alone.

use super::super::stats::percent;
use super::losses::{Loss, LossKind};
use super::said::{self, Words, called, line, named, place};
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
        format!(", most of it in {named}{}", place(row.at.as_ref()))
    });
    let most = most.unwrap_or_default();
    let culprit = row.and_then(|row| {
        let share = row.idle_ms / account.window_ms.max(f64::MIN_POSITIVE);
        line(row.function.as_ref(), row.at.as_ref(), share)
    });
    let of_loop = account.of_loop.unwrap_or_default();
    let (lost, gain) = (percent(loss.share), loss.gain());
    let (summary, advice) = match loss.kind {
        LossKind::Data if of_loop.makes_batches => {
            (format!("The loop makes its batches itself, {lost} of the time."), vec![said::WORKERS.gaining(gain)])
        }
        LossKind::Data => (
            format!("The loop waits for data {lost} of the time: the workers are late. A trace does not show why."),
            vec![said::SEE_WORKERS.gaining(gain)],
        ),
        LossKind::Communication => (
            format!("The loop waits in collectives {lost} of the time."),
            said::of_ranks(account).into_iter().chain([said::COMMUNICATE_LESS.gaining(gain)]).collect(),
        ),
        LossKind::Blocked => {
            (format!("The loop sleeps or waits {lost} of the time{most}."), vec![said::NO_SLEEP.gaining(gain)])
        }
        LossKind::Unrecorded => {
            let unread = unread(account);
            let advice = if unread.is_empty() { vec![said::RECORD_GPU.plain()] } else { Vec::new() };
            (format!("The job uses a GPU, and the trace has nothing that ran on it{unread}."), advice)
        }
        LossKind::CpuOperators => {
            let most = account.operators.first().map(|row| format!(", most of it in {}", row.name));
            (
                format!("The model runs on the CPU: operators take {lost} of the time{}.", most.unwrap_or_default()),
                vec![said::USE_GPU.plain(), said::COMPILE_FOR_CPU.plain()],
            )
        }
        _ => {
            let part = if of_loop.nothing > of_loop.python {
                "in what the trace does not show: Python, or a sleep"
            } else {
                "in Python"
            };
            let advice = if account.with_stack { said::LESS_WORK.gaining(gain) } else { said::STACKS.plain() };
            (format!("The loop spends {lost} of the time {part}{most}."), vec![advice])
        }
    };
    Words::new(summary, advice).blaming(culprit)
}

/// What the trace has of an accelerator that is not read.
fn unread(account: &ProfileAccount) -> String {
    let of_kind = account.notes.iter().find(|note| note.contains("does not read"));
    of_kind.map(|note| format!(" that trainmon reads: {}", note.trim_end_matches('.'))).unwrap_or_default()
}

/// The words where nothing costs anything.
pub(super) fn nothing(account: &ProfileAccount) -> Words {
    let events = account.operators.iter().map(|row| row.count).sum::<u64>();
    let ms = account.window_ms;
    let summary = format!("The trace has no GPU and hardly anything of a loop: {events} operators in {ms:.0} ms.");
    Words::new(summary, vec![said::SOME_STEPS.plain()])
}
