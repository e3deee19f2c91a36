//! Several jobs on one screen: the list over a page, switching, detaching, and the end of a job.

use super::App;
use super::popup::Popup;
use crate::job::Job;
use crate::jobs::JobList;
use crate::message::Effect;
use crate::pages::Reply;
use trainmon_attach::jobs::JobKey;

impl App {
    /// Shows another job.
    pub(super) fn switch(&mut self, to: usize) {
        self.current = to.min(self.jobs.len().saturating_sub(1));
        self.popup = None;
        self.list = None;
        self.refresh();
    }

    /// Passes an event to the list of jobs if it is open, with the number of its visible rows.
    pub(super) fn on_list(&mut self, happen: impl FnOnce(&mut JobList, &[Job], usize) -> Reply) -> Vec<Effect> {
        let Some(list) = &mut self.list else { return Vec::new() };
        let reply = happen(list, &self.jobs, self.drawn.popup.visible);
        self.reply(reply)
    }

    pub(super) fn show(&mut self, key: JobKey) {
        if let Some(place) = self.jobs.iter().position(|job| job.key == key) {
            self.switch(place);
        }
    }

    /// Asks to attach to one more process, or shows it if it is already attached.
    pub(super) fn attach(&mut self, pid: u32) -> Vec<Effect> {
        match self.jobs.iter().find(|job| job.target.pid == pid && job.ended.is_none()) {
            Some(job) if job.replay.is_none() => {
                let key = job.key;
                self.show(key);
                Vec::new()
            }
            _ => vec![Effect::Attach(pid)],
        }
    }

    /// Detaches from a job, unless it is the only one. If it was the one shown, the job next to it in the list is
    /// shown.
    pub(super) fn detach(&mut self, key: JobKey) -> Vec<Effect> {
        let Some(place) = self.jobs.iter().position(|job| job.key == key) else { return Vec::new() };
        if self.jobs.len() < 2 {
            return Vec::new();
        }
        self.jobs.remove(place);
        if place < self.current {
            self.current -= 1;
        }
        self.current = self.current.min(self.jobs.len() - 1);
        self.refresh();
        vec![Effect::Detach(key)]
    }

    /// Shows the summary of each job that has ended, once, as soon as nothing else covers the page.
    pub(super) fn announce(&mut self) -> bool {
        if self.popup.is_some() || self.list.is_some() || !self.fits() {
            return false;
        }
        let job = self.job_mut();
        if job.ended.is_none() || job.announced || job.summary().is_none() {
            return false;
        }
        job.announced = true;
        self.popup = Some(Popup::Summary);
        true
    }
}
