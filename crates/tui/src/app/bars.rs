//! The header, and the footer with the pages and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::App;
use super::popup::Popup;
use crate::job::Job;
use crate::pages::Page;
use crate::pages::keys::{Action, key_of};
use crate::widgets::{Drawn, Hit, Piece, bars, cells, count, write_up};
use crate::{format, widgets};
use trainmon_base::text::{fit, sanitize};
use trainmon_base::zone;
use trainmon_views::labels;

/// Width of the bar that shows the position in a replay, cells.
const PROGRESS: u16 = 16;
/// Cells reserved for the command before facts about the job get any.
const COMMAND: usize = 24;
/// Narrowest header that has that bar, the machine's name, and facts about the job.
const WIDE: u16 = 100;

/// Program and job on the left; on the right, which moment of the job is shown.
pub fn header(buf: &mut Buffer, area: Rect, app: &App) {
    let theme = app.options.theme;
    let job = app.job();
    let mut right = Vec::new();
    if area.width >= WIDE
        && let Some((at, length)) = progress(job)
    {
        let share = if length > 0.0 { at / length } else { 1.0 };
        right.push(Span::raw(" "));
        right.extend(bars::share(PROGRESS, share, theme.cursor(), ("·", theme.dim())));
    }
    let parts = moment(area.width, app);
    // The program and the job keep a third.
    let mut free = area.width.saturating_sub(area.width / 3 + 1);
    let shown = parts.iter().rev().take_while(|(text, _)| {
        let fits = cells(text) <= free;
        free = free.saturating_sub(cells(text) + 2);
        fits
    });
    let skipped = parts.len() - shown.count();
    for (text, style) in parts.into_iter().skip(skipped) {
        right.extend([Span::raw("  "), Span::styled(text, style)]);
    }
    let right = Line::from_iter(right.into_iter().chain([Span::raw(" ")]));
    let [left, at_right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(count(right.width()))]).areas(area);
    right.render(at_right, buf);
    let name = " trainmon  ";
    let room = usize::from(left.width.saturating_sub(cells(name)));
    let mut line = Line::from(Span::styled(name, theme.strong()));
    if let Some(ended) = &job.ended {
        let command = labels::short_command(&job.target.command);
        let ended = fit(&format!("ENDED: {} · ", sanitize(ended)), room);
        let room = room.saturating_sub(usize::from(cells(&ended)));
        line.extend([Span::styled(ended, theme.warning()), Span::styled(fit(&command, room), theme.dim())]);
        return line.render(left, buf);
    }
    let jobs = app.jobs().len();
    let which = if jobs > 1 { format!("job {}/{jobs} · ", app.current + 1) } else { String::new() };
    let mut facts = facts(job, area.width);
    if room < usize::from(cells(&which) + cells(&facts)) + COMMAND {
        facts = pid(job);
    }
    let room = room.saturating_sub(usize::from(cells(&which) + cells(&facts)));
    let command = fit(&labels::short_command(&job.target.command), room);
    line.extend([Span::styled(which, theme.dim()), Span::raw(command), Span::styled(facts, theme.dim())]);
    line.render(left, buf);
}

/// PID and age of the job: ` · PID 21252 up 18 s`.
fn pid(job: &Job) -> String {
    if job.is_trace() {
        return String::new();
    }
    let age = if job.replay.is_none() { job.frame().and_then(|frame| frame.job.age_s) } else { None };
    let age = age.map(|age| format!(" up {}", format::duration(age))).unwrap_or_default();
    format!(" · PID {}{age}", job.target.pid)
}

/// PID, workers and GPUs of the job: ` · PID 21252 up 18 s · 4 workers · GPU 0 A10G`.
fn facts(job: &Job, width: u16) -> String {
    let mut facts = pid(job);
    let (Some(frame), true) = (job.frame(), width >= WIDE) else { return facts };
    if !frame.workers.is_empty() {
        facts += &format!(" · {}", format::counted(frame.workers.len(), "worker", "workers"));
    }
    let ours: Vec<_> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let name = |gpu: &trainmon_rates::frame::GpuRates| {
        gpu.name.as_deref().map(|name| format!(" {}", fit(&sanitize(name.trim_start_matches("NVIDIA ")), 20)))
    };
    match ours.as_slice() {
        [] => {}
        [one] => facts += &format!(" · GPU {}{}", one.index, name(one).unwrap_or_default()),
        [first, ..] => facts += &format!(" · {} GPUs{}", ours.len(), name(first).unwrap_or_default()),
    }
    facts
}

/// In a replay: seconds from the first moment to the one shown, and to the last one.
fn progress(job: &Job) -> Option<(f64, f64)> {
    if job.replay.is_none() || job.is_trace() {
        return None;
    }
    let first = job.archive().first()?.monotonic_ns;
    let since = |ns: u64| ns.saturating_sub(first) as f64 / 1e9;
    Some((since(job.moment_ns()), since(job.archive().last()?.monotonic_ns)))
}

/// Machine and clock; for a replay, its position, length and speed; and whether the screen is paused.
fn moment(width: u16, app: &App) -> Vec<Piece> {
    let (theme, job) = (app.options.theme, app.job());
    let Some(frame) = job.frame() else {
        return job.replay.map(|_| (" REPLAY ".to_owned(), theme.bar())).into_iter().collect();
    };
    let shown = job.cursor().map_or(frame.unix_ms, |moment| moment.frame.unix_ms);
    let clock = zone::clock(shown, &app.options.zone);
    if job.is_trace() {
        return vec![(" TRACE ".to_owned(), theme.bar())];
    }
    if let Some(replay) = &job.replay {
        let (at, length) = progress(job).unwrap_or_default();
        let state = if replay.playing { "REPLAY" } else { "REPLAY PAUSED" };
        let position = format!("{} of {}", format::duration(at), format::duration(length));
        let speed = format!("{}×", format::number(Some(replay.speed())));
        return vec![
            (format!(" {state} "), theme.bar()),
            (position, theme.strong()),
            (speed, theme.dim()),
            (clock, theme.dim()),
        ];
    }
    if job.is_paused() {
        return vec![(" PAUSED ".to_owned(), theme.bar()), (clock, theme.strong())];
    }
    let host = Some(&app.options.host).filter(|host| width >= WIDE && !host.is_empty());
    let host = host.map(|host| fit(&sanitize(host), 24));
    let parts: Vec<String> = host.into_iter().chain([clock]).collect();
    vec![(parts.join(" · "), theme.dim())]
}

/// The pages and keys that fit, or a prompt or notice in their place; help and quit always.
pub fn footer(buf: &mut Buffer, area: Rect, app: &App, drawn: &mut Drawn) {
    let theme = app.options.theme;
    // The list of jobs has its own row for prompts and notices.
    if app.list.is_none() {
        if let Some(Popup::Prompt(prompt)) = &app.popup {
            return prompt.draw(buf, area, theme);
        }
        if let Some(notice) = &app.notice {
            write_up(buf, area, notice, theme.warning());
            return;
        }
    }
    let rest = help_and_quit(buf, area, app, drawn);
    if let Some(line) = app.profile_line() {
        Span::styled(fit(&line, usize::from(rest.width.saturating_sub(1))), theme.strong()).render(rest, buf);
        return;
    }
    let rest = tabs(buf, rest, app, drawn);
    actions(buf, rest, app);
}

/// Help and quit, always on the right; returns what is left.
fn help_and_quit(buf: &mut Buffer, area: Rect, app: &App, drawn: &mut Drawn) -> Rect {
    let theme = app.options.theme;
    let blank = usize::from(area.width >= WIDE);
    let [help, quit] = [(Action::Go(Page::Help), " help"), (Action::Quit, " quit")].map(|(action, word)| {
        Line::from_iter([Span::styled(key_of(action), theme.strong()), Span::styled(word, theme.dim())])
    });
    let widths = [help.width(), 1 + blank, quit.width(), blank].map(|width| Constraint::Length(count(width)));
    let constraints = [Constraint::Fill(1), Constraint::Length(count(1 + blank))].into_iter().chain(widths);
    let [rest, _, of_help, _, of_quit, _] = Layout::horizontal(constraints).areas(area);
    help.render(of_help, buf);
    quit.render(of_quit, buf);
    drawn.hits.push((of_help, Hit::Tab(Page::Help.index())));
    rest
}

/// The pages with their keys, with short names where the long ones do not fit; returns what is left.
fn tabs(buf: &mut Buffer, area: Rect, app: &App, drawn: &mut Drawn) -> Rect {
    let theme = app.options.theme;
    let pages = || Page::ALL.into_iter().filter(|page| page.spec().in_footer);
    let tab = |page: Page, short: bool| {
        let name = if short { page.spec().short } else { page.name() };
        format!("{} {name}", key_of(Action::Go(page)))
    };
    let width = |short, gap: u16| pages().map(|page| cells(&tab(page, short)) + gap).sum::<u16>();
    let forms = [(false, 2), (false, 1), (true, 1)];
    let fitting = forms.into_iter().find(|(short, gap)| width(*short, *gap) <= area.width + gap);
    let (short, gap) = fitting.unwrap_or((true, 1));
    let margin = Constraint::Length(u16::from(width(short, gap) < area.width + gap));
    let [_, rest] = Layout::horizontal([margin, Constraint::Fill(1)]).areas(area);
    let tabs = pages().map(|page| (tab(page, short), page == app.page, Hit::Tab(page.index())));
    widgets::tabs(buf, rest, tabs, gap, theme, drawn)
}

/// Other keys of this page, as many as fit; when paused, first the key that resumes.
fn actions(buf: &mut Buffer, area: Rect, app: &App) {
    let theme = app.options.theme;
    let is_paused = app.job().is_paused() && app.job().replay.is_none();
    let paused: &[(Action, &str)] =
        if is_paused { &[(Action::Pause, "resume"), (Action::Bottom, "live")] } else { &[] };
    let is_running = app.job().replay.is_none() && app.job().ended.is_none();
    let usual = app.page.spec().footer.iter().filter(|(action, _)| match action {
        Action::Pause => !is_paused,
        Action::TakeProfile => is_running && app.options.may_profile,
        // Named by a page only for what is its own.
        Action::StepForward | Action::ZoomIn => app.pages.get(app.page).takes(*action),
        _ => true,
    });
    let plays = app.job().replay.as_ref().is_some_and(|replay| !replay.playing);
    let mut line = Line::default();
    for (action, word) in paused.iter().chain(usual) {
        let word = match action {
            Action::Pause if plays => " play".to_owned(),
            Action::ZoomOut => format!(" {word} {}", format::duration(app.span_s())),
            _ => format!(" {word}"),
        };
        let before = if line.spans.is_empty() { " " } else { "  " };
        let spans =
            [Span::raw(before), Span::styled(key_of(*action), theme.strong()), Span::styled(word, theme.dim())];
        if line.width() + spans.iter().map(Span::width).sum::<usize>() > usize::from(area.width) {
            break;
        }
        line.extend(spans);
    }
    line.render(area, buf);
}
