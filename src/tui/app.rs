//! What the screen knows, and how every event changes it. Pure: no I/O, no clock, no terminal.
//!
//! The loop that owns the terminal turns events into [`Message`]s, hands them to [`App::update`], does the [`Effect`]s
//! that come back, and draws with [`super::views::draw`] when one of them is [`Effect::Redraw`].
//!
//! ```text
//! ┌ title ─────────────────────────────────────────────┐
//! │ banner: class, cause, how sure, since when         │
//! │         one sentence of why; what to do first      │
//! │ verdicts │ letters, one per stretch of time        │
//! │ main     │ stacked: wait, sync, host, saving, other│
//! │ GPU      │ timeline                                │ all on one
//! │ loader   │ timeline                                │ time axis
//! │ CPU      │ timeline                                │
//! │ IO       │ timeline                                │
//! │          │ ruler                                   │
//! │ workers: one bar each, where there is room         │
//! │ processes                                          │
//! └ keys ──────────────────────────────────────────────┘
//! ```

use std::sync::Arc;

use crossterm::event::{Event, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::keys::{self, Action};
use super::layout::{self, Wants};
use super::processes::Table;
use super::theme::Theme;
use super::timeline::{Timeline, Window};
use super::views;
use super::words;
use crate::diagnosis::verdict::{Class, Verdict};
use crate::history::{History, Mark};
use crate::rates::Frame;
use crate::rates::frame::ProcessRates;
use crate::sample::Sources;

/// Lengths of time that the charts can show, seconds.
pub const SCALES: [f64; 5] = [30.0, 60.0, 120.0, 300.0, 600.0];

/// Rows that a turn of the mouse wheel moves.
const WHEEL: isize = 3;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// Text was pasted; nothing on the screen takes text yet, so it is dropped.
    Paste(String),
    /// The terminal has this many columns and rows now.
    Resize(u16, u16),
    /// A new interval.
    Frame(Box<Frame>),
    /// The verdict that stands at the newest frame. Comes after its frame.
    Verdict(Arc<Verdict>),
    /// How the sources stand.
    Sources(Box<Sources>),
    /// The target has ended; `text` says how. The screen stays.
    TargetEnded {
        /// One line: "exited after 12 m", "killed by signal 9".
        text: String,
    },
    /// One line for the footer, until the next key.
    Notice(String),
    /// End the program.
    Quit,
}

impl Message {
    /// The message of a terminal event, if it has one.
    #[must_use]
    pub fn of_event(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) => Some(Self::Key(key)),
            Event::Mouse(mouse) => Some(Self::Mouse(mouse)),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::Resize(columns, rows) => Some(Self::Resize(columns, rows)),
            Event::FocusGained | Event::FocusLost => None,
        }
    }
}

/// Something for the loop to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave the screen and end.
    Quit,
    /// Draw.
    Redraw,
    /// Forget what the terminal shows, then draw.
    Repaint,
    /// Leave the screen, stop the process, and come back when it is continued.
    Suspend,
    /// Put this text on the clipboard.
    Copy(String),
}

/// What the attached process is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// PID.
    pub pid: u32,
    /// Command line, raw.
    pub command: String,
}

/// A screenful.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Page {
    /// Verdict, timelines, processes.
    #[default]
    Overview,
    /// Everything the verdict rests on.
    Findings,
    /// The keys.
    Help,
}

impl Page {
    /// All pages, in the order of Tab.
    pub const ALL: [Self; 3] = [Self::Overview, Self::Findings, Self::Help];

    /// Its name in the title bar.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Findings => "Findings",
            Self::Help => "Help",
        }
    }

    fn after(self, steps: usize) -> Self {
        let here = Self::ALL.iter().position(|p| *p == self).unwrap_or(0);
        Self::ALL.get((here + steps) % Self::ALL.len()).copied().unwrap_or_default()
    }
}

/// What is shown while the screen stands still; the data behind it keeps coming.
#[derive(Debug, Clone)]
struct Frozen {
    frame: Option<Box<Frame>>,
    verdict: Option<Arc<Verdict>>,
    since_ns: Option<u64>,
    now_ns: u64,
}

/// Everything the screen knows.
#[derive(Debug, Clone)]
pub struct App {
    pub(in crate::tui) target: Target,
    pub(in crate::tui) theme: Theme,
    pub(in crate::tui) interval_s: f64,
    pub(in crate::tui) timeline: Timeline,
    pub(in crate::tui) sources: Sources,
    pub(in crate::tui) page: Page,
    pub(in crate::tui) detail: bool,
    pub(in crate::tui) table: Table,
    /// First line shown of a page of text.
    pub(in crate::tui) scroll: usize,
    pub(in crate::tui) ended: Option<String>,
    pub(in crate::tui) notice: Option<String>,
    history: History,
    verdict: Option<Arc<Verdict>>,
    since_ns: Option<u64>,
    frozen: Option<Frozen>,
    scale: usize,
    size: (u16, u16),
}

impl App {
    /// A screen of `size` (columns, rows) for a target of which nothing has been seen yet; `interval_s` is the time
    /// between samples.
    #[must_use]
    pub fn new(target: Target, interval_s: f64, theme: Theme, size: (u16, u16)) -> Self {
        Self {
            target,
            theme,
            interval_s,
            timeline: Timeline::default(),
            sources: Sources::default(),
            page: Page::default(),
            detail: false,
            table: Table::default(),
            scroll: 0,
            ended: None,
            notice: None,
            history: History::default(),
            verdict: None,
            since_ns: None,
            frozen: None,
            scale: 1,
            size,
        }
    }

    /// The frames and marks so far, for the diagnosis.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The frame on the screen.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.frozen.as_ref().map_or_else(|| self.history.latest(), |f| f.frame.as_deref())
    }

    /// The verdict on the screen.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.frozen.as_ref().map_or(self.verdict.as_deref(), |f| f.verdict.as_deref())
    }

    /// The newest verdict, pause or not.
    #[must_use]
    pub fn latest_verdict(&self) -> Option<&Arc<Verdict>> {
        self.verdict.as_ref()
    }

    /// Whether the screen stands still.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Seconds that the charts show.
    #[must_use]
    pub fn span_s(&self) -> f64 {
        SCALES.get(self.scale).copied().unwrap_or(60.0)
    }

    /// The moment at the right edge of the charts, CLOCK_MONOTONIC nanoseconds.
    pub(in crate::tui) fn now_ns(&self) -> u64 {
        match &self.frozen {
            Some(frozen) => frozen.now_ns,
            None => self.timeline.latest().map_or(0, |p| p.end_ns),
        }
    }

    /// Seconds for which the verdict on the screen has stood.
    pub(in crate::tui) fn verdict_age_s(&self) -> Option<f64> {
        let since = self.frozen.as_ref().map_or(self.since_ns, |f| f.since_ns)?;
        Some(self.now_ns().saturating_sub(since) as f64 / 1e9)
    }

    /// The time that charts of `cells` cells show.
    pub(in crate::tui) fn window(&self, cells: u16) -> Window {
        Window::of_cells(self.now_ns(), self.span_s(), cells)
    }

    /// What the layout has to make room for.
    pub(in crate::tui) fn wants(&self) -> Wants {
        self.frame().map_or_else(Wants::default, |f| Wants { workers: f.workers.len(), processes: f.processes.len() })
    }

    /// The selected process.
    pub(in crate::tui) fn selected(&self) -> Option<&ProcessRates> {
        self.table.process(self.frame())
    }

    /// Takes in what happened and says what is to be done about it.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Key(key) => {
                let had_notice = self.notice.take().is_some();
                match keys::action(key) {
                    Some(action) => self.act(action),
                    None if had_notice => vec![Effect::Redraw],
                    None => Vec::new(),
                }
            }
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Paste(_) => Vec::new(),
            Message::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.keep_in_view();
                vec![Effect::Redraw]
            }
            Message::Frame(frame) => self.take_frame(*frame),
            Message::Verdict(verdict) => self.take_verdict(verdict),
            Message::Sources(sources) => {
                let changed = [
                    (&self.sources.job, &sources.job),
                    (&self.sources.host, &sources.host),
                    (&self.sources.storage, &sources.storage),
                    (&self.sources.gpu, &sources.gpu),
                ]
                .into_iter()
                .any(|(a, b)| a.state != b.state || a.reason != b.reason);
                self.sources = *sources;
                if changed && !self.paused() { vec![Effect::Redraw] } else { Vec::new() }
            }
            Message::TargetEnded { text } => {
                self.ended = Some(text);
                vec![Effect::Redraw]
            }
            Message::Notice(text) => {
                self.notice = Some(text);
                vec![Effect::Redraw]
            }
            Message::Quit => vec![Effect::Quit],
        }
    }

    fn take_frame(&mut self, frame: Frame) -> Vec<Effect> {
        self.timeline.push(&frame);
        self.history.push(frame);
        if self.paused() {
            return Vec::new();
        }
        self.table.refresh(self.history.latest());
        self.keep_in_view();
        vec![Effect::Redraw]
    }

    fn take_verdict(&mut self, verdict: Arc<Verdict>) -> Vec<Effect> {
        let now = self.timeline.latest().map_or(0, |p| p.end_ns);
        let same = self.verdict.as_ref().is_some_and(|v| v.class == verdict.class && v.cause == verdict.cause);
        if !same || self.since_ns.is_none() {
            self.since_ns = Some(now);
        }
        self.timeline.mark(verdict.class);
        if let Some(latest) = self.history.latest() {
            self.history.mark(Mark {
                sequence: latest.sequence,
                class: verdict.class,
                cause: verdict.cause.as_deref().and_then(words::known_cause),
                phase: verdict.phase,
                confidence: verdict.confidence,
            });
        }
        self.verdict = Some(verdict);
        if self.paused() { Vec::new() } else { vec![Effect::Redraw] }
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Repaint],
            Action::Copy => return self.copy(),
            Action::Close => self.close(),
            Action::Help => self.go(if self.page == Page::Help { Page::Overview } else { Page::Help }),
            Action::Overview => self.go(Page::Overview),
            Action::Findings => self.go(Page::Findings),
            Action::NextPage => self.go(self.page.after(1)),
            Action::PreviousPage => self.go(self.page.after(Page::ALL.len() - 1)),
            Action::Pause => self.pause(),
            Action::ZoomIn => self.scale = self.scale.saturating_sub(1),
            Action::ZoomOut => self.scale = (self.scale + 1).min(SCALES.len() - 1),
            Action::Up => self.scroll_by(-1),
            Action::Down => self.scroll_by(1),
            Action::PageUp => self.scroll_by(-self.page_rows()),
            Action::PageDown => self.scroll_by(self.page_rows()),
            Action::Top => self.scroll_by(isize::MIN),
            Action::Bottom => self.scroll_by(isize::MAX),
            Action::NextSort => self.sort_by(self.table.sort.column.next()),
            Action::Sort(column) => self.sort_by(column),
            Action::Reverse => {
                self.table.sort.reversed = !self.table.sort.reversed;
                self.resort();
            }
            Action::Detail => {
                if self.page == Page::Overview {
                    self.detail = !self.detail && self.selected().is_some();
                }
            }
        }
        vec![Effect::Redraw]
    }

    /// Closes the popup, or else the page that lies over the overview.
    fn close(&mut self) {
        if self.detail {
            self.detail = false;
        } else {
            self.go(Page::Overview);
        }
    }

    fn go(&mut self, page: Page) {
        self.page = page;
        self.detail = false;
        self.scroll = 0;
    }

    fn pause(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Frozen {
                frame: self.history.latest().cloned().map(Box::new),
                verdict: self.verdict.clone(),
                since_ns: self.since_ns,
                now_ns: self.now_ns(),
            }),
        };
        self.resort();
    }

    fn sort_by(&mut self, column: super::processes::Column) {
        if self.table.sort.column != column {
            self.table.sort = super::processes::Sort { column, reversed: false };
        }
        self.resort();
    }

    /// Orders the rows of the frame on the screen.
    fn resort(&mut self) {
        let frame = self.frozen.as_ref().map_or_else(|| self.history.latest(), |f| f.frame.as_deref());
        self.table.refresh(frame);
        self.keep_in_view();
    }

    /// Rows of the process table that are visible, header not counted.
    fn table_rows(&self) -> usize {
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        layout::plan(area, self.wants()).map_or(1, |p| usize::from(p.table.height.saturating_sub(1)))
    }

    fn page_rows(&self) -> isize {
        let rows = match self.page {
            Page::Overview => self.table_rows(),
            Page::Findings | Page::Help => usize::from(views::text_rows(self.size.1)),
        };
        isize::try_from(rows).unwrap_or(isize::MAX).max(1)
    }

    fn scroll_by(&mut self, rows: isize) {
        if self.page == Page::Overview {
            let row = self.table.selected.saturating_add_signed(rows);
            let frame = self.frozen.as_ref().map_or_else(|| self.history.latest(), |f| f.frame.as_deref());
            self.table.select(frame, row);
        } else {
            self.scroll = self.scroll.saturating_add_signed(rows);
        }
        self.keep_in_view();
    }

    fn keep_in_view(&mut self) {
        self.table.scroll_to_selected(self.table_rows());
        if self.page != Page::Overview {
            let lines = views::text_lines(self, self.size.0).len();
            self.scroll = self.scroll.min(lines.saturating_sub(usize::from(views::text_rows(self.size.1))));
        }
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.scroll_by(-WHEEL),
            MouseEventKind::ScrollDown => self.scroll_by(WHEEL),
            MouseEventKind::Down(MouseButton::Left) if self.page == Page::Overview => {
                let area = Rect::new(0, 0, self.size.0, self.size.1);
                let Some(plan) = layout::plan(area, self.wants()) else { return Vec::new() };
                let Some(row) = mouse.row.checked_sub(plan.table.y + 1) else { return Vec::new() };
                if mouse.row >= plan.table.bottom() {
                    return Vec::new();
                }
                let row = self.table.top + usize::from(row);
                let frame = self.frozen.as_ref().map_or_else(|| self.history.latest(), |f| f.frame.as_deref());
                self.table.select(frame, row);
            }
            _ => return Vec::new(),
        }
        vec![Effect::Redraw]
    }

    fn copy(&mut self) -> Vec<Effect> {
        let Some(verdict) = self.verdict() else {
            self.notice = Some("no verdict to copy yet".to_owned());
            return vec![Effect::Redraw];
        };
        let text = verdict_text(verdict, &self.target);
        self.notice = Some("verdict copied to the clipboard".to_owned());
        vec![Effect::Copy(text), Effect::Redraw]
    }
}

/// The verdict as a few lines for a message to a colleague.
fn verdict_text(verdict: &Verdict, target: &Target) -> String {
    use crate::text::sanitise;

    let mut lines = vec![format!("trainmon: PID {} {}", target.pid, sanitise(&target.command))];
    let cause = verdict.cause.as_deref().map(|c| format!(" / {}", sanitise(c))).unwrap_or_default();
    lines.push(format!(
        "{}{cause} (confidence {})",
        verdict.class.word(),
        super::format::share(Some(verdict.confidence))
    ));
    if verdict.class != Class::Unknown || !verdict.summary.is_empty() {
        lines.push(sanitise(&verdict.summary).into_owned());
    }
    for advice in &verdict.advice {
        let bound = views::bound(advice);
        lines.push(format!("- {}{bound}", sanitise(&advice.title)));
    }
    lines.extend(verdict.evidence.iter().map(|e| format!("  {}", sanitise(&e.text))));
    lines.extend(verdict.not_seen.iter().map(|n| format!("  not seen: {}: {}", sanitise(&n.what), sanitise(&n.why))));
    lines.join("\n")
}
