//! The words for a loss of a GPU's time.

use super::super::stats::percent;
use super::losses::{self, Loss, LossKind};
use super::said::{Words, advice, line, of_ranks, place};
use super::sync_advice;
use crate::profiles::account::{CopyDirection, DeviceAccount, ProfileAccount, SyncRow};

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

/// A loss on its way into words.
pub(super) struct GpuLoss<'a> {
    pub account: &'a ProfileAccount,
    pub gpu: &'a DeviceAccount,
    pub loss: &'a Loss,
    /// The loss as a percentage.
    pub lost: String,
}

impl GpuLoss<'_> {
    pub fn gain(&self) -> Option<f64> {
        Some(self.loss.gain())
    }

    pub fn share(&self, ms: f64) -> f64 {
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
            all.splice(1..1, of_ranks(self.account));
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
        let mut all = vec![advice(title, why, self.gain())];
        if row.count > 2 * self.account.steps.max(1) {
            all.push(advice(
                "Copy once instead of many small times",
                "each copy that blocks costs a wait, however small it is",
                self.gain(),
            ));
        }
        Words {
            summary,
            advice: all,
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
        let count = per_step.unwrap_or_else(|| match row.count {
            1 => " once".to_owned(),
            count => format!(" {count} times"),
        });
        let copying = if row.copies.is_some() { " in a copy of next to nothing" } else { "" };
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
                "The GPU runs empty while the host waits for it, and sits idle {lost} of the time: {} waits{count}{copying}{}.",
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
