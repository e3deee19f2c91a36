//! The words for a profile of the host alone.

use super::super::parts::Advice;
use super::losses::{Loss, LossKind, waits_for};
use super::said::{self, Words, blocks_in, called, line, most_of, named, place};
use trainmon_base::stats::percent;
use trainmon_profiles::account::{IdleReason, ProfileAccount};
use trainmon_profiles::{NOTHING_RECORDED, blocks};
use trainmon_waits::taxonomy::Purpose;

/// The words for a loss without a GPU.
pub(super) fn words_for(loss: &Loss, account: &ProfileAccount) -> Words {
    let row = account.idle_at.iter().find(|row| match loss.kind {
        LossKind::Data => row.reason == Some(IdleReason::InputWait),
        LossKind::CpuOperators => {
            row.reason == Some(IdleReason::Operator) && !row.annotated && row.name != NOTHING_RECORDED
        }
        LossKind::HostWork => {
            (row.reason == Some(IdleReason::Python) || row.annotated) && row.name != NOTHING_RECORDED
        }
        LossKind::Blocked => blocks(&row.name),
        _ => false,
    });
    let most = row.map(|row| {
        let named = if loss.kind == LossKind::Blocked { called(row) } else { named(row) };
        let share = row.idle_ms / account.window_ms.max(f64::MIN_POSITIVE);
        most_of(loss.share, share, &format!("{named}{}", place(row.at.as_ref())))
    });
    let most = most.unwrap_or_default();
    let culprit = row.and_then(|row| {
        let share = row.idle_ms / account.window_ms.max(f64::MIN_POSITIVE);
        line(row.function.as_ref(), row.at.as_ref(), share)
    });
    let of_loop = account.of_loop.unwrap_or_default();
    let (lost, gain) = (percent(loss.share), loss.gain());
    let trace = account.noun();
    let (summary, advice) = match loss.kind {
        LossKind::Data if of_loop.makes_batches => {
            (format!("The loop makes its batches itself, {lost} of the time."), vec![said::WORKERS.gaining(gain)])
        }
        LossKind::Data => (
            format!("The loop waits for data {lost} of the time: the workers are late. A {trace} does not show why."),
            vec![said::SEE_WORKERS.gaining(gain)],
        ),
        LossKind::Communication => (
            format!("The loop waits in collectives {lost} of the time."),
            said::of_ranks(account).into_iter().chain([said::COMMUNICATE_LESS.gaining(gain)]).collect(),
        ),
        LossKind::Blocked => {
            let what = row.map_or(Purpose::Sleep, waits_for);
            let sleeps = what == Purpose::Sleep;
            let advice = if sleeps { said::NO_SLEEP.gaining(gain) } else { said::FOLLOW_WAIT.plain() };
            (format!("The loop {}.", blocks_in(what, &lost, &most)), vec![advice])
        }
        LossKind::Saving => {
            (format!("The loop saves a state {lost} of the time."), vec![said::SAVE_ASIDE.gaining(gain)])
        }
        LossKind::Unrecorded if account.cut_off => {
            (format!("What a GPU did is written last: the {trace} does not show it."), vec![said::WHOLE_FILE.plain()])
        }
        LossKind::Unrecorded => {
            let unread = unread(account);
            let advice = if unread.is_empty() { vec![said::RECORD_GPU.plain()] } else { Vec::new() };
            (format!("The job uses a GPU, and the {trace} has nothing that ran on it{unread}."), advice)
        }
        LossKind::CpuOperators => operators(loss, account),
        _ => host_work(loss, account, &most),
    };
    Words::new(summary, advice).blaming(culprit)
}

fn operators(loss: &Loss, account: &ProfileAccount) -> (String, Vec<Advice>) {
    let lost = percent(loss.share);
    let share = |ms: f64| ms / account.window_ms.max(f64::MIN_POSITIVE);
    let optimizer = account.of_loop.map_or(0.0, |of_loop| of_loop.optimizer);
    let optimizes = optimizer >= loss.share / 2.0;
    let most = if optimizes {
        format!(", {} in the optimizer's step", percent(optimizer))
    } else {
        let first = account.operators.first();
        first.map(|row| most_of(loss.share, share(row.host_ms), &row.name)).unwrap_or_default()
    };
    let mut advice = vec![said::USE_GPU.plain(), said::COMPILE_FOR_CPU.plain()];
    if optimizes {
        advice.insert(0, said::FUSE_OPTIMIZER_ON_HOST.plain());
    }
    (format!("The model runs on the CPU: operators take {lost} of the time{most}."), advice)
}

fn host_work(loss: &Loss, account: &ProfileAccount, most: &str) -> (String, Vec<Advice>) {
    let of_loop = account.of_loop.unwrap_or_default();
    let trace = account.noun();
    let part = if of_loop.python >= of_loop.nothing.max(of_loop.annotation) {
        "in Python".to_owned()
    } else if of_loop.annotation > of_loop.nothing {
        format!("in annotations of which the {trace} shows no more: Python, a sleep or reading")
    } else {
        format!("in what the {trace} does not show: Python, or a sleep")
    };
    let advice = if account.with_stack { said::LESS_WORK.gaining(loss.gain()) } else { said::STACKS.plain() };
    (format!("The loop spends {} of the time {part}{most}.", percent(loss.share)), vec![advice])
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
    let trace = account.noun();
    let summary = format!("The {trace} has no GPU and hardly anything of a loop: {events} operators in {ms:.0} ms.");
    Words::new(summary, vec![said::SOME_STEPS.plain()])
}
