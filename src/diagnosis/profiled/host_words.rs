//! The words for what the host costs a GPU's time.

use super::super::stats::percent;
use super::losses::{self, LossKind};
use super::said::{Words, advice, called, line, named, place};
use super::words::GpuLoss;
use crate::profiles::account::{IdleReason, IdleRow};
use crate::text::format::step_time;

impl GpuLoss<'_> {
    pub(super) fn launches(&self) -> Words {
        let lost = &self.lost;
        let kernels = self.account.launches.map_or(0.0, |launches| launches.kernels_per_step);
        let a_step = if self.account.step_ms.is_some() { " a step" } else { "" };
        let median = self.gpu.median_kernel_us.map(|us| format!(" of {us:.0} µs (median)"));
        let captured = self.account.launches.is_some_and(|launches| launches.graph_kernels > 0);
        let optimizes = self.account.of_loop.is_some_and(|of_loop| of_loop.optimizer >= 0.15);
        let compile = if captured {
            advice(
                "Capture more of the step in CUDA graphs",
                "what is launched one by one still costs the host more than the GPU",
                self.gain(),
            )
        } else {
            advice(
                "Use torch.compile(mode=\"reduce-overhead\") or CUDA graphs",
                "they launch many kernels at once, without Python between them",
                self.gain(),
            )
        };
        let mut all =
            vec![compile, advice("Raise the batch size", "fewer, longer kernels then do the same work", self.gain())];
        if optimizes {
            all.insert(
                1,
                advice(
                    "Use a fused optimizer: AdamW(…, fused=True)",
                    "one kernel replaces several for each parameter",
                    None,
                ),
            );
        }
        let row = losses::largest(self.account, LossKind::Launches);
        let culprit = row.and_then(|row| line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_ms)));
        Words {
            summary: format!(
                "The GPU sits idle {lost} of the time while the host launches its work: {kernels:.0} kernels{a_step}{}.",
                median.unwrap_or_default()
            ),
            advice: all,
            culprits: culprit.into_iter().collect(),
        }
    }

    pub(super) fn host_work(&self) -> Words {
        let lost = &self.lost;
        let Some(row) = losses::longest_work(self.account).filter(|row| !losses::is_unrecorded(row)) else {
            return Words {
                summary: format!(
                    "The GPU sits idle {lost} of the time in gaps of which the trace shows nothing: Python of the loop, or a sleep."
                ),
                advice: vec![if self.account.with_stack {
                    advice(
                        "Record whole steps: the trace ends or begins within one",
                        "what the GPU waits for then is in it",
                        None,
                    )
                } else {
                    advice(
                        "Record with torch.profiler.profile(with_stack=True)",
                        "the trace then names the Python functions of these gaps",
                        None,
                    )
                }],
                culprits: Vec::new(),
            };
        };
        if row.reason == Some(IdleReason::Launch) {
            return self.long_calls(row);
        }
        let mut all = vec![advice(
            "Take this work out of the loop: less often, in another thread, or on the GPU",
            "the GPU has nothing to do while the loop does it",
            self.gain(),
        )];
        // What an operator or annotation does on the host cannot be told from its name.
        if row.reason == Some(IdleReason::Operator) && row.function.is_none() {
            let why = "the trace then names the functions that run there";
            all.insert(0, advice("Record with torch.profiler.profile(with_stack=True)", why, None));
        }
        Words {
            summary: format!(
                "The GPU sits idle {lost} of the time while the host does its own work, most of it in {}{}.",
                named(row),
                place(row.at.as_deref())
            ),
            advice: all,
            culprits: line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_ms)).into_iter().collect(),
        }
    }

    /// Calls of the runtime that take long in every step.
    fn long_calls(&self, row: &IdleRow) -> Words {
        let allocates = row.name.contains("Malloc") || row.name.contains("Free");
        let (title, why) = if allocates {
            (
                "Keep the sizes of tensors constant, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                "the allocator then reuses its memory instead of asking the driver for more",
            )
        } else {
            (
                "Profile some steps later: warm up for more steps first",
                "first launches load code; they belong to no step",
            )
        };
        Words {
            summary: format!(
                "The GPU sits idle {} of the time while the host is in calls of the driver that take long: {}{}, up to {}.",
                self.lost,
                row.name,
                place(row.at.as_deref()),
                step_time(row.longest_ms)
            ),
            advice: vec![advice(title, why, self.gain())],
            culprits: line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_ms)).into_iter().collect(),
        }
    }

    pub(super) fn blocked(&self) -> Words {
        let row = losses::largest(self.account, LossKind::Blocked);
        let named = row.map(|row| format!("{}{}", called(row), place(row.at.as_deref())));
        Words {
            summary: format!(
                "The GPU sits idle {} of the time while the loop sleeps or waits: {}.",
                self.lost,
                named.unwrap_or_else(|| "in a lock".to_owned())
            ),
            advice: vec![advice(
                "Remove the sleep, or wait in another thread",
                "the GPU has nothing to do meanwhile",
                self.gain(),
            )],
            culprits: row
                .and_then(|row| line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_ms)))
                .into_iter()
                .collect(),
        }
    }

    pub(super) fn start_up(&self) -> Words {
        if self.account.captures > 0 {
            return Words {
                summary: format!(
                    "The trace records the making of CUDA graphs: nothing runs meanwhile, {} of the time.",
                    self.lost
                ),
                advice: vec![advice(
                    "Profile some steps that run the graphs",
                    "graphs are made once, and run many times",
                    None,
                )],
                culprits: Vec::new(),
            };
        }
        let row = losses::largest(self.account, LossKind::StartUp);
        let call = row.map_or("a call of the runtime", |row| row.name.as_str());
        let took = row.map(|row| step_time(row.longest_ms)).unwrap_or_default();
        Words {
            summary: format!(
                "The trace is mostly start-up, {} of it: one {call} took {took}, and the GPU computes {} of the time.",
                self.lost,
                percent(self.gpu.compute)
            ),
            advice: vec![advice(
                "Profile some steps after the first ones: torch.profiler.schedule(wait=1, warmup=2, active=3)",
                "the first steps create the GPU's context and start the profiler",
                None,
            )],
            culprits: Vec::new(),
        }
    }

    pub(super) fn unrecorded(&self) -> Words {
        Words {
            summary: format!(
                "The GPU sits idle {} of the time. The trace has nothing of the host, so it does not show why.",
                self.lost
            ),
            advice: vec![advice(
                "Record the host as well: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                "the trace then shows what the host did while the GPU was idle",
                None,
            )],
            culprits: Vec::new(),
        }
    }
}
