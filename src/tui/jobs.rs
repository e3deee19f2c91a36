//! The list of jobs: those attached to, then the processes that may be training. The same list is the first screen where
//! no PID was given, and lies over a page later.
//!
//! Rows are selected by what they are, not by where they stand: a list that is refreshed under somebody's fingers must
//! not make them attach to its neighbour.

mod preview;
pub(in crate::tui) mod view;

use crossterm::event::{KeyCode, KeyEvent};

use super::format;
use super::job::Job;
use super::labels::counted;
use super::message::Effect;
use super::widgets::menu::moved;
use super::widgets::prompt::is_in;
use super::widgets::{Confirm, Extent, MenuOutcome, Prompt, Purpose, Typed};
use crate::jobs::{JobCandidate, JobKey};

/// A line of the list: a row, or the heading before the candidates.
pub type Line = Option<JobRow>;

/// Most digits of a PID that is typed.
const DIGITS: usize = 10;

/// What speaks for a candidate that it trains: device memory, data workers, a library.
#[must_use]
pub fn facts(candidate: &JobCandidate) -> Vec<String> {
    let memory = candidate.gpu_memory_bytes.map(|told| Some(told).filter(|bytes| *bytes > 0));
    let memory = memory.map(|bytes| format!("GPU {}", format::bytes(bytes)));
    let workers = Some(candidate.workers as usize).filter(|count| *count > 0);
    let workers = workers.map(|count| counted(count, "worker", "workers"));
    [memory, workers, candidate.library_name()].into_iter().flatten().collect()
}

/// One row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRow {
    /// A job that is attached to.
    Attached(JobKey),
    /// A candidate, by its PID.
    Candidate(u32),
}

/// What a person wants of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing that shows.
    Nothing,
    /// It looks different.
    Changed,
    /// Close it.
    Close,
    /// Show this job.
    Show(JobKey),
    /// Attach to this process.
    Attach(u32),
    /// Stop watching this job, which has been confirmed.
    Detach(JobKey),
}

/// The open list.
#[derive(Debug, Clone, Default)]
pub struct JobList {
    /// Candidates, best first; none before the first scan.
    pub(in crate::tui) candidates: Option<Vec<JobCandidate>>,
    /// What is being typed: a filter or a PID.
    pub(in crate::tui) prompt: Option<Prompt>,
    /// What is being asked.
    pub(in crate::tui) confirm: Option<Confirm>,
    /// One line that answers the last key.
    pub(in crate::tui) note: Option<String>,
    /// Only rows that hold this are shown, whatever its case.
    pub(in crate::tui) filter: String,
    /// First line shown.
    pub(in crate::tui) top: usize,
    /// The rows, with a heading before the candidates: found anew when something has changed, not at each drawing.
    lines: Vec<Line>,
    selected: Option<JobRow>,
    /// Where the selected row stood last: its neighbour takes its place when it goes.
    place: usize,
    /// Digits typed so far of a PID to jump to.
    digits: String,
}

impl JobList {
    /// A list on which this job is selected.
    #[must_use]
    pub fn at(key: JobKey) -> Self {
        Self { selected: Some(JobRow::Attached(key)), ..Self::default() }
    }

    /// Jobs in the order in which they were attached to, the heading, then candidates that are not among them.
    fn find(&self, jobs: &[Job]) -> Vec<Line> {
        let fits = |pid, command: &str| is_in(&self.filter, [command], pid);
        let attached = jobs.iter().filter(|job| fits(job.target.pid, &job.target.command));
        let attached = attached.map(|job| Some(JobRow::Attached(job.key)));
        let others = self.others(jobs).filter(|c| fits(c.pid, &c.command));
        attached.chain([None]).chain(others.map(|c| Some(JobRow::Candidate(c.pid)))).collect()
    }

    /// The candidates that are not attached to, whatever the filter.
    pub(in crate::tui) fn others<'l>(&'l self, jobs: &'l [Job]) -> impl Iterator<Item = &'l JobCandidate> {
        let watched =
            |pid: u32| jobs.iter().any(|job| job.target.pid == pid && job.ended.is_none() && job.replay.is_none());
        self.candidates.iter().flatten().filter(move |candidate| !watched(candidate.pid))
    }

    fn rows(&self) -> impl Iterator<Item = JobRow> {
        self.lines.iter().copied().flatten()
    }

    /// A candidate by its PID.
    #[must_use]
    pub fn candidate(&self, pid: u32) -> Option<&JobCandidate> {
        self.candidates.iter().flatten().find(|c| c.pid == pid)
    }

    /// Takes in a new list of candidates.
    pub fn take(&mut self, candidates: Vec<JobCandidate>, jobs: &[Job]) {
        self.candidates = Some(candidates);
        self.refresh(jobs);
    }

    /// The jobs, the filter or the size have changed.
    pub fn refresh(&mut self, jobs: &[Job]) {
        self.lines = self.find(jobs);
        let found = self.selected.and_then(|row| self.rows().position(|other| other == row));
        self.select(found.unwrap_or(self.place));
    }

    /// What a key does, with so many rows visible.
    pub fn key(&mut self, key: KeyEvent, jobs: &[Job], visible: usize) -> Wish {
        self.note = None;
        if let Some(confirm) = &self.confirm {
            let outcome = confirm.key(key);
            if outcome == MenuOutcome::Nothing {
                return Wish::Nothing;
            }
            self.confirm = None;
            return if let MenuOutcome::Chosen(Effect::Detach(job)) = outcome {
                Wish::Detach(job)
            } else {
                Wish::Changed
            };
        }
        if let Some(prompt) = &mut self.prompt {
            let outcome = prompt.key(key);
            return self.typed(outcome, jobs);
        }
        let digits = std::mem::take(&mut self.digits);
        if let Some(place) = moved(self.place, self.rows().count(), visible, key) {
            self.select(place);
            return Wish::Changed;
        }
        match key.code {
            KeyCode::Esc | KeyCode::F(10) | KeyCode::Char('q' | 'o') => Wish::Close,
            KeyCode::Enter => self.open(),
            KeyCode::Char('x') | KeyCode::Delete => self.ask(jobs),
            KeyCode::Char('p') => {
                self.prompt = Some(Prompt::new(Purpose::Pid, ""));
                Wish::Changed
            }
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => {
                self.prompt = Some(Prompt::new(Purpose::Filter, &self.filter));
                Wish::Changed
            }
            KeyCode::Char(digit @ '0'..='9') if digits.len() < DIGITS => {
                self.digits = digits;
                self.digits.push(digit);
                self.jump(jobs)
            }
            _ => Wish::Nothing,
        }
    }

    /// Pasted text, for a prompt.
    pub fn paste(&mut self, text: &str, jobs: &[Job]) -> Wish {
        let Some(prompt) = &mut self.prompt else { return Wish::Nothing };
        prompt.paste(text);
        self.typed(Typed::Changed, jobs)
    }

    /// A click on a line: the first selects a row, one on the selected row opens it.
    pub fn click(&mut self, line: usize) -> Wish {
        let clicked = self.lines.get(line).copied().flatten().filter(|_| self.confirm.is_none());
        let Some(clicked) = clicked else { return Wish::Nothing };
        if self.selected == Some(clicked) {
            return self.open();
        }
        let place = self.rows().position(|row| row == clicked);
        self.select(place.unwrap_or(self.place));
        Wish::Changed
    }

    /// What a prompt's key means for the list.
    fn typed(&mut self, typed: Typed, jobs: &[Job]) -> Wish {
        let Some(prompt) = self.prompt.as_ref().filter(|_| matches!(typed, Typed::Changed | Typed::Done)) else {
            return Wish::Nothing;
        };
        let done = typed == Typed::Done;
        let (purpose, text) = (prompt.purpose, prompt.text.trim().to_owned());
        if done {
            self.prompt = None;
        }
        if purpose == Purpose::Pid {
            return match text.parse::<u32>() {
                Ok(pid) if done && pid > 0 => Wish::Attach(pid),
                _ => {
                    if done && !text.is_empty() {
                        self.note = Some(format!("no PID: {}", crate::text::fit(&text, 40)));
                    }
                    Wish::Changed
                }
            };
        }
        self.filter = text;
        self.refresh(jobs);
        Wish::Changed
    }

    fn open(&self) -> Wish {
        match self.selected {
            Some(JobRow::Attached(key)) => Wish::Show(key),
            Some(JobRow::Candidate(pid)) => Wish::Attach(pid),
            None => Wish::Nothing,
        }
    }

    /// Asks whether the selected job is to be let go.
    fn ask(&mut self, jobs: &[Job]) -> Wish {
        let Some(JobRow::Attached(key)) = self.selected else { return Wish::Nothing };
        let Some(job) = jobs.iter().find(|job| job.key == key) else { return Wish::Nothing };
        if jobs.len() < 2 {
            self.note = Some("the only job stays: q on its pages quits".to_owned());
            return Wish::Changed;
        }
        let question = format!(
            "Stop watching process {} and forget what was seen of it? The process itself runs on.",
            job.target.pid
        );
        self.confirm = Some(Confirm { question, effect: Effect::Detach(key) });
        Wish::Changed
    }

    /// Goes to the first row whose PID begins with the digits typed.
    fn jump(&mut self, jobs: &[Job]) -> Wish {
        let pid_of = |row: &JobRow| match row {
            JobRow::Attached(key) => jobs.iter().find(|job| job.key == *key).map(|job| job.target.pid),
            JobRow::Candidate(pid) => Some(*pid),
        };
        let begins = |row: &JobRow| pid_of(row).is_some_and(|pid| pid.to_string().starts_with(&self.digits));
        let place = self.rows().position(|row| begins(&row));
        match place {
            Some(place) => self.select(place),
            None => self.note = Some(format!("no PID here begins with {}: p attaches to any", self.digits)),
        }
        Wish::Changed
    }

    /// Selects the row at this place, or the last one.
    fn select(&mut self, place: usize) {
        self.place = place.min(self.rows().count().saturating_sub(1));
        let selected = self.rows().nth(self.place);
        self.selected = selected;
    }

    /// The visible part of so many lines, with the selected row in it, and the heading above the first candidate with that.
    pub(in crate::tui) fn extent(&self, visible: usize) -> Extent {
        let line = self.lines.iter().position(|line| line.is_some() && *line == self.selected).unwrap_or(0);
        let first = if line > 0 && self.lines.get(line - 1).is_some_and(Option::is_none) { line - 1 } else { line };
        let total = self.lines.len();
        let top = self.top.min(first).max((line + 1).saturating_sub(visible)).min(total.saturating_sub(visible));
        Extent { top, visible, total }
    }
}
