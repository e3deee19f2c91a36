//! The list of jobs: attached ones, then the processes that may be training; over a page, or as the first screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{JobList, JobRow, facts, preview};
use crate::format;
use crate::job::Job;
use crate::labels::{number, short_command};
use crate::theme::Theme;
use crate::widgets::table::{self, Column};
use crate::widgets::{
    Drawn, Extent, Hit, PopupBox, Prompt, card, cells, count, list, write, write_fit, write_right, write_up,
};
use trainmon_attach::jobs::JobKey;
use trainmon_base::text::{fit, sanitise};
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase};

/// Columns before what a job does: mark, PID, and age.
const BEFORE: [Column; 4] = [("", -2), ("", 7), ("", 2), ("", -10)];
/// Their cells.
const WHAT: u16 = 21;

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
        let title = Rect { height: 1, ..area };
        buf.set_style(title, theme.bar());
        let x = write(buf, area.x, area.y, area.right(), " trainmon ", theme.bar().patch(theme.strong()));
        write(buf, x, area.y, area.right(), "choose a job to attach to", theme.bar());
        let last = "Attaching changes nothing in the job: no process is stopped or modified.";
        write_fit(buf, Rect { y: area.bottom() - 1, height: 1, ..area }, last, theme.dim());
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
    if plan.beside {
        for y in plan.preview.top()..plan.preview.bottom() {
            write(buf, plan.preview.x.saturating_sub(2), y, plan.preview.x, "│", theme.dim());
        }
    } else if plan.preview.y > plan.prompt.y {
        let line = "─".repeat(usize::from(plan.preview.width));
        write(buf, plan.preview.x, plan.preview.y - 1, plan.preview.right(), &line, theme.dim());
    }
    match scene.list.selected {
        Some(JobRow::Attached(key)) => {
            if let Some(job) = scene.jobs.iter().find(|job| job.key == key) {
                preview::job(buf, plan.preview, job, theme);
            }
        }
        Some(JobRow::Candidate(pid)) => {
            if let Some(candidate) = scene.list.candidate(pid) {
                preview::candidate(buf, plan.preview, candidate, theme);
            }
        }
        None => preview::nothing(buf, plan.preview, scene.list, theme),
    }
}

/// The parts of the list of jobs.
#[derive(Debug, Clone, Copy)]
struct JobsPlan {
    /// Names of the columns.
    heading: Rect,
    /// The rows.
    rows: Rect,
    /// The open prompt, or a note.
    prompt: Rect,
    /// The selected row in full.
    preview: Rect,
    /// Whether the preview is to the right of the rows, not below them.
    beside: bool,
}

/// Places the parts inside the border: the preview beside the rows if the terminal is wide, otherwise below them. In
/// tiny terminals, parts are empty.
fn plan(inner: Rect) -> JobsPlan {
    let beside = inner.width >= 150;
    let (list, preview) = if beside {
        let width = inner.width * 3 / 5;
        let preview = Rect { x: inner.x + width + 2, width: inner.width - width - 2, ..inner };
        (Rect { width, ..inner }, preview)
    } else {
        let below = inner.height * 11 / 20;
        let list = Rect { height: inner.height - below, ..inner };
        // A line between the two.
        (list, Rect { y: list.bottom() + below.min(1), height: below.saturating_sub(1), ..inner })
    };
    let heading = Rect { height: list.height.min(1), ..list };
    let prompt = Rect { y: list.bottom().saturating_sub(1).max(list.y), height: list.height.min(1), ..list };
    let rows = Rect { y: heading.bottom(), height: list.height.saturating_sub(2), ..list };
    JobsPlan { heading, rows, prompt, preview, beside }
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
    buf.set_style(plan.heading, theme.heading());
    if plan.heading.height > 0 {
        let steps = if scene.jobs.is_empty() { "" } else { "STEPS/S" };
        let headings = ["", "PID", "RUNS FOR", "VERDICT OR FACTS", steps, "COMMAND"];
        line(buf, plan.heading, headings, scene, theme.heading());
    }
    let (lines, selected) = (&scene.list.lines, scene.list.selected_line());
    // The heading above the first candidate is shown with it.
    let above = selected.and_then(|line| line.checked_sub(1)).filter(|line| lines.get(*line) == Some(&None));
    let extent = Extent { top: scene.top, visible: usize::from(plan.rows.height), total: lines.len() };
    let top = above.map_or(scene.top, |heading| extent.showing(heading).top);
    let extent = list(buf, plan.rows, lines, top, selected, theme, |buf, row, line| match line {
        None => {
            write_fit(buf, row, &between(scene), theme.dim());
        }
        Some(JobRow::Attached(key)) => attached(buf, row, *key, scene),
        Some(JobRow::Candidate(pid)) => candidate(buf, row, *pid, scene),
    });
    drawn.popup = extent;
    drawn.hits.push((plan.rows, Hit::Row(extent.top)));
    let more = extent.last_top().saturating_sub(extent.top);
    if more > 0 {
        let text = format!(" {more} more below");
        write_right(buf, plan.prompt.x, plan.prompt.y, plan.prompt.right(), &text, theme.dim());
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
            format!("may be training, with “{}” in the PID or command:", sanitise(filter))
        }
        Some(_) => "may be training, most likely first:".to_owned(),
    }
}

/// Draws a row: mark, PID, age, what the job does, steps per second if they have a column, and command.
fn line(buf: &mut Buffer, row: Rect, said: [&str; 6], scene: &JobsScene<'_>, style: Style) {
    let [mark, pid, age, what, steps, command] = said;
    // The step rate and its blanks, which only attached jobs have.
    let (rate, gap) = if scene.jobs.is_empty() { (0, "") } else { (7, " ") };
    // As much of what a job does as fits beside its command; the preview has all of it.
    let width = (row.width.saturating_sub(WHAT + 1 + rate + count(gap.len())) * 2 / 3).max(10);
    let start = table::row(&BEFORE, [mark, pid, "", age]) + &table::set(what, -(width as i16 + 1));
    let start = start + &table::set(steps, rate as i16) + gap;
    let room = usize::from(row.width.saturating_sub(cells(&start)));
    write(buf, row.x, row.y, row.right(), &(start + &fit(command, room)), style);
}

fn attached(buf: &mut Buffer, row: Rect, key: JobKey, scene: &JobsScene<'_>) {
    let Some(job) = scene.jobs.iter().find(|job| job.key == key) else { return };
    let mark = if scene.shown == job.key { ">" } else { "" };
    let age = job.archive().latest().and_then(|moment| moment.frame.job.age_s);
    let steps = if job.ended.is_none() { job.latest_verdict().and_then(|v| v.steps.per_s) } else { None };
    let steps = steps.map_or_else(String::new, |steps| format::number(Some(steps)));
    let (pid, age) = (job.target.pid.to_string(), number(age.map(format::duration)));
    let command = short_command(&job.target.command);
    line(buf, row, [mark, &pid, &age, &standing(job), &steps, &command], scene, Style::new());
}

/// Phase and verdict in as few words as possible.
fn standing(job: &Job) -> String {
    let verdict = match job.latest_verdict() {
        None => "attaching…".to_owned(),
        Some(v) if card::is_pending(v) => "measuring…".to_owned(),
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

fn candidate(buf: &mut Buffer, row: Rect, pid: u32, scene: &JobsScene<'_>) {
    let Some(candidate) = scene.list.candidate(pid) else { return };
    let (pid, age) = (candidate.pid.to_string(), number(candidate.age_s.map(|age| format::duration(age as f64))));
    let (what, command) = (facts(candidate).join(", "), short_command(&candidate.command));
    line(buf, row, ["", &pid, &age, &what, "", &command], scene, Style::new());
}

fn prompt(buf: &mut Buffer, area: Rect, scene: &JobsScene<'_>) {
    let theme = scene.theme;
    if area.height == 0 {
        return;
    }
    if let Some(prompt) = scene.prompt {
        let blank = " ".repeat(usize::from(area.width));
        write(buf, area.x, area.y, area.right(), &blank, theme.strong());
        prompt.draw(buf, area, theme);
    } else if let Some(notice) = scene.notice {
        write_up(buf, area, notice, theme.warning());
    } else if !scene.list.filter.is_empty() {
        let area = Rect { width: area.width.saturating_sub(16), ..area };
        write_fit(buf, area, &format!("filter: {}", scene.list.filter), theme.dim());
    }
}
