//! The words for a loss of a GPU's time.

use super::super::culprits::Culprit;
use super::super::parts::Advice;
use super::losses::{self, Loss, LossKind, gain_of};
use super::said::{self, Words, line, place};
use super::sync_advice;
use trainmon_base::stats::percent;
use trainmon_profiles::account::{CopyDirection, GpuAccount, IdleRow, ProfileAccount, SyncRow};

/// The words for a loss.
pub(super) fn words_for(loss: &Loss, account: &ProfileAccount, gpu: &GpuAccount) -> Words {
    let words = GpuLoss { account, gpu, loss, lost: percent(loss.share) };
    match loss.kind {
        LossKind::Data => words.data(),
        LossKind::Communication => words.communication(),
        LossKind::Copies => words.copies(),
        LossKind::Syncs => words.syncs(),
        LossKind::Launches => words.launches(),
        LossKind::HostWork => words.host_work(),
        LossKind::StartUp => words.start_up(),
        LossKind::Unrecorded => words.unrecorded(),
        LossKind::Blocked => words.blocked(),
        LossKind::Saving => words.saving(),
        LossKind::CpuOperators => Words::default(),
    }
}

/// The words where most of the window is compilation.
pub(super) fn compiling(account: &ProfileAccount) -> Words {
    let share = percent(account.compiling);
    let trace = account.noun();
    let summary = format!("The {trace} shows compilation, {share} of the window: these are no usual steps.");
    Words::new(summary, vec![said::AFTER_COMPILING.plain()])
}

/// A loss on its way into words.
pub(super) struct GpuLoss<'a> {
    pub account: &'a ProfileAccount,
    pub gpu: &'a GpuAccount,
    pub loss: &'a Loss,
    /// The loss as a percentage.
    pub lost: String,
}

impl GpuLoss<'_> {
    pub fn gain(&self) -> f64 {
        self.loss.gain()
    }

    pub fn share(&self, ms: f64) -> f64 {
        ms / self.account.window_ms.max(f64::MIN_POSITIVE)
    }

    /// The line of code to blame for a row of idle time.
    pub fn idle_line(&self, row: &IdleRow) -> Option<Culprit> {
        line(row.function.as_ref(), row.at.as_ref(), self.share(row.idle_ms))
    }

    fn data(&self) -> Words {
        let (lost, trace) = (&self.lost, self.account.noun());
        let makes = self.account.of_loop.is_some_and(|of_loop| of_loop.makes_batches);
        let (why, advice) = if makes {
            ("the loop makes the batches itself".to_owned(), [said::WORKERS_AHEAD, said::TRANSFORM_ON_GPU])
        } else {
            let why = format!("the workers are late. A {trace} does not show why");
            (why, [said::SEE_WORKERS, said::MORE_WORKERS])
        };
        let row = losses::largest(self.account, LossKind::Data);
        let culprit = row.and_then(|row| line(row.function.as_ref(), row.at.as_ref(), self.loss.share));
        let summary = format!("The GPU sits idle {lost} of the time, waiting for data: {why}.");
        Words::new(summary, advice.map(|fix| fix.gaining(self.gain())).to_vec()).blaming(culprit)
    }

    fn communication(&self) -> Words {
        let lost = &self.lost;
        let most = self.account.collectives.iter().max_by(|a, b| a.exposed_ms.total_cmp(&b.exposed_ms));
        let most = most.map(|row| format!(", most of it in {} ({})", row.name, percent(self.share(row.exposed_ms))));
        let most = most.unwrap_or_default();
        let hidden = (self.gpu.communication - self.gpu.exposed).max(0.0);
        let hidden = if hidden > 0.01 {
            format!(" Only {} runs beside kernels that compute.", percent(hidden))
        } else {
            String::new()
        };
        let alone = self.account.world_size == Some(1);
        // No step is shorter than its collectives.
        let hides = self.gpu.exposed.min(1.0 - self.gpu.communication);
        let mut advice = vec![said::OVERLAP_COLLECTIVES.gaining(gain_of(hides))];
        advice.extend(if alone { None } else { said::of_ranks(self.account) });
        advice.push(said::COMMUNICATE_LESS.gaining(self.gain()));
        Words::new(format!("The GPU does nothing but communicate {lost} of the time{most}.{hidden}"), advice)
    }

    fn copies(&self) -> Words {
        let lost = &self.lost;
        let blocking = losses::blocking_copies(self.account)
            .filter(|row| self.share(row.idle_inside_ms) >= self.loss.share / 2.0);
        let Some(row) = blocking else { return self.copies_alone() };
        let (way, fix) = match row.copies {
            Some(CopyDirection::DeviceToHost) => ("to the host", said::READ_LATER),
            _ => ("to the GPU", said::PIN_TO_LAUNCH),
        };
        let per_step = row.per_step.map(|count| format!(" {} a step", times(count))).unwrap_or_default();
        let summary = format!(
            "The GPU sits idle {lost} of the time while the host is blocked in copies {way}: {} calls {}{per_step}{}.",
            caller(row),
            row.call,
            place(row.at.as_ref())
        );
        let often = row.count > 2 * self.account.steps.max(1);
        let fixes = std::iter::once(fix).chain(often.then_some(said::COPY_ONCE));
        Words::new(summary, fixes.map(|fix| fix.gaining(self.gain())).collect())
            .blaming(calling_line(row, self.share(row.idle_inside_ms)))
    }

    fn copies_alone(&self) -> Words {
        let lost = &self.lost;
        let (direction, pageable) = losses::largest_copies(self.account).unwrap_or((CopyDirection::Other, None));
        let way = match direction {
            CopyDirection::HostToDevice => " from the host",
            CopyDirection::DeviceToHost => " to the host",
            CopyDirection::PeerToPeer => " between GPUs",
            CopyDirection::DeviceToDevice | CopyDirection::Other => "",
        };
        let pinned = if pageable == Some(true) { ", from pageable memory" } else { "" };
        let mut advice = [said::PIN, said::COPY_STREAM].map(|fix| fix.gaining(self.gain()));
        if pageable == Some(false) {
            advice.reverse();
        }
        let caller = self.account.syncs.iter().find(|row| row.copies == Some(direction));
        let summary = format!("The GPU only copies{way} {lost} of the time{pinned}: no kernel runs meanwhile.");
        Words::new(summary, advice.to_vec())
            .blaming(caller.and_then(|row| calling_line(row, self.share(row.wait_ms))))
    }

    fn syncs(&self) -> Words {
        let lost = &self.lost;
        let Some(row) = self.account.syncs.first() else {
            let summary = format!("The GPU sits idle {lost} of the time while the host waits for it.");
            return Words::new(summary, Vec::new());
        };
        let count = row.per_step.map_or_else(|| times(row.count as f64), |count| times(count) + " a step");
        let copying = if row.copies.is_some() { " in a copy of next to nothing" } else { "" };
        let rest = self.account.syncs.iter().skip(1).filter(|row| self.share(row.idle_ms) >= 0.02);
        let mut advice: Vec<Advice> = Vec::new();
        for row in std::iter::once(row).chain(rest.take(2)) {
            let mut one = sync_advice::instead_of(row, gain_of(self.share(row.idle_ms)));
            if row.copies.is_some() && losses::mostly_pending(self.gpu) {
                one.speedup_at_most = None;
            }
            if advice.iter().all(|known| known.title != one.title) {
                advice.push(one);
            }
        }
        let summary = format!(
            "The GPU runs empty while the host waits for it, and sits idle {lost} of the time: {} waits {count}{copying}{}.{}",
            caller(row),
            place(row.at.as_ref()),
            if row.copies.is_some() && losses::mostly_pending(self.gpu) {
                format!(" The {} does not show what the GPU waits for.", self.account.noun())
            } else {
                String::new()
            }
        );
        let blamed = self.account.syncs.iter().map(|row| (row, self.share(row.idle_ms)));
        let blamed = blamed.filter(|(_, share)| *share >= 0.01);
        let lines = blamed.filter_map(|(row, share)| calling_line(row, share));
        Words::new(summary, advice).blaming(lines.take(3))
    }
}

/// The line that made a call, to blame for this share of the time.
fn calling_line(row: &SyncRow, share: f64) -> Option<Culprit> {
    line(row.function.as_ref(), row.at.as_ref(), share)
}

/// What calls: the operator, else the call itself.
fn caller(row: &SyncRow) -> String {
    format!("`{}`", row.operator.as_deref().unwrap_or(&row.call))
}

/// `once`, `6 times`, or `1.5 times`.
fn times(count: f64) -> String {
    match format!("{count:.1}").as_str() {
        "1.0" => "once".to_owned(),
        text => format!("{} times", text.strip_suffix(".0").unwrap_or(text)),
    }
}
