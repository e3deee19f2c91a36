//! What the screen knows, and how every event changes it. Pure: no I/O, no clock, no terminal.
//!
//! The loop that owns the terminal turns events into [`Message`]s, hands them to [`App::update`], does the [`Effect`]s
//! that come back, draws with [`view::draw`] when any came, and gives what was drawn where to [`App::set_drawn`].
//!
//! ```text
//! ┌ title: program, target, phase, steps; PAUSED or REPLAY with the moment shown ┐
//! │ banner: class, cause, confidence, since when                                 │
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

mod bars;
mod export;
mod jobs;
mod keys;
mod mouse;
mod options;
mod output;
mod popup;
mod profiling;
mod setup;
mod too_small;
mod update;
pub mod view;

use super::arrangement::{Layout, Scale, ThemeName};
use super::job::Job;
use super::jobs::JobList;
use super::message::{Effect, Message};
use super::pages::fleet::FleetPage;
use super::pages::processes::{ProcessColumn, Processes};
use super::pages::{Content, Page, Pages};
use super::theme::Palette;
use super::widgets::{Drawn, Scene};
pub use options::AppOptions;
use popup::Popup;
use profiling::Profiling;
pub use too_small::{MIN_HEIGHT, MIN_WIDTH};
use trainmon_attach::jobs::output::OutputTail;
use trainmon_attach::jobs::{JobKey, Needs};

/// Everything the screen knows.
#[derive(Debug, Clone)]
pub struct App {
    options: AppOptions,
    page: Page,
    pages: Pages,
    /// Runs over many machines, in place of jobs and their pages.
    fleet: Option<FleetPage>,
    popup: Option<Popup>,
    /// The open list of jobs: above the page and below the popup. It stays open while there is no job.
    list: Option<JobList>,
    /// One line for the footer, or for the list if it is open, until the next key.
    notice: Option<String>,
    /// The job that is asked for a profile, and how far that has come.
    profiling: Option<(JobKey, Profiling)>,
    /// None only on the first screen, before a process is chosen.
    jobs: Vec<Job>,
    /// What pages read while there is no job.
    no_job: Job,
    current: usize,
    /// First line shown of each page.
    scroll: [usize; Page::ALL.len()],
    scale: Scale,
    /// Index of the theme in [`AppOptions::themes`].
    theme_index: usize,
    size: (u16, u16),
    /// Latest output of the first job's program, if trainmon started it.
    output: Option<OutputTail>,
    /// What was drawn last, and from which line whatever covers the page is drawn next.
    drawn: Drawn,
}

impl App {
    /// A screen of `size` (columns, rows) for one job.
    pub fn new(job: Job, options: AppOptions, size: (u16, u16)) -> Self {
        Self::with_jobs(vec![job], options, size)
    }

    /// The first screen, if no PID was given: the list of processes that may be training. It ends with
    /// [`Effect::Attach`] for the chosen process, or [`Effect::Quit`] for no choice.
    pub fn picker(options: AppOptions, size: (u16, u16)) -> Self {
        let mut app = Self { list: Some(JobList::default()), ..Self::with_jobs(Vec::new(), options, size) };
        app.refresh();
        app
    }

    /// The screen of `trainmon fleet`, which waits for the first answer of Prometheus.
    pub fn fleet(options: AppOptions, size: (u16, u16)) -> Self {
        Self { fleet: Some(FleetPage::default()), ..Self::with_jobs(Vec::new(), options, size) }
    }

    fn with_jobs(jobs: Vec<Job>, mut options: AppOptions, size: (u16, u16)) -> Self {
        if options.themes.is_empty() {
            options.themes = Palette::choices(options.theme.palette);
        }
        let layout = std::mem::take(&mut options.layout);
        let mut app = Self {
            options,
            page: layout.page.unwrap_or_default(),
            pages: Pages::default(),
            fleet: None,
            popup: None,
            list: None,
            notice: None,
            profiling: None,
            jobs,
            no_job: Job::default(),
            current: 0,
            scroll: [0; Page::ALL.len()],
            scale: layout.time_scale.unwrap_or_default(),
            theme_index: 0,
            size,
            output: None,
            drawn: Drawn::default(),
        };
        arrange(&mut app.pages.processes, &layout);
        app.set_low_bandwidth(app.options.low_bandwidth);
        app.zoom(app.scale);
        // A saved theme that no longer exists counts as no theme.
        let wanted =
            |(name, _): &(String, Palette)| layout.theme.as_ref().is_some_and(|theme| theme.as_str() == name);
        if let Some(place) = app.options.themes.iter().position(wanted) {
            app.set_theme(place);
        }
        app
    }

    /// The parts of the screen's layout that are saved. The page is not: the next session starts at the verdict.
    pub fn layout(&self) -> Layout {
        let Processes { table, columns, .. } = &self.pages.processes;
        Layout {
            page: None,
            time_scale: Some(self.scale),
            theme: self.options.themes.get(self.theme_index).map(|(name, _)| ThemeName::known(name)),
            low_bandwidth: Some(self.options.low_bandwidth),
            mouse: Some(self.options.mouse),
            sort: Some(table.sort),
            tree: Some(table.tree),
            threads: Some(table.threads),
            columns: Some(columns.clone()),
        }
    }

    /// The job on the screen.
    pub fn job(&self) -> &Job {
        self.jobs.get(self.current).unwrap_or(&self.no_job)
    }

    fn job_mut(&mut self) -> &mut Job {
        self.jobs.get_mut(self.current).unwrap_or(&mut self.no_job)
    }

    /// The current page.
    pub fn page(&self) -> Page {
        self.page
    }

    /// All jobs, in the order in which they were attached.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Seconds that the charts show.
    pub fn span_s(&self) -> f64 {
        self.job().span_s()
    }

    /// Columns and rows of the terminal.
    pub fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Latest output of the program on the screen, if trainmon started it.
    fn output(&self) -> Option<&OutputTail> {
        if self.job().key == JobKey::default() { self.output.as_ref() } else { None }
    }

    /// The job on the screen, if it has ended and no other one goes on: its next run is of interest.
    pub fn ended(&self) -> Option<&Job> {
        let is_over = |job: &Job| job.ended.is_some() && job.replay.is_none();
        Some(self.job()).filter(|job| is_over(job) && self.list.is_none() && self.jobs.iter().all(is_over))
    }

    /// What the screen needs beyond the ordinary samples.
    pub fn needs(&self) -> Needs {
        Needs { candidates: self.list.is_some(), ..self.page.spec().needs }
    }

    /// Processes a message and returns what has to be done about it.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let mut effects = self.take(message);
        if self.announce() {
            effects.push(Effect::Redraw);
        }
        effects
    }

    /// Stores what was drawn where: what clicks hit, and how far the page can be scrolled.
    pub fn set_drawn(&mut self, drawn: Drawn) {
        if let Some(top) = self.scroll.get_mut(self.page.index()) {
            *top = drawn.page.top;
        }
        self.drawn = drawn;
    }

    /// What pages may read.
    fn scene(&self) -> Scene<'_> {
        scene(&self.options, self.job())
    }

    /// The current page, and what it may read.
    fn on_page(&mut self) -> (&mut dyn Content, Scene<'_>) {
        let job = self.jobs.get(self.current).unwrap_or(&self.no_job);
        let page: &mut dyn Content = match &mut self.fleet {
            Some(fleet) => fleet,
            None => self.pages.get_mut(self.page),
        };
        (page, scene(&self.options, job))
    }

    /// Whether the terminal is large enough for pages and popups. What is not visible cannot be confirmed.
    fn fits(&self) -> bool {
        self.jobs.is_empty() || self.size.0 >= MIN_WIDTH && self.size.1 >= MIN_HEIGHT
    }
}

fn scene<'a>(options: &'a AppOptions, job: &'a Job) -> Scene<'a> {
    Scene {
        job,
        theme: options.theme,
        // A paused screen needs no sweep, and is easier to read without one.
        sweep: options.low_bandwidth && !job.is_paused(),
        zone: &options.zone,
        price: options.price.as_ref(),
        may_signal: options.may_signal,
    }
}

/// Applies the options of the process table that are set.
fn arrange(processes: &mut Processes, layout: &Layout) {
    let table = &mut processes.table;
    table.sort = layout.sort.unwrap_or(table.sort);
    table.tree = layout.tree.unwrap_or(table.tree);
    table.threads = layout.threads.unwrap_or(table.threads);
    if let Some(columns) = &layout.columns {
        // The command line is always there, always last.
        processes.columns = columns.iter().copied().filter(|column| *column != ProcessColumn::Command).collect();
    }
}
