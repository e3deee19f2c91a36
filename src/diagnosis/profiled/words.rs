//! The words for a loss of a GPU's time.

use super::super::stats::percent;
use super::losses::{self, Loss, LossKind};
use super::said::{Words, advice, called, line, named, place};
use super::sync_advice;
use crate::profiles::account::{CopyDirection, DeviceAccount, IdleReason, IdleRow, ProfileAccount, SyncRow};
use crate::text::format::step_time;

/// The words for a loss.
pub(super) fn words_for(loss: &Loss, account: &ProfileAccount, gpu: &DeviceAccount) -> Words {
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
        LossKind::CpuOperators => Words::default(),
    }
}

struct GpuLoss<'a> {
    account: &'a ProfileAccount,
    gpu: &'a DeviceAccount,
    loss: &'a Loss,
    /// The loss as a percentage.
    lost: String,
}

impl GpuLoss<'_> {
    fn gain(&self) -> Option<f64> {
        Some(self.loss.gain())
    }

    fn share(&self, ms: f64) -> f64 {
        ms / self.account.window_ms.max(f64::MIN_POSITIVE)
    }

    fn data(&self) -> Words {
        let lost = &self.lost;
        let makes = self.account.of_loop.is_some_and(|of_loop| of_loop.makes_batches);
        let row = losses::largest(self.account, LossKind::Data);
        let culprits = row.and_then(|row| line(row.function.as_deref(), row.at.as_deref(), self.loss.share));
        if makes {
            return Words {
                summary: format!(
                    "The GPU sits idle {lost} of the time, waiting for data: the loop makes the batches itself."
                ),
                advice: vec![
                    advice(
                        "Make batches in workers: num_workers=4, persistent_workers=True",
                        "workers prepare the next batches while the GPU computes",
                        self.gain(),
                    ),
                    advice(
                        "Move the costly transforms to the GPU",
                        "the loop then has less to do for each batch",
                        self.gain(),
                    ),
                ],
                culprits: culprits.into_iter().collect(),
            };
        }
        Words {
            summary: format!(
                "The GPU sits idle {lost} of the time, waiting for data: the workers are late. A trace does not show why."
            ),
            advice: vec![
                advice(
                    "See what the workers do: trainmon diagnose --pid PID while the job runs",
                    "whether they lack CPUs, wait for the disk, or decode",
                    self.gain(),
                ),
                advice(
                    "Raise num_workers while CPUs are free",
                    "more batches are then made at the same time",
                    self.gain(),
                ),
            ],
            culprits: culprits.into_iter().collect(),
        }
    }

    fn communication(&self) -> Words {
        let lost = &self.lost;
        let most = self.account.collectives.iter().max_by(|a, b| a.exposed_ms.total_cmp(&b.exposed_ms));
        let most = most.map(|row| format!(", most of it in {} ({})", row.name, percent(self.share(row.exposed_ms))));
        let hidden = (self.gpu.communication - self.gpu.exposed).max(0.0);
        let hidden = if hidden > 0.01 {
            format!(" Only {} runs beside kernels that compute.", percent(hidden))
        } else {
            String::new()
        };
        let mut all = vec![
            advice(
                "Overlap the collectives with computation",
                "DDP does with gradient_as_bucket_view=True and smaller bucket_cap_mb, FSDP with forward_prefetch=True",
                self.gain(),
            ),
            advice(
                "Communicate less: larger batches per rank, no_sync() while gradients accumulate",
                "the same exchange then serves more work",
                self.gain(),
            ),
        ];
        if self.account.world_size.is_none_or(|size| size > 1) {
            let why =
                "a collective also waits for the last rank to enter: the traces of all ranks tell the two apart";
            all.insert(1, advice("Compare the ranks: trainmon diagnose rank*.json", why, None));
        }
        Words {
            summary: format!(
                "The GPU does nothing but communicate {lost} of the time{}.{hidden}",
                most.unwrap_or_default()
            ),
            advice: all,
            culprits: Vec::new(),
        }
    }

    fn copies(&self) -> Words {
        let lost = &self.lost;
        let blocking = losses::blocking_copies(self.account)
            .filter(|row| self.share(row.idle_inside_ms) >= self.loss.share / 2.0);
        let Some(row) = blocking else { return self.copies_alone() };
        let way = match row.copies {
            Some(CopyDirection::DeviceToHost) => "to the host",
            _ => "to the GPU",
        };
        let per_step = row.per_step.map(|count| format!(" {} times a step", times(count))).unwrap_or_default();
        let summary = format!(
            "The GPU sits idle {lost} of the time while the host is blocked in copies {way}: {} calls {}{per_step}{}.",
            caller(row),
            row.call,
            place(row.at.as_deref())
        );
        let (title, why) = match row.copies {
            Some(CopyDirection::DeviceToHost) => (
                "Copy results with non_blocking=True into pinned memory, and read them a step later",
                "a copy to pageable memory blocks the thread that would give the GPU its next work",
            ),
            _ => (
                "Pin the memory: pin_memory=True, then non_blocking=True",
                "a copy from pageable memory blocks the thread that would give the GPU its next work",
            ),
        };
        Words {
            summary,
            advice: vec![
                advice(title, why, self.gain()),
                advice(
                    "Copy once instead of many small times",
                    "each copy that blocks costs a wait, however small it is",
                    self.gain(),
                ),
            ],
            culprits: line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_inside_ms))
                .into_iter()
                .collect(),
        }
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
        let pin = advice(
            "Pin the memory: pin_memory=True, then non_blocking=True",
            "pinned memory is copied at the link's full rate, while kernels run",
            self.gain(),
        );
        let apart = advice(
            "Copy the next batch on a separate CUDA stream",
            "copies from pinned memory overlap with the kernels of the step",
            self.gain(),
        );
        let advice = if pageable == Some(false) { vec![apart, pin] } else { vec![pin, apart] };
        let caller = self.account.syncs.iter().find(|row| row.copies == Some(direction));
        let culprit =
            caller.and_then(|row| line(row.function.as_deref(), row.at.as_deref(), self.share(row.wait_ms)));
        Words {
            summary: format!("The GPU only copies{way} {lost} of the time{pinned}: no kernel runs meanwhile."),
            advice,
            culprits: culprit.into_iter().collect(),
        }
    }

    fn syncs(&self) -> Words {
        let lost = &self.lost;
        let Some(row) = self.account.syncs.first() else {
            let summary = format!("The GPU sits idle {lost} of the time while the host waits for it.");
            return Words { summary, ..Words::default() };
        };
        let per_step = row.per_step.map(|count| format!(" {} times a step", times(count)));
        let count = per_step.unwrap_or_else(|| format!(" {} times", row.count));
        let mine = self.share(row.idle_ms);
        let (title, why) = sync_advice::instead_of(row);
        let rest: Vec<_> = self.account.syncs.iter().skip(1).filter(|row| self.share(row.idle_ms) >= 0.02).collect();
        let more = rest.iter().take(2).map(|row| {
            let (title, why) = sync_advice::instead_of(row);
            advice(title, why, Some(1.0 / (1.0 - self.share(row.idle_ms)).max(0.01)))
        });
        let mut all = vec![advice(title, why, Some(1.0 / (1.0 - mine).max(0.01)))];
        for one in more {
            if all.iter().all(|known| known.title != one.title) {
                all.push(one);
            }
        }
        Words {
            summary: format!(
                "The GPU runs empty while the host waits for it, and sits idle {lost} of the time: {} waits{count}{}.",
                caller(row),
                place(row.at.as_deref())
            ),
            advice: all,
            culprits: self
                .account
                .syncs
                .iter()
                .filter(|row| self.share(row.idle_ms) >= 0.01)
                .filter_map(|row| line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_ms)))
                .take(3)
                .collect(),
        }
    }

    fn launches(&self) -> Words {
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

    fn host_work(&self) -> Words {
        let lost = &self.lost;
        let Some(row) = losses::longest_work(self.account).filter(|row| !losses::is_unrecorded(row)) else {
            return Words {
                summary: format!(
                    "The GPU sits idle {lost} of the time in gaps of which the trace shows nothing: Python of the loop, or a sleep."
                ),
                advice: vec![advice(
                    "Record with torch.profiler.profile(with_stack=True)",
                    "the trace then names the Python functions of these gaps",
                    self.gain(),
                )],
                culprits: Vec::new(),
            };
        };
        if row.reason == Some(IdleReason::Launch) {
            return self.long_calls(row);
        }
        Words {
            summary: format!(
                "The GPU sits idle {lost} of the time while the host does its own work, most of it in {}{}.",
                named(row),
                place(row.at.as_deref())
            ),
            advice: vec![advice(
                "Take this work out of the loop: less often, in another thread, or on the GPU",
                "the GPU has nothing to do while the loop does it",
                self.gain(),
            )],
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

    fn blocked(&self) -> Words {
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

    fn start_up(&self) -> Words {
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

    fn unrecorded(&self) -> Words {
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

/// What calls: the operator, else the call itself.
fn caller(row: &SyncRow) -> String {
    format!("`{}`", row.operator.as_deref().unwrap_or(&row.call))
}

/// `6`, or `1.5`.
fn times(count: f64) -> String {
    let text = format!("{count:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
