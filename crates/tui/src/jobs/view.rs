//! The list of jobs: attached ones, then the processes that may be training; over a page, or as the first screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Padding, Row, StatefulWidget, Table, TableState, Widget};

use super::{JobList, JobRow, facts, preview};
use crate::format;
use crate::job::Job;
use crate::theme::Theme;
use crate::widgets::{Drawn, Extent, Hit, PopupBox, Prompt, count, write_up};
use trainmon_attach::jobs::JobKey;
use trainmon_base::text::{fit, sanitize};
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase};
use trainmon_views::labels::{number, short_command};

/// Cells of the mark of the job on the screen, of a PID, and of an age.
const CELLS_OF_MARK: u16 = 1;
const CELLS_OF_PID: u16 = 7;
const CELLS_OF_AGE: u16 = 9;

/// What the list shows.
pub struct JobsScene<'a> {
    /// The list.
    pub list: &'a JobList,
    /// First line shown, unless the selected one is outside the visible lines.
    pub top: usize,
    /// Attached jobs.
    pub jobs: &'a [Job],
    /// The job on the screen.
    pub shown: JobKey,
    /// The open prompt.
    pub prompt: Option<&'a Prompt>,
    /// One line that answers the last key.
    pub notice: Option<&'a str>,
    /// How to draw.
    pub theme: Theme,
}

/// Draws what is above and below the list on the first screen.
pub fn around(buf: &mut Buffer, theme: Theme) {
    let area = buf.area;
    if area.height > 2 {
        let [title, _, last] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        buf.set_style(title, theme.bar());
        let name = Span::styled(" trainmon ", theme.strong());
        Line::from_iter([name, Span::raw("choose a job to attach to")]).render(title, buf);
        let text = "Attaching changes nothing in the job: no process is stopped or modified.";
        Span::styled(fit(text, usize::from(area.width)), theme.dim()).render(last, buf);
    }
}

/// Draws the list over a page, or as the first screen.
pub fn draw(buf: &mut Buffer, scene: &JobsScene<'_>, drawn: &mut Drawn) {
    let (area, theme) = (buf.area, scene.theme);
    let below = if scene.jobs.is_empty() {
        " Enter attach · / filter · p PID · q quit "
    } else {
        " Enter show or attach · x detach · / filter · p PID · Esc close "
    };
    // Covers everything except title and footer.
    let frame = Rect { y: area.y + area.height.min(1), height: area.height.saturating_sub(2), ..area };
    let popup = PopupBox { title: &title(scene), below, width: frame.width };
    let plan = plan(popup.frame_at(buf, frame, theme));
    rows(buf, &plan, scene, drawn);
    prompt(buf, plan.prompt, scene);
    let edge = if plan.beside { Borders::LEFT } else { Borders::TOP };
    let edge = Block::new().borders(edge).border_style(theme.dim());
    let edge = if plan.beside { edge.padding(Padding::left(1)) } else { edge };
    (&edge).render(plan.preview, buf);
    let preview = edge.inner(plan.preview);
    match scene.list.selected {
        Some(JobRow::Attached(key)) => {
            if let Some(job) = scene.jobs.iter().find(|job| job.key == key) {
                preview::job(buf, preview, job, theme);
            }
        }
        Some(JobRow::Candidate(pid)) => {
            if let Some(candidate) = scene.list.candidate(pid) {
                preview::candidate(buf, preview, candidate, theme);
            }
        }
        None => preview::nothing(buf, preview, scene.list, theme),
    }
}

/// The parts of the list of jobs.
#[derive(Debug, Clone, Copy)]
struct JobsPlan {
    /// The rows, with their headings.
    table: Rect,
    /// The open prompt, or a note.
    prompt: Rect,
    /// The selected row in full, in a block that keeps it apart.
    preview: Rect,
    /// Whether the preview is to the right of the rows, not below them.
    beside: bool,
}

/// Places the parts inside the border: the preview beside the rows if the terminal is wide, otherwise below them. In
/// tiny terminals, parts are empty.
fn plan(inner: Rect) -> JobsPlan {
    let beside = inner.width >= 150;
    let [list, preview] = if beside {
        Layout::horizontal([Constraint::Length(inner.width * 3 / 5), Constraint::Fill(1)]).areas(inner)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Length(inner.height * 11 / 20)]).areas(inner)
    };
    let [table, prompt] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(list);
    JobsPlan { table, prompt, preview, beside }
}

fn title(scene: &JobsScene<'_>) -> String {
    let attached = match scene.jobs.len() {
        0 => String::new(),
        n => format!("{n} attached, "),
    };
    let found = match scene.list.candidates.as_ref().map(|_| scene.list.others(scene.jobs).count()) {
        None => "looking for more…".to_owned(),
        Some(0) if !scene.jobs.is_empty() => "no other training process found".to_owned(),
        Some(n) => format!("{} that may be training", format::counted(n, "process", "processes")),
    };
    format!(" Jobs: {attached}{found} ")
}

fn rows(buf: &mut Buffer, plan: &JobsPlan, scene: &JobsScene<'_>, drawn: &mut Drawn) {
    let theme = scene.theme;
    let (lines, selected) = (&scene.list.lines, scene.list.selected_line());
    let extent =
        Extent { top: scene.top, visible: usize::from(plan.table.height.saturating_sub(1)), total: lines.len() };
    // The heading above the first candidate is shown with it.
    let above = selected.and_then(|line| line.checked_sub(1)).filter(|line| lines.get(*line) == Some(&None));
    let extent = above.map_or(extent, |heading| extent.showing(heading)).showing(selected.unwrap_or(0));
    let columns = JobColumns::new(plan.table.width, scene);
    let steps = if scene.jobs.is_empty() { "" } else { "STEPS/S" };
    let headings = ["", "PID", "RUNS FOR", "VERDICT OR FACTS", steps, "COMMAND"];
    let header = columns.row(headings).style(theme.heading());
    let rows = lines.iter().skip(extent.top).take(extent.visible).map(|line| match line {
        None => {
            let cell = Cell::from(fit(&between(scene), usize::from(plan.table.width)));
            Row::new([cell.column_span(count(columns.0.len()))]).style(theme.dim())
        }
        Some(JobRow::Attached(key)) => attached(*key, scene, &columns).unwrap_or_default(),
        Some(JobRow::Candidate(pid)) => candidate(*pid, scene, &columns).unwrap_or_default(),
    });
    let table = Table::new(rows, columns.0.map(Constraint::Length)).header(header);
    let mut state = TableState::new().with_selected(selected.and_then(|line| line.checked_sub(extent.top)));
    StatefulWidget::render(table.row_highlight_style(theme.selected()), plan.table, buf, &mut state);
    drawn.popup = extent;
    let rows = Rect { y: plan.table.y + 1, height: plan.table.height.saturating_sub(1), ..plan.table };
    drawn.hits.push((rows, Hit::Row(extent.top)));
    let more = extent.last_top().saturating_sub(extent.top);
    if more > 0 {
        Line::styled(format!(" {more} more below"), theme.dim()).right_aligned().render(plan.prompt, buf);
    }
}

/// The heading before the candidates.
fn between(scene: &JobsScene<'_>) -> String {
    let filter = &scene.list.filter;
    match &scene.list.candidates {
        None => "looking for training processes…".to_owned(),
        Some(found) if found.is_empty() => "no training process found; press p to attach to any PID".to_owned(),
        Some(_) if scene.list.others(scene.jobs).next().is_none() => {
            "no other training process found is seen; p attaches to any PID".to_owned()
        }
        Some(_) if !filter.is_empty() => {
            format!("may be training, with “{}” in the PID or command:", sanitize(filter))
        }
        Some(_) => "may be training, most likely first:".to_owned(),
    }
}

/// Cells of each column: mark, PID, age, what the job does, steps per second if they have a column, and command.
struct JobColumns([u16; 6]);

impl JobColumns {
    fn new(width: u16, scene: &JobsScene<'_>) -> Self {
        // Only attached jobs have a step rate.
        let rate = if scene.jobs.is_empty() { 0 } else { 7 };
        let left = width.saturating_sub(CELLS_OF_MARK + CELLS_OF_PID + CELLS_OF_AGE + rate + 5);
        // As much of what a job does as fits beside its command; the preview has all of it.
        let what = (left * 2 / 3).max(10);
        Self([CELLS_OF_MARK, CELLS_OF_PID, CELLS_OF_AGE, what, rate, left.saturating_sub(what)])
    }

    fn row(&self, values: [&str; 6]) -> Row<'static> {
        Row::from_iter(values.into_iter().zip(self.0).enumerate().map(|(place, (value, width))| match place {
            1 | 4 => Cell::from(Line::from(value.to_owned()).right_aligned()),
            _ => Cell::from(fit(value, usize::from(width))),
        }))
    }
}

fn attached(key: JobKey, scene: &JobsScene<'_>, columns: &JobColumns) -> Option<Row<'static>> {
    let job = scene.jobs.iter().find(|job| job.key == key)?;
    let mark = if scene.shown == job.key { ">" } else { "" };
    let age = job.archive().latest().and_then(|moment| moment.frame.job.age_s);
    let steps = if job.ended.is_none() { job.latest_verdict().and_then(|v| v.steps.per_s) } else { None };
    let steps = steps.map_or_else(String::new, |steps| format::number(Some(steps)));
    let (pid, age) = (job.target.pid.to_string(), number(age.map(format::duration)));
    let command = short_command(&job.target.command);
    Some(columns.row([mark, &pid, &age, &standing(job), &steps, &command]))
}

/// Phase and verdict in as few words as possible.
fn standing(job: &Job) -> String {
    let verdict = match job.latest_verdict() {
        None => "attaching…".to_owned(),
        Some(v) if v.is_pending() => "measuring…".to_owned(),
        Some(v) => {
            // A run with a bottleneck is training: only other phases are worth a word.
            let phase = match (v.class, v.phase) {
                (_, Phase::Training | Phase::Unknown | Phase::Finished) => String::new(),
                (Class::Idle, phase) => format!(": {}", phase.word()),
                (_, phase) => format!(", {}", phase.word()),
            };
            format!("{}{phase}", verdict_name(v.class, v.cause))
        }
    };
    if job.ended.is_some() { format!("ENDED, {verdict}") } else { verdict }
}

fn candidate(pid: u32, scene: &JobsScene<'_>, columns: &JobColumns) -> Option<Row<'static>> {
    let candidate = scene.list.candidate(pid)?;
    let (pid, age) = (candidate.pid.to_string(), number(candidate.age_s.map(|age| format::duration(age as f64))));
    let (what, command) = (facts(candidate).join(", "), short_command(&candidate.command));
    Some(columns.row(["", &pid, &age, &what, "", &command]))
}

fn prompt(buf: &mut Buffer, area: Rect, scene: &JobsScene<'_>) {
    let theme = scene.theme;
    if area.height == 0 {
        return;
    }
    if let Some(prompt) = scene.prompt {
        Clear.render(area, buf);
        prompt.draw(buf, area, theme);
    } else if let Some(notice) = scene.notice {
        write_up(buf, area, notice, theme.warning());
    } else if !scene.list.filter.is_empty() {
        let text = fit(&format!("filter: {}", scene.list.filter), usize::from(area.width.saturating_sub(16)));
        Span::styled(text, theme.dim()).render(area, buf);
    }
}
