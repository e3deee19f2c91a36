//! The next run of a program that has ended: what a person starts after a change.

use std::time::Instant;

use super::{JobCandidate, JobKey, Target};

/// Most processes remembered as tried.
const MOST_TRIED: usize = 64;

/// Waits for the next run of a job.
#[derive(Debug, Default)]
pub struct Restart {
    /// The job that has ended, and when that was noticed.
    ended: Option<(JobKey, Instant)>,
    /// Processes that were attached to, or could not be.
    tried: Vec<u32>,
}

impl Restart {
    /// Says which job has ended without another one going on.
    pub fn wait_for(&mut self, ended: Option<JobKey>) {
        if self.ended.map(|(key, _)| key) != ended {
            self.ended = ended.map(|key| (key, Instant::now()));
        }
    }

    /// The PID of the next run, once: a candidate that was started by the same user with the same program since the job has ended.
    pub fn find(&mut self, list: &[JobCandidate], ended: &Target, uid: Option<u32>) -> Option<u32> {
        let ((_, since), uid) = (self.ended?, uid?);
        // Ages are whole seconds, and the end is noticed up to a sample later.
        let within_s = since.elapsed().as_secs() + 2;
        let next = list.iter().find(|candidate| {
            candidate.age_s.is_some_and(|age_s| age_s <= within_s)
                && candidate.uid == Some(uid)
                && candidate.pid != ended.pid
                && !self.tried.contains(&candidate.pid)
                && is_same_program(&candidate.command, &ended.command)
        })?;
        if self.tried.len() >= MOST_TRIED {
            self.tried.remove(0);
        }
        self.tried.push(next.pid);
        Some(next.pid)
    }
}

/// Whether two command lines run the same script or module, with whatever arguments; other programs need the same arguments too.
pub fn is_same_program(one: &str, other: &str) -> bool {
    match (script(one), script(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// The Python file or module that a command line runs.
fn script(command: &str) -> Option<&str> {
    let mut words = command.split(' ');
    while let Some(word) = words.next() {
        if word.ends_with(".py") {
            return Some(word);
        }
        if word == "-m" {
            return words.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_script_is_the_same_program_whatever_its_arguments() {
        let command = "/usr/bin/python3 -u train.py --workers 2";
        assert!(is_same_program(command, "python train.py --workers 6 --pin"));
        assert!(!is_same_program(command, "python other.py --workers 2"));
        assert!(is_same_program("torchrun -m pkg.train --a", "python -m pkg.train"));
        assert!(!is_same_program("python -m pkg.train", "python -m pkg.eval"));
        assert!(!is_same_program("python -c a", "python -c b"), "what has no name must be the same to the letter");
    }

    #[test]
    fn the_next_run_is_found_once_and_older_processes_are_others() {
        let ended = Target { pid: 10, command: "python train.py".to_owned() };
        let candidate = |pid, age_s, uid, command: &str| JobCandidate {
            pid,
            age_s: Some(age_s),
            uid: Some(uid),
            command: command.to_owned(),
            ..JobCandidate::default()
        };
        let list = [
            candidate(11, 500, 1000, "python train.py"),
            candidate(12, 1, 1001, "python train.py"),
            candidate(13, 1, 1000, "python eval.py"),
            candidate(14, 1, 1000, "python train.py --workers 2"),
        ];
        let mut restart = Restart::default();
        assert_eq!(restart.find(&list, &ended, Some(1000)), None, "nothing has ended");
        restart.wait_for(Some(JobKey(0)));
        assert_eq!(restart.find(&list, &ended, Some(1000)), Some(14));
        assert_eq!(restart.find(&list, &ended, Some(1000)), None, "once");
    }
}
