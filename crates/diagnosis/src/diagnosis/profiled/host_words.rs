//! The words for what the host costs a GPU's time.

use super::losses::{self, LossKind};
use super::said::{self, Words, blocks_in, called, most_of, named, place};
use super::words::GpuLoss;
use trainmon_base::stats::percent;
use trainmon_base::text::format::step_time;
use trainmon_profiles::account::{IdleReason, IdleRow};
use trainmon_waits::taxonomy::Purpose;

impl GpuLoss<'_> {
    pub(super) fn launches(&self) -> Words {
        let lost = &self.lost;
        let kernels = self.account.launches.map_or(0.0, |launches| launches.kernels_per_step);
        let a_step = if self.account.step_ms.is_some() { " a step" } else { "" };
        let median = self.gpu.median_kernel_us.map(|us| format!(" of {us:.0} µs (median)")).unwrap_or_default();
        let captured = self.account.launches.is_some_and(|launches| launches.graph_kernels > 0);
        let optimizes = self.account.of_loop.is_some_and(|of_loop| of_loop.optimizer >= 0.15);
        let mut advice = vec![if captured { said::CAPTURE_MORE } else { said::COMPILE }.gaining(self.gain())];
        advice.extend(optimizes.then(|| said::FUSE_OPTIMIZER.plain()));
        advice.push(said::RAISE_BATCH.gaining(self.gain()));
        let summary = format!(
            "The GPU sits idle {lost} of the time while the host launches its work: {kernels:.0} kernels{a_step}{median}."
        );
        let row = losses::largest(self.account, LossKind::Launches);
        Words::new(summary, advice).blaming(row.and_then(|row| self.idle_line(row)))
    }

    pub(super) fn host_work(&self) -> Words {
        let (lost, trace) = (&self.lost, self.account.noun());
        let Some(row) = losses::longest_work(self.account).filter(|row| !losses::is_unrecorded(row)) else {
            let advice = if self.account.with_stack { said::WHOLE_STEPS } else { said::STACKS_OF_GAPS };
            let why = if losses::mostly_pending(self.gpu) {
                ", although work had been launched: the GPU waits for more than its host"
            } else {
                ": Python of the loop, or a sleep"
            };
            let summary =
                format!("The GPU sits idle {lost} of the time in gaps of which the {trace} shows nothing{why}.");
            return Words::new(summary, vec![advice.plain()]);
        };
        let place = place(row.at.as_ref());
        let mut advice = Vec::new();
        let summary = if row.reason == Some(IdleReason::Launch) {
            // Calls of the runtime that take long in every step.
            let allocates = row.name.contains("Malloc") || row.name.contains("Free");
            advice.push(if allocates { said::CONSTANT_SIZES } else { said::WARM_UP }.gaining(self.gain()));
            format!(
                "The GPU sits idle {lost} of the time while the host is in calls of the driver that take long: {}{place}, up to {}.",
                row.name,
                step_time(row.longest_ms)
            )
        } else {
            // What an operator or annotation does on the host cannot be told from its name.
            let unnamed = row.reason == Some(IdleReason::Operator) && row.function.is_none();
            advice.extend(unnamed.then(|| said::STACKS_OF_OPERATOR.plain()));
            advice.extend((!row.annotated).then(|| said::OUT_OF_LOOP.gaining(self.gain())));
            let most = most_of(self.loss.share, self.share(row.long_ms), &named(row));
            let work = if row.annotated {
                format!("in gaps of which the {trace} shows no more than annotations")
            } else {
                "while the host does its own work".to_owned()
            };
            format!("The GPU sits idle {lost} of the time {work}{most}{place}.")
        };
        Words::new(summary, advice).blaming(self.idle_line(row))
    }

    pub(super) fn blocked(&self) -> Words {
        let row = losses::largest(self.account, LossKind::Blocked);
        let what = row.map_or(Purpose::Sleep, losses::waits_for);
        let named = row.map(|row: &IdleRow| format!(": {}{}", called(row), place(row.at.as_ref())));
        let summary =
            format!("The GPU sits idle while the loop {}.", blocks_in(what, &self.lost, &named.unwrap_or_default()));
        let sleeps = what == Purpose::Sleep;
        let advice =
            vec![if sleeps { said::NO_SLEEP_ON_GPU.gaining(self.gain()) } else { said::FOLLOW_WAIT.plain() }];
        Words::new(summary, advice).blaming(row.and_then(|row| self.idle_line(row)))
    }

    pub(super) fn saving(&self) -> Words {
        let summary = format!("The GPU sits idle {} of the time while the loop saves a state.", self.lost);
        Words::new(summary, vec![said::SAVE_ASIDE.gaining(self.gain())])
    }

    pub(super) fn start_up(&self) -> Words {
        let (lost, trace) = (&self.lost, self.account.noun());
        if self.account.captures > 0 {
            let summary =
                format!("The {trace} records the making of CUDA graphs: nothing runs meanwhile, {lost} of the time.");
            return Words::new(summary, vec![said::RUN_GRAPHS.plain()]);
        }
        let row = losses::largest(self.account, LossKind::StartUp);
        let call = row.map_or("a call of the runtime", |row| row.name.as_str());
        let took = row.map(|row| step_time(row.longest_ms)).unwrap_or_default();
        let computes = percent(self.gpu.compute);
        let summary = format!(
            "The {trace} is mostly start-up, {lost} of it: one {call} took {took}, and the GPU computes {computes} of the time."
        );
        Words::new(summary, vec![said::LATER_STEPS.plain()])
    }

    pub(super) fn unrecorded(&self) -> Words {
        let (lost, trace) = (&self.lost, self.account.noun());
        let summary = format!(
            "The GPU sits idle {lost} of the time. The {trace} has nothing of the host, so it does not show why."
        );
        Words::new(summary, vec![said::RECORD_HOST.plain()])
    }
}
