//! The sentence, the advice and the names that go with a loss.

use super::super::causes::Cause;
use super::super::culprits::{Culprit, CulpritKind, ShareOf};
use super::super::parts::Advice;
use super::super::stats::{percent, round};
use super::losses::{self, Busy, Loss, LossKind};
use super::{cpu_words, sync_advice};
use crate::profiles::account::{CopyDirection, DeviceAccount, ProfileAccount, SyncRow};
use crate::text::format::step_time;

/// What a verdict says.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub summary: String,
    pub advice: Vec<Advice>,
    pub culprits: Vec<Culprit>,
}

/// Advice with what it gains at most.
pub(super) fn advice(title: impl Into<String>, why: impl Into<String>, gain: Option<f64>) -> Advice {
    Advice {
        title: title.into(),
        why: why.into(),
        speedup_at_most: gain.map(|gain| round(gain.max(1.0), 2)),
        predicted_step_ms: None,
    }
}

/// A line of code to blame: `train_step (train.py:41)`.
pub(super) fn line(function: Option<&str>, at: Option<&str>, share: f64) -> Option<Culprit> {
    let at = at?;
    let name = function.map_or_else(|| at.to_owned(), |function| format!("{function} ({at})"));
    let share = Some(round(share, 3));
    Some(Culprit { kind: CulpritKind::Line, pid: None, name, more: 0, share, unit: Some(ShareOf::Time) })
}

/// The words for a loss.
pub(super) fn of(loss: &Loss, account: &ProfileAccount) -> Words {
    let Some(gpu) = account.devices.first() else { return cpu_words::of(loss, account) };
    let words = Of { account, gpu, loss, lost: percent(loss.share) };
    match loss.kind {
        LossKind::Data => words.data(),
        LossKind::Communication => words.communication(),
        LossKind::Copies => words.copies(),
        LossKind::Syncs => words.syncs(),
        LossKind::Launches => words.launches(),
        LossKind::HostWork => words.host_work(),
        LossKind::StartUp => words.start_up(),
        LossKind::Unrecorded => words.unrecorded(),
        LossKind::Blocked | LossKind::CpuOperators => Words::default(),
    }
}

struct Of<'a> {
    account: &'a ProfileAccount,
    gpu: &'a DeviceAccount,
    loss: &'a Loss,
    /// The loss as a percentage.
    lost: String,
}

impl Of<'_> {
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
                summary: format!("The GPU sits idle {lost} of the time, waiting for data: the loop makes the batches itself."),
                advice: vec![
                    advice(
                        "Make batches in workers: num_workers=4, persistent_workers=True",
                        "workers prepare the next batches while the GPU computes",
                        self.gain(),
                    ),
                    advice("Move the costly transforms to the GPU", "the loop then has less to do for each batch", self.gain()),
                ],
                culprits: culprits.into_iter().collect(),
            };
        }
        Words {
            summary: format!("The GPU sits idle {lost} of the time, waiting for data: the workers are late. A trace does not show why."),
            advice: vec![
                advice(
                    "See what the workers do: trainmon diagnose --pid PID while the job runs",
                    "whether they lack CPUs, wait for the disk, or decode",
                    self.gain(),
                ),
                advice("Raise num_workers while CPUs are free", "more batches are then made at the same time", self.gain()),
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
            let why = "a collective also waits for the last rank to enter: the traces of all ranks tell the two apart";
            all.insert(1, advice("Compare the ranks: trainmon diagnose rank*.json", why, None));
        }
        Words {
            summary: format!("The GPU does nothing but communicate {lost} of the time{}.{hidden}", most.unwrap_or_default()),
            advice: all,
            culprits: Vec::new(),
        }
    }

    fn copies(&self) -> Words {
        let lost = &self.lost;
        let blocking = losses::blocking_copies(self.account).filter(|row| self.share(row.idle_inside_ms) >= self.loss.share / 2.0);
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
                advice("Copy once instead of many small times", "each copy that blocks costs a wait, however small it is", self.gain()),
            ],
            culprits: line(row.function.as_deref(), row.at.as_deref(), self.share(row.idle_inside_ms)).into_iter().collect(),
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
        Words {
            summary: format!("The GPU only copies{way} {lost} of the time{pinned}: no kernel runs meanwhile."),
            advice,
            culprits: Vec::new(),
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
        let mut all = vec![
            compile,
            advice("Raise the batch size", "fewer, longer kernels then do the same work", self.gain()),
        ];
        if optimizes {
            all.insert(1, advice("Use a fused optimizer: AdamW(…, fused=True)", "one kernel replaces several for each parameter", None));
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
        let Some(row) = losses::largest(self.account, LossKind::HostWork) else {
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
        Words {
            summary: format!(
                "The GPU sits idle {lost} of the time while the host does its own work, most of it in {}{}.",
                cpu_words::named(row),
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

    fn start_up(&self) -> Words {
        let row = losses::largest(self.account, LossKind::StartUp);
        let call = row.map_or("a call of the runtime", |row| row.name.as_str());
        let took = row.map(|row| step_time(row.longest_ms)).unwrap_or_default();
        Words {
            summary: format!("The trace is mostly start-up: {call} alone took {took}, and the GPU computes {}.", percent(self.gpu.compute)),
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
            summary: format!("The GPU sits idle {} of the time. The trace has nothing of the host, so it does not show why.", self.lost),
            advice: vec![advice(
                "Record the host as well: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                "the trace then shows what the host did while the GPU was idle",
                None,
            )],
            culprits: Vec::new(),
        }
    }
}

/// The words for a GPU that is busy.
pub(super) fn of_busy(busy: &Busy, account: &ProfileAccount, gpu: &DeviceAccount) -> Words {
    let kernel = account.kernels.first();
    let total: f64 = account.kernels.iter().map(|row| row.total_ms).sum();
    let most = kernel.map(|row| format!(", {} of it in {}", percent(row.total_ms / total.max(f64::MIN_POSITIVE)), row.name));
    let most = most.unwrap_or_default();
    let peak = account.efficiency.as_ref().and_then(|found| found.of_peak);
    let used = peak.map(|share| format!(" It reaches {} of the GPU's peak.", percent(share))).unwrap_or_default();
    let computes = percent(gpu.compute);
    let (summary, advice) = match busy.cause {
        Cause::UnderFilled => (
            format!("The GPU computes {computes} of the time, mostly in kernels too small to fill it{most}.{used}"),
            vec![
                advice("Raise the batch size", "kernels with fewer blocks than the GPU has multiprocessors leave some of them idle", None),
                advice("Fuse small kernels with torch.compile", "one kernel then does the work of several", None),
            ],
        ),
        Cause::MemoryBandwidth => (
            format!("The GPU computes {computes} of the time, most of it limited by its memory{most}.{used}"),
            vec![
                advice("Fuse elementwise operators with torch.compile", "the data is then read and written once instead of once per operator", None),
                advice("Use bf16", "half of the bytes have to be moved", None),
            ],
        ),
        _ => {
            let single = kernel.is_some_and(|row| row.name.contains("gemm f32") || row.name.contains("f32 (cudnn)"));
            let mut all = Vec::new();
            if single {
                all.push(advice("Use bf16 autocast, or torch.set_float32_matmul_precision(\"high\")", "tensor cores do the matrix products", None));
            }
            all.push(advice("Fuse small kernels with torch.compile", "the GPU then moves less data between kernels", None));
            (format!("The GPU computes {computes} of the time{most}.{used}"), all)
        }
    };
    Words { summary, advice, culprits: Vec::new() }
}

/// Who calls: the operator, else the call itself.
fn caller(row: &SyncRow) -> String {
    format!("`{}`", row.operator.as_deref().unwrap_or(&row.call))
}

/// ` (train.py:41)`.
fn place(at: Option<&str>) -> String {
    at.map(|at| format!(" ({at})")).unwrap_or_default()
}

/// `6`, or `1.5`.
fn times(count: f64) -> String {
    let text = format!("{count:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
