//! The list of jobs: attached jobs first, then the processes that may be training. It is the first screen if no PID was
//! given, and opens over a page later.
//!
//! A row is selected by what it is, not by its position: a refresh between two key presses must not make Enter attach
//! to the row below.

mod preview;
pub(crate) mod view;

use crossterm::event::{KeyCode, KeyEvent};

use super::format;
use super::job::Job;
use super::message::Effect;
use super::pages::Reply;
use super::widgets::menu::moved;
use super::widgets::prompt::is_in;
use super::widgets::{Confirm, Prompt, PromptKind};
use trainmon_attach::jobs::{JobCandidate, JobKey};

/// A line of the list: a row, or the heading before the candidates.
pub type JobLine = Option<JobRow>;

/// Maximum number of digits of a typed PID.
const DIGITS: usize = 10;

/// Signs that a candidate is training: GPU memory, data-loader workers, a library.
pub fn facts(candidate: &JobCandidate) -> Vec<String> {
    let memory = candidate.gpu_memory_bytes.map(|told| Some(told).filter(|bytes| *bytes > 0));
    let memory = memory.map(|bytes| format!("GPU {}", format::bytes(bytes)));
    let workers = Some(candidate.workers as usize).filter(|count| *count > 0);
    let workers = workers.map(|count| format::counted(count, "worker", "workers"));
    [memory, workers, candidate.library_name()].into_iter().flatten().collect()
}

/// One row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRow {
    /// An attached job.
    Attached(JobKey),
    /// A candidate, by its PID.
    Candidate(u32),
}

/// The open list.
#[derive(Debug, Clone, Default)]
pub struct JobList {
    /// Candidates, best first; `None` before the first scan.
    pub(crate) candidates: Option<Vec<JobCandidate>>,
    /// Only rows that contain this text are shown, ignoring case.
    pub(crate) filter: String,
    /// The rows, with a heading before the candidates: rebuilt when something has changed, not for each frame.
    lines: Vec<JobLine>,
    selected: Option<JobRow>,
    /// Last position of the selected row: if the row disappears, the row now at that position is selected.
    place: usize,
    /// Digits typed so far of the PID to jump to.
    digits: String,
}

impl JobList {
    /// A list on which this job is selected.
    pub fn at(key: JobKey) -> Self {
        Self { selected: Some(JobRow::Attached(key)), ..Self::default() }
    }

    /// Jobs in the order in which they were attached, the heading, then candidates that are not attached.
    fn find(&self, jobs: &[Job]) -> Vec<JobLine> {
        let fits = |pid, command: &str| is_in(&self.filter, [command], pid);
        let attached = jobs.iter().filter(|job| fits(job.target.pid, &job.target.command));
        let attached = attached.map(|job| Some(JobRow::Attached(job.key)));
        let others = self.others(jobs).filter(|c| fits(c.pid, &c.command));
        attached.chain([None]).chain(others.map(|c| Some(JobRow::Candidate(c.pid)))).collect()
    }

    /// The candidates that are not attached, regardless of the filter.
    pub(crate) fn others<'l>(&'l self, jobs: &'l [Job]) -> impl Iterator<Item = &'l JobCandidate> {
        let watched =
            |pid: u32| jobs.iter().any(|job| job.target.pid == pid && job.ended.is_none() && job.replay.is_none());
        self.candidates.iter().flatten().filter(move |candidate| !watched(candidate.pid))
    }

    fn rows(&self) -> impl Iterator<Item = JobRow> {
        self.lines.iter().copied().flatten()
    }

    /// A candidate by its PID.
    pub fn candidate(&self, pid: u32) -> Option<&JobCandidate> {
        self.candidates.iter().flatten().find(|c| c.pid == pid)
    }

    /// Takes in a new list of candidates.
    pub fn take(&mut self, candidates: Vec<JobCandidate>, jobs: &[Job]) {
        self.candidates = Some(candidates);
        self.refresh(jobs);
    }

    /// Updates the rows: the jobs, the filter or the size have changed.
    pub fn refresh(&mut self, jobs: &[Job]) {
        self.lines = self.find(jobs);
        let found = self.selected.and_then(|row| self.rows().position(|other| other == row));
        self.select(found.unwrap_or(self.place));
    }

    /// What a key does, with so many rows visible.
    pub fn key(&mut self, key: KeyEvent, jobs: &[Job], visible: usize) -> Reply {
        let digits = std::mem::take(&mut self.digits);
        if let Some(place) = moved(self.place, self.rows().count(), visible, key) {
            self.select(place);
            return Reply::Changed;
        }
        match key.code {
            KeyCode::Esc | KeyCode::F(10) | KeyCode::Char('q' | 'o') => Reply::CloseList,
            KeyCode::Enter => self.open(),
            KeyCode::Char('x') | KeyCode::Delete => self.ask(jobs),
            KeyCode::Char('p') => Reply::Prompt(Prompt::new(PromptKind::Pid, "")),
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => {
                Reply::Prompt(Prompt::new(PromptKind::Filter, &self.filter))
            }
            KeyCode::Char(digit @ '0'..='9') if digits.len() < DIGITS => {
                self.digits = digits;
                self.digits.push(digit);
                self.jump(jobs)
            }
            _ => Reply::Nothing,
        }
    }

    /// A click on a line: the first one selects a row, one on the selected row opens it.
    pub fn click(&mut self, line: usize) -> Reply {
        let Some(clicked) = self.lines.get(line).copied().flatten() else { return Reply::Nothing };
        if self.selected == Some(clicked) {
            return self.open();
        }
        let place = self.rows().position(|row| row == clicked);
        self.select(place.unwrap_or(self.place));
        Reply::Changed
    }

    /// Takes in the text of a prompt that the list opened, finished or not.
    pub fn typed(&mut self, purpose: PromptKind, text: &str, done: bool, jobs: &[Job]) -> Reply {
        if purpose == PromptKind::Pid {
            return match text.parse() {
                Ok(pid) if done && pid > 0 => Reply::Attach(pid),
                _ if done && !text.is_empty() => {
                    Reply::Notice(format!("not a PID: {}", trainmon_base::text::fit(text, 40)))
                }
                _ => Reply::Changed,
            };
        }
        text.clone_into(&mut self.filter);
        self.refresh(jobs);
        Reply::Changed
    }

    fn open(&self) -> Reply {
        match self.selected {
            Some(JobRow::Attached(key)) => Reply::ShowJob(key),
            Some(JobRow::Candidate(pid)) => Reply::Attach(pid),
            None => Reply::Nothing,
        }
    }

    /// Asks whether to detach from the selected job.
    fn ask(&self, jobs: &[Job]) -> Reply {
        let Some(JobRow::Attached(key)) = self.selected else { return Reply::Nothing };
        let Some(job) = jobs.iter().find(|job| job.key == key) else { return Reply::Nothing };
        if jobs.len() < 2 {
            return Reply::Notice("this is the only job: close the list and press q to quit".to_owned());
        }
        let question =
            format!("Stop watching process {} and drop its history? The process keeps running.", job.target.pid);
        Reply::Confirm(Confirm { question, effect: Effect::Detach(key) })
    }

    /// Goes to the first row whose PID begins with the typed digits.
    fn jump(&mut self, jobs: &[Job]) -> Reply {
        let begins = |row: &JobRow| {
            let pid = match row {
                JobRow::Attached(key) => jobs.iter().find(|job| job.key == *key).map(|job| job.target.pid),
                JobRow::Candidate(pid) => Some(*pid),
            };
            pid.is_some_and(|pid| pid.to_string().starts_with(&self.digits))
        };
        let Some(place) = self.rows().position(|row| begins(&row)) else {
            return Reply::Notice(format!(
                "no PID in the list starts with {}: press p to attach to any PID",
                self.digits
            ));
        };
        self.select(place);
        Reply::Changed
    }

    /// Selects the row at this position, or the last one.
    fn select(&mut self, place: usize) {
        self.place = place.min(self.rows().count().saturating_sub(1));
        let selected = self.rows().nth(self.place);
        self.selected = selected;
    }

    /// The line of the selected row.
    fn selected_line(&self) -> Option<usize> {
        self.lines.iter().position(|line| line.is_some() && *line == self.selected)
    }
}
