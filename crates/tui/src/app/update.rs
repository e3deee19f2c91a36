//! How the screen responds to everything except keys and the mouse: samples, verdicts, sizes, the clock of a replay.

use super::App;
use crate::arrangement::Scale;
use crate::job::Job;
use crate::message::{Effect, Message};
use crate::pages::Reply;
use trainmon_attach::jobs::restart::is_same_program;
use trainmon_attach::jobs::{JobEvent, JobKey};
use trainmon_views::earlier_run::Before;

/// Most jobs whose past is kept; of more, the oldest that has ended goes.
const JOBS_KEPT: usize = 8;

impl App {
    pub(super) fn take(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Key(key) => self.key(key),
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Paste(text) => self.paste(&text),
            Message::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.refresh();
                vec![Effect::Redraw]
            }
            Message::Job(key, event) => self.job_event(key, event),
            Message::Attached(key, target) => {
                let interval_s = self.job().interval_s;
                self.notice = None;
                let mut job = Job::new(key, target, interval_s, self.options.limits);
                job.set_low_bandwidth(self.options.low_bandwidth);
                job.set_scale(self.scale.seconds());
                // The same program again: a run after a change.
                let is_same = |earlier: &&Job| is_same_program(&earlier.target.command, &job.target.command);
                let same = self.jobs.iter().rev().find(is_same);
                job.before = same.and_then(Job::as_earlier).map(Before::new);
                if self.jobs.len() >= JOBS_KEPT
                    && let Some(oldest) = self.jobs.iter().position(|job| job.ended.is_some())
                {
                    self.jobs.remove(oldest);
                }
                self.jobs.push(job);
                self.switch(self.jobs.len() - 1);
                vec![Effect::Redraw]
            }
            Message::Candidates(list) => self.on_list(|shown, jobs, _| {
                shown.take(list, jobs);
                Reply::Changed
            }),
            Message::Advance(seconds) => {
                if self.job_mut().advance(seconds) {
                    self.refresh();
                    return vec![Effect::Redraw];
                }
                Vec::new()
            }
            Message::Output(tail) => {
                self.output = Some(tail);
                vec![Effect::Redraw]
            }
            Message::ProfileStage(key, stage) => self.profile_goes_on(key, stage),
            Message::Profile(key, taken) => self.profile_taken(key, taken),
            Message::Fleet(answer) => {
                let Some(fleet) = &mut self.fleet else { return Vec::new() };
                fleet.take(answer);
                vec![Effect::Redraw]
            }
            Message::Notice(text) => self.say(&text),
            Message::Quit => vec![Effect::Quit],
        }
    }

    /// One line for the footer, until the next key.
    pub(super) fn say(&mut self, text: &str) -> Vec<Effect> {
        self.notice = Some(text.to_owned());
        vec![Effect::Redraw]
    }

    fn job_event(&mut self, key: JobKey, event: JobEvent) -> Vec<Effect> {
        let shown = self.job().key == key;
        let Some(job) = self.jobs.iter_mut().find(|job| job.key == key) else { return Vec::new() };
        let was_live = job.is_live();
        let had_ended = job.ended.is_some();
        let mut profiled = None;
        let changed = match event {
            JobEvent::Tick(tick) => {
                job.take(&tick);
                let changed = was_live || job.is_live();
                profiled = Some(tick).filter(|tick| tick.sample.account.is_some());
                changed
            }
            JobEvent::Loaded(note) => {
                job.loaded();
                self.notice = note.or(self.notice.take());
                true
            }
        };
        let ended = if !had_ended { job.ended.as_ref() } else { None };
        if let (Some(text), false) = (ended, shown) {
            self.notice = Some(format!("another job: {text}"));
        }
        // The list of jobs shows the other jobs' verdicts; the footer says when they end.
        let redraw = ended.is_some() || changed && (shown || self.list.is_some());
        if redraw && shown {
            self.refresh();
        }
        let opened = profiled.is_some_and(|tick| self.open_profile(key, &tick));
        if redraw || opened { vec![Effect::Redraw] } else { Vec::new() }
    }

    /// Updates the page and the list of jobs to the moment shown.
    pub(super) fn refresh(&mut self) {
        let (page, scene) = self.on_page();
        page.refresh(&scene);
        if let Some(list) = &mut self.list {
            list.refresh(&self.jobs);
        }
    }

    /// Switches between low bandwidth and showing every sample.
    pub(super) fn set_low_bandwidth(&mut self, on: bool) {
        self.options.low_bandwidth = on;
        for job in &mut self.jobs {
            job.set_low_bandwidth(on);
        }
        self.refresh();
    }

    /// Switches the theme.
    pub(super) fn set_theme(&mut self, place: usize) {
        if let Some((_, palette)) = self.options.themes.get(place) {
            self.theme_index = place;
            self.options.theme.palette = *palette;
        }
    }

    pub(super) fn zoom(&mut self, scale: Scale) {
        self.scale = scale;
        for job in &mut self.jobs {
            job.set_scale(scale.seconds());
        }
    }

    /// Moves in time and updates the page.
    pub(super) fn travel(&mut self, go: impl FnOnce(&mut Job)) {
        go(self.job_mut());
        self.refresh();
    }

    /// Goes to the next or previous change of the verdict.
    pub(super) fn travel_to_change(&mut self, forward: bool) {
        let mut found = false;
        self.travel(|job| found = job.next_change(forward));
        if !found {
            self.say(if forward { "no later change of the verdict" } else { "no earlier change of the verdict" });
        }
    }
}
