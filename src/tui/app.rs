//! What the screen knows, and how every event changes it. Pure: no I/O, no clock, no terminal.
//!
//! The loop that owns the terminal turns events into [`Message`]s, hands them to [`App::update`], does the [`Effect`]s
//! that come back, and draws with [`super::views::draw`] when any came.
//!
//! ```text
//! ┌ title: program, target, phase, steps; PAUSED or REPLAY with the moment shown ┐
//! │ banner: class, cause, how sure, since when                                   │
//! │         one sentence of why; what to do first                                │
//! │ the page: on the overview                                                    │
//! │   verdicts │ letters, one per stretch of time                                │
//! │   main     │ stacked: wait, sync, host, saving, other                        │
//! │   GPU      │ timeline                                 │ all on one time axis, │
//! │   loader   │ timeline                                 │ with one cursor       │
//! │   CPU, IO  │ timelines                                                       │
//! │            │ ruler                                                           │
//! │   workers: one bar each                                                      │
//! └ pages and keys ──────────────────────────────────────────────────────────────┘
//! ```

mod mouse;
mod saving;
mod several;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::layout::Rect;

use super::arrangement::{Layout, Scale, ThemeName};
use super::job::Job;
use super::jobs::{JobList, Wish};
use super::keys::{Action, Keymap};
use super::layout::{self, Wants};
use super::message::{Effect, Message};
use super::page::Page;
use super::pages::{Pages, Reply, Seen, lines};
use super::popup::{Choice, Outcome, Popup, Prompt};
use super::setup::Setup;
use super::theme::{Depth, Palette, Theme};
use super::views;
use crate::diagnosis::verdict::Verdict;
use crate::history::archive::Limits;
use crate::history::timeline::Window;
use crate::jobs::{JobEvent, JobKey, Needs};
use crate::rates::Frame;
use crate::rates::frame::ProcessRates;
use crate::sample::Sources;

/// What the screen is set to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Colours and glyphs.
    pub theme: Theme,
    /// Which key does what.
    pub keymap: Keymap,
    /// How much of the past is kept.
    pub limits: Limits,
    /// Signals and nice values may be sent.
    pub may_signal: bool,
    /// The mouse is reported.
    pub mouse: bool,
    /// Few bytes: for thin lines.
    pub low_bandwidth: bool,
    /// Colours that the terminal has, wanted or not.
    pub depth: Depth,
    /// The themes to choose from, and their names; none means the built-in ones.
    pub themes: Vec<(String, Palette)>,
    /// How the screen was arranged the last time, or is to be by the configuration.
    pub layout: Layout,
    /// The zone of the clock times shown.
    pub zone: TimeZone,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            keymap: Keymap::default(),
            limits: Limits::default(),
            may_signal: false,
            mouse: false,
            low_bandwidth: false,
            depth: Depth::Indexed256,
            themes: Vec::new(),
            layout: Layout::default(),
            zone: TimeZone::UTC,
        }
    }
}

/// Everything the screen knows.
#[derive(Debug, Clone)]
pub struct App {
    pub(in crate::tui) options: Options,
    pub(in crate::tui) page: Page,
    pub(in crate::tui) pages: Pages,
    pub(in crate::tui) popup: Option<Popup>,
    pub(in crate::tui) notice: Option<String>,
    jobs: Vec<Job>,
    current: usize,
    /// First line shown of each page that scrolls.
    scroll: [usize; Page::ALL.len()],
    pub(in crate::tui) scale: Scale,
    /// Place of the theme in [`Options::themes`].
    pub(in crate::tui) look: usize,
    size: (u16, u16),
}

impl App {
    /// A screen of `size` (columns, rows) for one job.
    #[must_use]
    pub fn new(job: Job, mut options: Options, size: (u16, u16)) -> Self {
        if options.themes.is_empty() {
            options.themes = Palette::choices(options.theme.palette);
        }
        let layout = std::mem::take(&mut options.layout);
        let mut pages = Pages::default();
        pages.processes.arrange(&layout);
        let mut app = Self {
            options,
            page: layout.page.unwrap_or_default(),
            pages,
            popup: None,
            notice: None,
            jobs: vec![job],
            current: 0,
            scroll: [0; Page::ALL.len()],
            scale: layout.time_scale.unwrap_or_default(),
            look: 0,
            size,
        };
        app.set_low_bandwidth(app.options.low_bandwidth);
        // A theme that was kept and is not there any more is no theme.
        let look =
            app.options.themes.iter().position(|(name, _)| layout.theme.as_ref().is_some_and(|t| t.as_str() == name));
        if let Some(look) = look {
            app.wear(look);
        }
        app
    }

    /// Sends few bytes, or shows every sample.
    pub(in crate::tui) fn set_low_bandwidth(&mut self, on: bool) {
        self.options.low_bandwidth = on;
        for job in &mut self.jobs {
            job.set_low_bandwidth(on);
        }
        self.refresh();
    }

    /// Draws with another theme.
    pub(in crate::tui) fn wear(&mut self, look: usize) {
        if let Some((_, palette)) = self.options.themes.get(look) {
            self.look = look;
            self.options.theme.palette = *palette;
        }
    }

    /// How the screen is arranged now, as far as that is to be kept. The page is not: whoever comes back begins with the
    /// verdict, not with the page of another night.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout {
            time_scale: Some(self.scale),
            theme: self.options.themes.get(self.look).map(|(name, _)| ThemeName::known(name)),
            low_bandwidth: Some(self.options.low_bandwidth),
            mouse: Some(self.options.mouse),
            ..self.pages.processes.arranged()
        }
    }

    /// The job that is shown.
    #[must_use]
    pub fn job(&self) -> &Job {
        // There is always one: the last cannot be closed.
        #[allow(clippy::indexing_slicing, reason = "current is kept below the length, which is at least 1")]
        &self.jobs[self.current]
    }

    fn job_mut(&mut self) -> &mut Job {
        #[allow(clippy::indexing_slicing, reason = "as above")]
        &mut self.jobs[self.current]
    }

    /// The page that is up.
    #[must_use]
    pub fn page(&self) -> Page {
        self.page
    }

    /// All jobs, in the order in which they were attached to.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// A job by its key.
    #[must_use]
    pub fn job_of(&self, key: JobKey) -> Option<&Job> {
        self.jobs.iter().find(|job| job.key == key)
    }

    /// The frame on the screen.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.job().frame()
    }

    /// The verdict on the screen.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.job().verdict()
    }

    /// How the sources of the job stand.
    pub(in crate::tui) fn sources(&self) -> &Sources {
        &self.job().sources
    }

    pub(in crate::tui) fn theme(&self) -> Theme {
        self.options.theme
    }

    /// Seconds that the charts show.
    #[must_use]
    pub fn span_s(&self) -> f64 {
        self.scale.seconds().unwrap_or_else(|| self.job().seen_span_s())
    }

    /// The next longer or shorter time scale than the charts have now.
    pub(in crate::tui) fn next_scale(&self, longer: bool) -> Option<Scale> {
        Scale::next(longer, self.span_s())
    }

    /// The time that charts of `cells` cells show.
    pub(in crate::tui) fn window(&self, cells: u16) -> Window {
        let window = Window::of_cells(self.job().edge_ns(), self.span_s(), cells);
        // A picture that stands needs no sweep, and reads easier without.
        if self.options.low_bandwidth && !self.job().is_paused() { window.sweeping() } else { window }
    }

    /// The cell of the moment looked at, in charts of so many cells; none where the newest is shown, which a sweep's gap
    /// marks by itself.
    pub(in crate::tui) fn cursor_cell(&self, cells: u16) -> Option<u16> {
        let ns = self.job().cursor()?.frame.monotonic_ns;
        let window = self.window(cells);
        window.cell_of(ns).filter(|_| !window.sweep)
    }

    /// First line shown of the page that is up.
    pub(in crate::tui) fn top(&self) -> usize {
        self.scroll.get(self.page.index()).copied().unwrap_or(0)
    }

    /// What the overview's layout has to make room for.
    pub(in crate::tui) fn wants(&self) -> Wants {
        self.frame().map_or_else(Wants::default, |f| Wants { workers: f.workers.len(), ranks: f.trainers.len() })
    }

    /// The pages, which one is up, and what they may look at.
    fn on_pages(&mut self) -> Option<(Page, &mut Pages, Seen<'_>)> {
        let body = self.body();
        let job = self.jobs.get(self.current)?;
        Some((self.page, &mut self.pages, Seen { job, body, may_signal: self.options.may_signal }))
    }

    /// What the pages may look at.
    pub(in crate::tui) fn seen(&self) -> Seen<'_> {
        Seen { job: self.job(), body: self.body(), may_signal: self.options.may_signal }
    }

    /// Whether the terminal is large enough for pages and popups. What cannot be seen is not to be confirmed.
    fn fits(&self) -> bool {
        self.size.0 >= layout::MIN_WIDTH && self.size.1 >= layout::MIN_HEIGHT
    }

    fn area(&self) -> Rect {
        Rect::new(0, 0, self.size.0, self.size.1)
    }

    fn body(&self) -> Rect {
        layout::body(self.area())
    }

    /// The selected process.
    pub(in crate::tui) fn selected(&self) -> Option<&ProcessRates> {
        self.pages.processes.selected(&self.seen())
    }

    /// What the screen needs beyond the ordinary samples.
    #[must_use]
    pub fn needs(&self) -> Needs {
        Needs {
            stacks: self.page == Page::Stacks,
            neighbours: self.page == Page::Cpu,
            candidates: matches!(self.popup, Some(Popup::Jobs(_))),
        }
    }

    /// Seconds until a replay wants [`Message::Advance`]; none while none plays.
    #[must_use]
    pub fn due_s(&self) -> Option<f64> {
        self.job().due_s()
    }

    /// Takes in what happened and says what is to be done about it.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let mut effects = self.take(message);
        if self.announce() {
            effects.push(Effect::Redraw);
        }
        effects
    }

    fn take(&mut self, message: Message) -> Vec<Effect> {
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
                self.jobs.push(job);
                self.switch(self.jobs.len() - 1);
                vec![Effect::Redraw]
            }
            Message::Candidates(list) => self.on_list(|shown, jobs, area| {
                shown.take(list, jobs, area);
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

    fn job_event(&mut self, key: JobKey, event: JobEvent) -> Vec<Effect> {
        let shown = self.job().key == key;
        let Some(job) = self.jobs.iter_mut().find(|job| job.key == key) else { return Vec::new() };
        let was_live = job.is_live();
        let had_ended = job.ended.is_some();
        let changed = match event {
            JobEvent::Tick(tick) => {
                job.take(&tick);
                was_live || job.is_live()
            }
            JobEvent::Loaded(note) => {
                job.loaded();
                self.notice = note.or(self.notice.take());
                true
            }
        };
        let ended = job.ended.as_ref().filter(|_| !had_ended);
        if let (Some(text), false) = (ended, shown) {
            self.notice = Some(format!("another job: {text}"));
        }
        // The list of jobs shows the others' verdicts, the footer their end.
        let redraw = ended.is_some() || changed && (shown || matches!(self.popup, Some(Popup::Jobs(_))));
        if redraw && shown {
            self.refresh();
        }
        if redraw { vec![Effect::Redraw] } else { Vec::new() }
    }

    /// The pages follow the frame on the screen and the size of the terminal.
    pub(in crate::tui) fn refresh(&mut self) {
        if let Some((page, pages, seen)) = self.on_pages() {
            pages.refresh(page, &seen);
        }
        let area = self.area();
        if let (Some(Popup::Jobs(list)), jobs) = (&mut self.popup, &self.jobs) {
            list.refresh(jobs, area);
        }
        self.keep_in_view();
    }

    fn keep_in_view(&mut self) {
        // How long a page is costs about as much as drawing it: asked only where it matters.
        if self.top() == 0 {
            return;
        }
        let rows = views::content_rows(self);
        let visible = usize::from(self.body().height);
        if let Some(top) = self.scroll.get_mut(self.page.index()) {
            *top = (*top).min(rows.saturating_sub(visible));
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let had_notice = self.notice.take().is_some();
        let always =
            key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'l' | 'z'));
        if !always
            && self.fits()
            && let Some(effects) = self.popup_key(key)
        {
            return effects;
        }
        match self.options.keymap.action(key) {
            Some(action) => self.act(action),
            None if had_notice => vec![Effect::Redraw],
            None => Vec::new(),
        }
    }

    /// What a key does to the popup; none where it is not the popup's.
    fn popup_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let outcome = match self.popup.as_mut()? {
            Popup::Detail => match key.code {
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => Outcome::Close,
                _ => return self.detail_key(key),
            },
            Popup::Menu(menu) => menu.key(key),
            Popup::Confirm(confirm) => confirm.key(key),
            Popup::Prompt(prompt) => prompt.key(key),
            Popup::Setup(_) => return Some(self.setup_key(key)),
            // What the summary does not need does what it always does: the list of other jobs is one key away.
            Popup::Summary => match key.code {
                KeyCode::Esc | KeyCode::Enter => Outcome::Close,
                _ => return None,
            },
            Popup::Jobs(_) => return Some(self.on_list(|list, jobs, area| list.key(key, jobs, area))),
        };
        Some(self.outcome(outcome))
    }

    /// What a key does to the process in full: it scrolls; other keys go to the page.
    fn detail_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let by = lines(self.options.keymap.action(key)?, self.body().height)?;
        Some(self.scroll_detail(by))
    }

    fn scroll_detail(&mut self, by: isize) -> Vec<Effect> {
        let last = views::detail_rows(self, self.area());
        let top = &mut self.pages.processes.detail_top;
        *top = top.saturating_add_signed(by).min(last);
        vec![Effect::Redraw]
    }

    fn outcome(&mut self, outcome: Outcome) -> Vec<Effect> {
        match outcome {
            Outcome::Nothing => return Vec::new(),
            Outcome::Changed => {}
            Outcome::Close => self.popup = None,
            Outcome::Confirmed(effect) => {
                self.popup = None;
                return vec![effect, Effect::Redraw];
            }
            Outcome::Chosen(choice) => {
                self.popup = None;
                return self.choose(choice);
            }
            Outcome::Next => return self.page_act(Action::SearchNext),
            Outcome::Typed { done } => {
                self.typed();
                if done {
                    self.popup = None;
                }
            }
        }
        vec![Effect::Redraw]
    }

    /// Tells the page what the prompt holds now.
    fn typed(&mut self) {
        let Some(Popup::Prompt(Prompt { purpose, text, .. })) = &self.popup else { return };
        let (purpose, text) = (*purpose, text.clone());
        if let Some((_, pages, seen)) = self.on_pages() {
            pages.typed(purpose, &text, &seen);
        }
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        if !self.fits() {
            return Vec::new();
        }
        if matches!(self.popup, Some(Popup::Jobs(_))) {
            return self.on_list(|list, jobs, area| list.paste(text, jobs, area));
        }
        let Some(Popup::Prompt(prompt)) = &mut self.popup else { return Vec::new() };
        prompt.paste(text);
        self.typed();
        vec![Effect::Redraw]
    }

    fn choose(&mut self, choice: Choice) -> Vec<Effect> {
        match choice {
            Choice::Export(export) => self.export(export),
            Choice::Act(action) => self.act(action),
            Choice::Ask(confirm) => {
                self.popup = Some(Popup::Confirm(confirm));
                vec![Effect::Redraw]
            }
        }
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        let span_s = self.span_s();
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Repaint],
            Action::Copy => return self.copy(),
            Action::Mouse => {
                let effects = self.take_mouse(!self.options.mouse);
                let text =
                    if self.options.mouse { "the mouse is ours" } else { "the mouse is the terminal's: select" };
                self.notice = Some(text.to_owned());
                return effects;
            }
            Action::Close if self.popup.is_some() => self.popup = None,
            Action::Close => self.go(Page::Overview),
            Action::Go(Page::Help) if self.page == Page::Help => self.go(Page::Overview),
            Action::Go(page) => self.go(page),
            Action::NextPage => self.go(self.page.after(1)),
            Action::PreviousPage => self.go(self.page.after(Page::ALL.len() - 1)),
            Action::ZoomIn => self.zoom(self.next_scale(false).unwrap_or(self.scale)),
            Action::ZoomOut => self.zoom(self.next_scale(true).unwrap_or(self.scale)),
            Action::Pause => self.travel(|job| job.pause()),
            Action::StepBack => self.travel(|job| job.step(-1, span_s)),
            Action::StepForward => self.travel(|job| job.step(1, span_s)),
            Action::FarBack => self.travel(|job| job.move_by(-span_s / 10.0, span_s)),
            Action::FarForward => self.travel(|job| job.move_by(span_s / 10.0, span_s)),
            Action::Oldest => self.travel(|job| job.first(span_s)),
            Action::Newest => self.travel(|job| job.last(span_s)),
            Action::Bottom if !self.job().is_live() && self.job().replay.is_none() => {
                self.travel(|job| job.last(span_s))
            }
            Action::PreviousChange => self.change(false),
            Action::NextChange => self.change(true),
            Action::Slower => self.travel(|job| job.change_speed(false)),
            Action::Faster => self.travel(|job| job.change_speed(true)),
            Action::Jobs => {
                self.popup = Some(Popup::Jobs(Box::new(JobList::at(self.job().key))));
                self.refresh();
            }
            Action::NextJob if self.jobs.len() < 2 => {
                self.notice = Some("no other job: o lists what to attach to".to_owned());
            }
            Action::NextJob => self.switch((self.current + 1) % self.jobs.len()),
            Action::Setup => self.popup = Some(Popup::Setup(Setup::default())),
            Action::Export => self.popup = Some(saving::export_menu()),
            other => return self.page_act(other),
        }
        vec![Effect::Redraw]
    }

    /// Gives an action to the page that is up.
    fn page_act(&mut self, action: Action) -> Vec<Effect> {
        let Some((page, pages, seen)) = self.on_pages() else { return Vec::new() };
        let reply = match page {
            Page::Processes => pages.processes.act(action, &seen),
            Page::Stacks => pages.stacks.act(action, &seen),
            _ => Reply::Ignored,
        };
        self.reply(reply, action)
    }

    fn reply(&mut self, reply: Reply, action: Action) -> Vec<Effect> {
        match reply {
            Reply::Changed => {}
            Reply::Open(popup) => self.popup = Some(popup),
            Reply::Notice(text) => self.notice = Some(text),
            Reply::Do(effect) => return vec![effect, Effect::Redraw],
            Reply::Ignored => {
                if let Some(by) = lines(action, self.body().height) {
                    self.scroll_by(by);
                }
            }
        }
        vec![Effect::Redraw]
    }

    fn scroll_by(&mut self, by: isize) {
        if let Some(top) = self.scroll.get_mut(self.page.index()) {
            *top = top.saturating_add_signed(by);
        }
        self.keep_in_view();
    }

    fn go(&mut self, page: Page) {
        self.page = page;
        self.popup = None;
        self.refresh();
    }

    pub(in crate::tui) fn zoom(&mut self, scale: Scale) {
        self.scale = scale;
        let span_s = self.span_s();
        self.job_mut().rescale(span_s);
    }

    /// Moves in time, and lets the pages follow.
    fn travel(&mut self, go: impl FnOnce(&mut Job)) {
        go(self.job_mut());
        self.refresh();
    }

    fn change(&mut self, forward: bool) {
        let span_s = self.span_s();
        let found = self.job_mut().next_change(forward, span_s);
        if !found {
            let text = if forward { "no later change of verdict" } else { "no earlier change of verdict" };
            self.notice = Some(text.to_owned());
        }
        self.refresh();
    }
}
