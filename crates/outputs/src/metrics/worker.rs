//! Metrics of data-loader workers. They are counted from 0 in the order of their PIDs: a label that held a PID would be a new series
//! in each epoch of a loader that starts its workers anew.

use super::rank::RankScope;
use super::{Labeled, metrics};
use trainmon_waits::frame::WorkerRates;

/// One worker.
pub(super) struct WorkerScope(WorkerRates);

impl WorkerScope {
    /// The workers of a rank.
    pub(super) fn all(rank: &Labeled<RankScope>) -> Vec<Labeled<Self>> {
        let mut workers = rank.scope.workers.clone();
        workers.sort_by_key(|worker| worker.id);
        let of = |(at, worker): (usize, WorkerRates)| {
            let labels = rank.labels.iter().cloned().chain([("worker", at.to_string())]);
            Labeled::new(labels, Self(worker))
        };
        workers.into_iter().enumerate().map(of).collect()
    }
}

metrics! {
    /// Of each worker.
    WORKER of WorkerScope {
        /// what the worker does with its time
        Gauge worker_time "ratio" ["state"], |of, out| {
            out.labeled(["busy"], of.0.busy);
            out.labeled(["io_wait"], of.0.io_wait);
            out.labeled(["runnable"], of.0.runnable);
            out.labeled(["idle"], of.0.idle);
        };
        /// batches per second
        Gauge worker_batches "per_second", |of, out| out.value(of.0.batches_per_s);
    }
}
