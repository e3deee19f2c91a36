//! The threads of the job over the interval: one line for each role, and the individual threads that did something.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delta::{Scheduled, add};
use super::levels::HALF_A_TICK;
use trainmon_sample::{ProcessId, ProcessRole, ProcessSample, ThreadRole, ThreadSample};

/// Most threads in a frame.
pub const THREADS_IN_FRAME: usize = 256;

/// One thread that did something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRates {
    /// Its process.
    pub process: ProcessId,
    /// TID.
    pub tid: u32,
    /// What it does.
    pub role: ThreadRole,
    /// Name, raw: sanitize before showing; empty if unknown.
    pub name: Arc<str>,
    /// CPU use, percent of one CPU.
    pub cpu_pct: f32,
    /// Time runnable but queueing for a CPU, percent of wall time.
    pub run_delay_pct: f32,
}

/// The threads of one role in the processes of one role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRoleRates {
    /// Role of the processes.
    pub process_role: ProcessRole,
    /// Role of the threads.
    pub thread_role: ThreadRole,
    /// How many there are.
    pub count: u32,
    /// How many of them ran in the interval, however briefly.
    #[serde(default)]
    pub ran: u32,
    /// CPU use of all of them, percent of one CPU; `None` if all are new.
    pub cpu_pct: Option<f64>,
    /// Share of their runnable time spent queueing, 0–1.
    pub run_delay_share: Option<f64>,
}

/// Collects the threads of a job's processes.
#[derive(Debug, Default)]
pub(super) struct ThreadFold {
    threads: Vec<ThreadRates>,
    /// One for each pair of roles, with the sum of what its threads did.
    roles: BTreeMap<(ProcessRole, ThreadRole), (ThreadRoleRates, Option<Scheduled>)>,
}

impl ThreadFold {
    /// Adds a thread, with what it did in `span_s` seconds; `None` if unknown.
    pub(super) fn add(
        &mut self,
        process: &ProcessSample,
        thread: &ThreadSample,
        did: Option<Scheduled>,
        span_s: f64,
    ) {
        let (role, scheduled) = self.roles.entry((process.role, thread.role)).or_default();
        role.count = role.count.saturating_add(1);
        let Some(did) = did else { return };
        role.ran = role.ran.saturating_add(u32::from(did.on_cpu > 0));
        let percent = |ns: u64| (ns as f64 / 1e9 / span_s).min(1.0) * 100.0;
        let (cpu_pct, run_delay_pct) = (percent(did.on_cpu), percent(did.delay));
        add(&mut role.cpu_pct, Some(cpu_pct));
        Scheduled::add(scheduled, Some(did));
        if cpu_pct + run_delay_pct >= HALF_A_TICK * 100.0 {
            self.threads.push(ThreadRates {
                process: process.id,
                tid: thread.tid,
                role: thread.role,
                name: Arc::clone(&thread.name),
                cpu_pct: cpu_pct as f32,
                run_delay_pct: run_delay_pct as f32,
            });
        }
    }

    /// The busiest threads, most time on a CPU and queueing first, and the roles in their own order.
    pub(super) fn finish(mut self) -> (Vec<ThreadRates>, Vec<ThreadRoleRates>) {
        let busy = |thread: &ThreadRates| thread.cpu_pct + thread.run_delay_pct;
        let most_first = |a: &ThreadRates, b: &ThreadRates| {
            busy(b).total_cmp(&busy(a)).then_with(|| (a.process, a.tid).cmp(&(b.process, b.tid)))
        };
        if self.threads.len() > THREADS_IN_FRAME {
            self.threads.select_nth_unstable_by(THREADS_IN_FRAME, most_first);
            self.threads.truncate(THREADS_IN_FRAME);
        }
        self.threads.sort_unstable_by(most_first);
        self.threads.shrink_to_fit();
        let roles = self.roles.into_iter().map(|((process_role, thread_role), (role, scheduled))| {
            let run_delay_share = scheduled.map(Scheduled::delay_share);
            ThreadRoleRates { process_role, thread_role, run_delay_share, ..role }
        });
        (self.threads, roles.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rates;
    use crate::job::JobFold;
    use crate::testing::*;

    fn rank(at: u64, threads: u64) -> ProcessSample {
        let extra = (1..=threads).map(|n| {
            let tid = 10 + u32::try_from(n).unwrap();
            ThreadSample { name: "pt_autograd_0".into(), ..thread(tid, ThreadRole::Autograd, at * n, 0) }
        });
        ProcessSample {
            role: ProcessRole::Rank,
            threads: [thread(10, ThreadRole::Main, at * 600, at * 200)].into_iter().chain(extra).collect(),
            ..process(10)
        }
    }

    fn last(before: Vec<ProcessSample>, now: Vec<ProcessSample>) -> JobFold {
        let mut rates = Rates::default();
        rates.next(Arc::new(job_tick(0, before)));
        rates.next(Arc::new(job_tick(1, now))).job.unwrap()
    }

    #[test]
    fn threads_that_did_something_and_their_roles() {
        let frame = last(vec![rank(0, 8)], vec![rank(1, 8)]);
        let seen: Vec<_> = frame.threads.iter().map(|thread| (thread.tid, thread.role)).collect();
        let autograd = |tid| (tid, ThreadRole::Autograd);
        assert_eq!(seen, [(10, ThreadRole::Main), autograd(18), autograd(17), autograd(16), autograd(15)]);
        assert_eq!((frame.threads[0].cpu_pct, frame.threads[0].run_delay_pct), (60.0, 20.0));
        assert_eq!(&*frame.threads[1].name, "pt_autograd_0");
        let [main, autograd] = &frame.thread_roles[..] else { panic!("{:?}", frame.thread_roles) };
        assert_eq!((main.process_role, main.thread_role, main.count), (ProcessRole::Rank, ThreadRole::Main, 1));
        assert!(close(main.cpu_pct, 60.0) && close(main.run_delay_share, 0.25));
        assert_eq!((autograd.thread_role, autograd.count), (ThreadRole::Autograd, 8));
        assert!(close(autograd.cpu_pct, 3.6) && close(autograd.run_delay_share, 0.0));
    }

    #[test]
    fn new_threads_count_and_have_no_rates() {
        let frame = last(vec![rank(0, 0)], vec![rank(1, 2)]);
        assert_eq!(frame.threads.len(), 1);
        let autograd = &frame.thread_roles[1];
        assert_eq!((autograd.count, autograd.cpu_pct, autograd.run_delay_share), (2, None, None));
        let new = last(vec![], vec![rank(1, 2)]);
        assert_eq!((new.threads.len(), new.thread_roles[1].count), (0, 2));
    }

    #[test]
    fn the_busiest_are_kept() {
        let frame = last(vec![rank(0, 900)], vec![rank(1, 900)]);
        assert_eq!(frame.threads.len(), THREADS_IN_FRAME);
        assert!(frame.threads.windows(2).all(|pair| pair[0].cpu_pct >= pair[1].cpu_pct || pair[0].tid == 10));
        assert_eq!(frame.threads[0].tid, 910);
        assert_eq!(frame.thread_roles[1].count, 900);
    }
}
