//! What happens to the screen besides keys and the mouse: samples, verdicts, sizes, the clock of a replay.

use super::App;
use super::popup::Popup;
use crate::tui::arrangement::Scale;
use crate::tui::job::Job;
use crate::tui::jobs::Wish;
use crate::tui::message::{Effect, JobKey, Message, News};

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
            Message::Job(key, news) => self.news(key, news),
            Message::Attached(key, target) => {
                let interval_s = self.job().interval_s;
                self.notice = None;
                let mut job = Job::new(key, target, interval_s, self.options.limits);
                job.set_thin(self.options.low_bandwidth);
                self.jobs.push(job);
                self.switch(self.jobs.len() - 1);
                vec![Effect::Redraw]
            }
            Message::Candidates(list) => self.on_list(|shown, jobs, _| {
                shown.take(list, jobs);
                Wish::Changed
            }),
            Message::Advance(seconds) => {
                if self.job_mut().advance(seconds) {
                    self.refresh();
                    return vec![Effect::Redraw];
                }
                Vec::new()
            }
            Message::Notice(text) => {
                self.notice = Some(text);
                vec![Effect::Redraw]
            }
            Message::Quit => vec![Effect::Quit],
        }
    }

    fn news(&mut self, key: JobKey, news: News) -> Vec<Effect> {
        let shown = self.job().key == key;
        let Some(job) = self.jobs.iter_mut().find(|job| job.key == key) else { return Vec::new() };
        let stood = job.stands();
        let ended = matches!(news, News::Ended { .. });
        let redraw = match news {
            News::Frame(frame) => {
                job.take_frame(*frame);
                !(stood && job.stands())
            }
            News::Verdict(verdict) => {
                job.take_verdict(verdict);
                !job.stands() || job.cursor().map(|s| s.id) == job.archive().last().map(|s| s.id)
            }
            News::Sources(sources) => {
                let changed = [
                    (&job.sources.job, &sources.job),
                    (&job.sources.host, &sources.host),
                    (&job.sources.storage, &sources.storage),
                    (&job.sources.gpu, &sources.gpu),
                    (&job.sources.stacks, &sources.stacks),
                ]
                .into_iter()
                .any(|(a, b)| a.state != b.state || a.reason != b.reason);
                job.sources = *sources;
                changed && !job.stands()
            }
            News::Ended { text } => {
                if !shown {
                    self.notice = Some(format!("another job: {text}"));
                }
                job.ended = Some(text);
                true
            }
            News::Loaded(note) => {
                job.loaded();
                if note.is_some() {
                    self.notice = note;
                }
                true
            }
        };
        // The list of jobs shows the others' verdicts, the footer their end.
        let redraw = redraw && (shown || ended || matches!(self.popup, Some(Popup::Jobs(_))));
        if redraw && shown {
            self.refresh();
        }
        if redraw { vec![Effect::Redraw] } else { Vec::new() }
    }

    /// The page and the list of jobs follow what is shown.
    pub(super) fn refresh(&mut self) {
        let page = self.page;
        if let Some((pages, scene)) = self.on_pages() {
            pages.get_mut(page).refresh(&scene);
        }
        if let (Some(Popup::Jobs(list)), jobs) = (&mut self.popup, &self.jobs) {
            list.refresh(jobs);
        }
    }

    /// Sends few bytes, or shows every sample.
    pub(super) fn set_low_bandwidth(&mut self, on: bool) {
        self.options.low_bandwidth = on;
        for job in &mut self.jobs {
            job.set_thin(on);
        }
        self.refresh();
    }

    /// Draws with another theme.
    pub(super) fn set_theme(&mut self, place: usize) {
        if let Some((_, palette)) = self.options.themes.get(place) {
            self.theme_index = place;
            self.options.theme.palette = *palette;
        }
    }

    pub(super) fn zoom(&mut self, scale: Scale) {
        self.scale = scale;
        let span_s = self.span_s();
        self.job_mut().rescale(span_s);
    }

    /// Moves in time, and lets the page follow.
    pub(super) fn travel(&mut self, go: impl FnOnce(&mut Job, f64)) {
        let span_s = self.span_s();
        go(self.job_mut(), span_s);
        self.refresh();
    }

    /// Goes to the next change of verdict, or the one before.
    pub(super) fn travel_to_change(&mut self, forward: bool) {
        let mut found = false;
        self.travel(|job, span_s| found = job.next_change(forward, span_s));
        if !found {
            let text = if forward { "no later change of verdict" } else { "no earlier change of verdict" };
            self.notice = Some(text.to_owned());
        }
    }
}
