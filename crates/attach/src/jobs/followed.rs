//! Follows training processes for days, without a screen: one named by the user, or all of the machine as they come and go.
//!
//! All of them means: what the list of candidates shows, looked for every ten seconds. A process that ends is let go, and so is one
//! that no longer looks like training, such as a launcher whose ranks have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attached::AttachedJobs;
use super::candidates::polling::{Scanned, Scans};
use super::session::SessionOptions;
use super::{JobCandidate, JobKey, Target};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_sample::GpuSample;

/// Time between two scans …
const EVERY: Duration = Duration::from_secs(10);
/// … which is at least this many times as long as a scan takes: at most 0.2% of a CPU.
const REST_FACTOR: u32 = 500;
/// How long a scan waits for the GPUs: one that has no job is shown by what the scan reads.
const GPU_WAIT: Duration = Duration::from_secs(2);
/// Most jobs followed at once: each costs what one trainmon costs, and no machine has more GPUs than this.
pub(crate) const MOST_FOLLOWED: usize = 32;
/// A process that was not among the candidates in so many scans, one after the other, is let go.
const UNLISTED_SCANS: u32 = 6;
/// A process that could not be attached to is tried again after so long.
const RETRY: Duration = Duration::from_secs(300);

/// What has happened.
#[derive(Debug)]
pub enum Followed {
    /// A process is watched from now on.
    Came(JobKey, Target),
    /// The next interval of one.
    Tick(JobKey, Arc<Tick>),
    /// One is no longer watched: it has ended, or does not train.
    Gone(JobKey),
    /// A process cannot be watched: its PID, and why.
    Refused(u32, String),
    /// The machine was scanned: what its GPUs do, if that can be read, and how many processes more than [`MOST_FOLLOWED`] train.
    Scanned(Option<Arc<GpuSample>>, usize),
}

/// A process that is followed.
#[derive(Debug)]
struct FollowedProcess {
    key: JobKey,
    /// Scans in a row that did not list it.
    unlisted: u32,
}

/// The processes that are followed.
#[derive(Debug)]
pub struct FollowedJobs {
    jobs: AttachedJobs,
    /// Those that are attached to, by PID.
    kept: BTreeMap<u32, FollowedProcess>,
    /// Processes that could not be attached to, and when that was.
    refused: BTreeMap<u32, Instant>,
    /// `None` where one process is followed to its end.
    search: Option<Scans>,
    /// Told before anything else.
    queue: Vec<Followed>,
    options: SessionOptions,
}

impl FollowedJobs {
    /// Follows one process, the one of the options.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn one(options: SessionOptions) -> anyhow::Result<Self> {
        let mut followed = Self::nothing(options, None);
        let (key, target) = followed.jobs.attach(followed.options.clone())?;
        followed.keep(key, target);
        Ok(followed)
    }

    /// Follows all training processes that are found where the options say that the sources are, each with these options.
    pub fn all(options: SessionOptions) -> Self {
        let scans = Scans::new(options.collector.sources.clone(), GPU_WAIT);
        Self::nothing(options, Some(scans))
    }

    fn nothing(mut options: SessionOptions, search: Option<Scans>) -> Self {
        options.collector.outlook = true;
        let jobs = AttachedJobs::none(MOST_FOLLOWED);
        Self { jobs, kept: BTreeMap::new(), refused: BTreeMap::new(), search, queue: Vec::new(), options }
    }

    fn keep(&mut self, key: JobKey, target: Target) {
        self.kept.insert(target.pid, FollowedProcess { key, unlisted: 0 });
        self.queue.push(Followed::Came(key, target));
    }

    /// Whether the one process that was to be followed has ended.
    pub fn has_ended(&self) -> bool {
        self.search.is_none() && self.kept.is_empty() && self.queue.is_empty()
    }

    /// What happens next; for ever once nothing can. Cancel safe.
    pub async fn next(&mut self) -> Followed {
        loop {
            if !self.queue.is_empty() {
                return self.queue.remove(0);
            }
            let scanned = async {
                match &mut self.search {
                    Some(search) => search.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                (key, tick) = self.jobs.next() => {
                    if !tick.alive {
                        self.let_go(key);
                    }
                    return Followed::Tick(key, tick);
                }
                Scanned { list, gpus, took } = scanned => {
                    if let Some(search) = &mut self.search {
                        search.due = Instant::now() + EVERY.max(took.saturating_mul(REST_FACTOR).min(EVERY * 6));
                    }
                    let left_out = self.take(&list);
                    self.queue.push(Followed::Scanned(gpus, left_out));
                }
            }
        }
    }

    /// Attaches to new candidates, and lets those go that no longer are candidates. Gives how many are left out.
    fn take(&mut self, list: &[JobCandidate]) -> usize {
        for (pid, kept) in &mut self.kept {
            let listed = list.iter().any(|candidate| candidate.pid == *pid);
            kept.unlisted = if listed { 0 } else { kept.unlisted + 1 };
        }
        let unlisted: Vec<JobKey> =
            self.kept.values().filter(|kept| kept.unlisted >= UNLISTED_SCANS).map(|kept| kept.key).collect();
        unlisted.into_iter().for_each(|key| self.let_go(key));
        self.refused
            .retain(|pid, since| since.elapsed() < RETRY && list.iter().any(|candidate| candidate.pid == *pid));
        let mut left_out = 0;
        for candidate in list {
            if self.kept.contains_key(&candidate.pid) || self.refused.contains_key(&candidate.pid) {
                continue;
            }
            if self.kept.len() >= MOST_FOLLOWED {
                left_out += 1;
                continue;
            }
            let mut options = self.options.clone();
            options.collector.pid = candidate.pid;
            match self.jobs.attach(options) {
                Ok((key, target)) => self.keep(key, target),
                Err(error) => {
                    self.refused.insert(candidate.pid, Instant::now());
                    self.queue.push(Followed::Refused(candidate.pid, error.to_string()));
                }
            }
        }
        left_out
    }

    fn let_go(&mut self, key: JobKey) {
        self.kept.retain(|_, kept| kept.key != key);
        self.jobs.detach(key);
        self.queue.push(Followed::Gone(key));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::collector::CollectorOptions;
    use trainmon_rates::RatesOptions;
    use trainmon_sources::{Roots, SourceOptions};

    /// A process that is ended on drop.
    struct Sleeping(Child);

    impl Sleeping {
        fn start() -> Self {
            Self(Command::new("sleep").arg("1000").spawn().unwrap())
        }

        fn candidate(&self) -> JobCandidate {
            JobCandidate { pid: self.0.id(), ..JobCandidate::default() }
        }
    }

    impl Drop for Sleeping {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Where neither processes nor GPUs are.
    fn nowhere() -> SourceOptions {
        let roots = Roots { proc: "/nowhere".into(), sys: "/nowhere".into() };
        SourceOptions { roots, nvml_lib: Some("/nowhere/libnvidia-ml.so.1".into()), simulated_gpu: None }
    }

    fn options(pid: u32) -> SessionOptions {
        SessionOptions {
            collector: CollectorOptions {
                sources: SourceOptions { roots: Roots::default(), ..nowhere() },
                pid,
                interval: Duration::from_millis(100),
                no_ptrace: true,
                no_stacks: true,
                py_spy: None,
                outlook: false,
            },
            rates: RatesOptions::default(),
            duration: None,
            iterations: None,
        }
    }

    /// What happens next, without what intervals say of living jobs.
    async fn next(followed: &mut FollowedJobs) -> Followed {
        let wait = async {
            loop {
                match followed.next().await {
                    Followed::Tick(_, tick) if tick.alive => {}
                    other => return other,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("something happens")
    }

    fn block_on(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    }

    #[test]
    fn one_job_is_followed_to_its_end() {
        block_on(async {
            let process = Sleeping::start();
            let pid = process.0.id();
            let mut followed = FollowedJobs::one(options(pid)).unwrap();
            assert!(matches!(next(&mut followed).await, Followed::Came(_, target) if target.pid == pid));
            assert!(!followed.has_ended());
            drop(process);
            assert!(matches!(next(&mut followed).await, Followed::Tick(..)));
            assert!(matches!(next(&mut followed).await, Followed::Gone(_)));
            assert!(followed.has_ended());
        });
        assert!(FollowedJobs::one(options(u32::MAX / 2)).is_err());
    }

    #[test]
    fn candidates_come_and_go_and_one_that_cannot_be_watched_is_told_once() {
        block_on(async {
            let mut followed = FollowedJobs::nothing(options(0), Some(Scans::new(nowhere(), GPU_WAIT)));
            // The machine has none: what follows is as if scans had found these.
            assert!(matches!(next(&mut followed).await, Followed::Scanned(None, 0)));
            let processes: Vec<Sleeping> = (0..3).map(|_| Sleeping::start()).collect();
            let missing = JobCandidate { pid: u32::MAX / 2, ..JobCandidate::default() };
            let mut list: Vec<JobCandidate> = processes.iter().map(Sleeping::candidate).collect();
            list.push(missing);
            assert_eq!(followed.take(&list), 0);
            for process in &processes {
                assert!(
                    matches!(next(&mut followed).await, Followed::Came(_, target) if target.pid == process.0.id())
                );
            }
            assert!(
                matches!(next(&mut followed).await, Followed::Refused(pid, why) if pid == u32::MAX / 2 && !why.is_empty())
            );
            followed.take(&list);
            assert!(followed.queue.is_empty() && followed.kept.len() == 3, "nothing is attached to twice");
            for _ in 0..UNLISTED_SCANS {
                followed.take(&list[..2]);
            }
            assert!(matches!(next(&mut followed).await, Followed::Gone(_)));
            assert_eq!(followed.kept.len(), 2);
        });
    }

    #[test]
    fn more_jobs_than_can_be_followed_are_counted() {
        block_on(async {
            let mut followed = FollowedJobs::nothing(options(0), Some(Scans::new(nowhere(), GPU_WAIT)));
            followed.kept = (0..MOST_FOLLOWED as u32)
                .map(|at| (at + 1, FollowedProcess { key: JobKey(at), unlisted: 0 }))
                .collect();
            let list: Vec<JobCandidate> =
                (1..=40).map(|pid| JobCandidate { pid, ..JobCandidate::default() }).collect();
            assert_eq!(followed.take(&list), 40 - MOST_FOLLOWED);
        });
    }
}
