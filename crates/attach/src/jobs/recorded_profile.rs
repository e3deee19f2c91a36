//! The one profile that `record --profile` puts into a recording. Without one the recording goes on.

use std::path::PathBuf;
use std::sync::Arc;

use super::profile;
use super::profile_taker::{ProfileNews, ProfileTaker};
use trainmon_base::errors;
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_profiles::account::ProfileAccount;

/// The job is asked by then, whatever is known of it, seconds.
const BEGUN_WITHIN_S: f64 = 10.0;

/// A profile on its way into a recording.
#[derive(Debug)]
pub struct RecordedProfile {
    proc_root: PathBuf,
    pid: u32,
    taker: ProfileTaker<(), Arc<ProfileAccount>>,
    state: RecordedState,
}

#[derive(Debug)]
enum RecordedState {
    /// The job starts up.
    Due,
    /// The job is asked, or the next sample has the profile.
    OnItsWay,
    Recorded,
    /// Why the job gave no profile.
    Failed(String),
}

impl RecordedProfile {
    /// One of the process with this PID.
    pub fn new(proc_root: PathBuf, pid: u32) -> Self {
        Self { proc_root, pid, taker: ProfileTaker::default(), state: RecordedState::Due }
    }

    /// Begins once the job trains, and sees that the profile is recorded.
    pub fn see(&mut self, tick: &Tick) {
        match self.state {
            RecordedState::Due if is_due(tick) => {
                self.state = RecordedState::OnItsWay;
                let (proc_root, processes) = (self.proc_root.clone(), tick.frame.loop_pids(self.pid));
                self.taker.begin((), move |asker| profile::of_processes(&proc_root, &processes, asker));
            }
            RecordedState::OnItsWay if tick.sample.account.is_some() => self.state = RecordedState::Recorded,
            _ => {}
        }
    }

    /// The profile, for the next sample; for ever where none comes. Cancel safe.
    pub async fn next(&mut self) -> Arc<ProfileAccount> {
        loop {
            match self.taker.next().await {
                ((), ProfileNews::Stage(_)) => {}
                ((), ProfileNews::Taken(Ok(account))) => return account,
                ((), ProfileNews::Taken(Err(error))) => {
                    let why = profile::why_none(&error);
                    errors::note(&format!("no profile: {why}; the recording goes on"));
                    self.state = RecordedState::Failed(why);
                }
            }
        }
    }

    /// What became of it, for the end of the recording.
    pub fn words(&self) -> String {
        match &self.state {
            RecordedState::Recorded => "with a profile".to_owned(),
            RecordedState::Failed(why) => format!("no profile: {why}"),
            RecordedState::Due | RecordedState::OnItsWay => "no profile: the recording ended before".to_owned(),
        }
    }
}

/// Whether the first verdict is there that does not say that the job starts up, or it has been waited for long enough.
fn is_due(tick: &Tick) -> bool {
    let verdict = &tick.verdict;
    let has_begun = verdict.class != Class::Unknown && verdict.phase != Phase::Init;
    has_begun || verdict.observed_s >= BEGUN_WITHIN_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::Verdict;

    #[test]
    fn a_profile_is_due_with_the_first_verdict_after_start_up_or_after_ten_seconds() {
        let due = |class, phase, observed_s| {
            let verdict = Verdict { class, phase, observed_s, ..Verdict::default() };
            is_due(&Tick { verdict: Arc::new(verdict), ..Tick::default() })
        };
        assert!(!due(Class::Unknown, Phase::Unknown, 9.9), "no verdict yet");
        assert!(!due(Class::Idle, Phase::Init, 9.9), "it starts up");
        assert!(due(Class::DataLoader, Phase::Training, 3.0));
        assert!(due(Class::Unknown, Phase::Unknown, 10.0) && due(Class::Idle, Phase::Init, 10.0));
    }
}
