//! Metrics of each rank: of a run without ranks, of its training loop.

use super::counters::RankCounters;
use super::gpu::labels as gpu_labels;
use super::job::JobScope;
use super::{Labeled, metrics};
use trainmon_diagnosis::diagnosis::ranks::{blocked, waits_for_others};
use trainmon_diagnosis::diagnosis::verdict::{Rank, Verdict};
use trainmon_rates::frame::GpuRates;
use trainmon_sample::ProcessId;
use trainmon_waits::frame::RankRates;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// One rank.
pub(super) struct RankScope {
    pub(super) workers: Vec<trainmon_waits::frame::WorkerRates>,
    steps_per_s: Option<f64>,
    counters: RankCounters,
    /// Where its time went in the verdict's window.
    shares: Option<TimeSplit>,
    /// Share of its time in collectives, by its stacks.
    collectives: Option<f64>,
    /// Share of its time in which it waits for other ranks, or may.
    waits: Option<f64>,
    /// The same without what its stacks say.
    blocked: Option<f64>,
    /// The other ranks on this machine wait for it.
    late: Option<bool>,
    /// Number of ranks of the run.
    world: Option<u32>,
    gpus: Vec<GpuRates>,
}

impl RankScope {
    /// The ranks of a job.
    pub(super) fn all(job: &Labeled<JobScope>) -> Vec<Labeled<Self>> {
        let JobScope { tick, counters } = &job.scope;
        let (frame, verdict) = (&tick.frame, &tick.verdict);
        let is_one_of_many = frame.ranks.len() > 1;
        let of = |(place, rank): (usize, &RankRates)| {
            let judged = verdict.ranks.iter().find(|judged| judged.pid == rank.id.pid);
            let number = rank.place.map(|place| place.rank).or_else(|| {
                if !is_one_of_many {
                    return None;
                }
                judged.map_or(u32::try_from(place).ok(), |judged| Some(judged.number(place)))
            });
            let gpus: Vec<GpuRates> =
                frame.gpus.iter().filter(|gpu| of_rank(gpu, rank.id, is_one_of_many)).cloned().collect();
            let shares = match judged {
                Some(judged) => Some(judged.shares),
                None if is_one_of_many => None,
                None => verdict.shares,
            };
            let collectives =
                judged.map_or_else(|| own_collectives(verdict, is_one_of_many), |judged| judged.collectives);
            let busy =
                trainmon_base::stats::mean(gpus.iter().map(|gpu| gpu.job_utilization_pct.or(gpu.utilization_pct)));
            let busy = busy.map_or(0.0, |pct| pct / 100.0);
            // A rank without others waits for none.
            let among_others = if is_one_of_many || rank.place.is_some() { shares } else { None };
            let scope = Self {
                workers: frame.workers.iter().filter(|worker| worker.rank == rank.id.pid).cloned().collect(),
                steps_per_s: rank.steps_per_s(frame.seconds),
                counters: counters.ranks.get(&rank.id).copied().unwrap_or_default(),
                shares,
                collectives,
                waits: among_others.map(|shares| waits_for_others(&shares, collectives, busy)),
                blocked: among_others.map(|shares| blocked(&shares, busy)),
                late: judged.map(|rank: &Rank| rank.straggler),
                world: rank.place.map(|place| place.world),
                gpus,
            };
            let rank = number.map(|number| ("rank", number.to_string()));
            Labeled::new(job.labels.iter().cloned().chain(rank), scope)
        };
        frame.ranks.iter().enumerate().map(of).collect()
    }
}

/// Whether a GPU is the rank's.
fn of_rank(gpu: &GpuRates, rank: ProcessId, is_one_of_many: bool) -> bool {
    gpu.attached && (!is_one_of_many || gpu.job_pids.contains(&rank.pid))
}

/// The share in collectives of a job's only rank on this machine, if its stacks were read.
fn own_collectives(verdict: &Verdict, is_one_of_many: bool) -> Option<f64> {
    let activities = if is_one_of_many { return None } else { &verdict.main_thread.as_ref()?.activities };
    Some(activities.get(trainmon_waits::stacks::Activity::Collective.word()).copied().unwrap_or(0.0))
}

metrics! {
    /// Of each rank.
    RANK of RankScope {
        /// the other ranks on this machine wait for this one (1)
        Gauge rank_late "", |of, out| out.value(of.late.map(|late| f64::from(u8::from(late))));
        /// share of its time in which the rank waits for other ranks, or may: the late rank of a run waits least
        Gauge rank_waiting "ratio", |of, out| out.value(of.waits);
        /// the same without what its stacks say
        Gauge rank_blocked "ratio", |of, out| out.value(of.blocked);
        /// share of its time in collectives, by its stacks
        Gauge rank_collectives "ratio", |of, out| out.value(of.collectives);
        /// what its loop does with its time, in the verdict's window
        Gauge rank_loop "ratio" ["activity"], |of, out| {
            let Some(shares) = of.shares else { return };
            LoopActivity::ALL.iter().for_each(|activity| out.labeled([activity.key()], shares[*activity]));
        };
        /// time by what its loop did
        Counter rank_loop "seconds" ["activity"], |of, out| {
            LoopActivity::ALL.iter().for_each(|activity| out.labeled([activity.key()], of.counters.loop_s[*activity]));
        };
        /// steps
        Counter rank_steps "", |of, out| out.value(of.counters.steps);
        /// steps per second in the last interval
        Gauge rank_steps "per_second", |of, out| out.value(of.steps_per_s);
        /// number of ranks of the run
        Gauge rank_world_size "", |of, out| out.value(of.world.map(f64::from));
        /// a GPU that the rank uses; always 1
        Gauge rank_gpu_info "" ["gpu", "UUID"], |of, out| {
            for gpu in &of.gpus {
                let labels: Vec<String> = gpu_labels(gpu).map(|(_, value)| value).collect();
                if let [index, uuid] = labels.as_slice() {
                    out.labeled([index, uuid], 1.0);
                }
            }
        };
    }
}
