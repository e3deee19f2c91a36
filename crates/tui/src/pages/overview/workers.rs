//! One row for each worker: busy, waiting for its data, queueing for a CPU, idle.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::format;
use crate::theme::Look;
use crate::widgets::panel::Panel;
use crate::widgets::{Scene, bars};
use trainmon_base::stats::mean;
use trainmon_base::text::format::whole_percent;
use trainmon_diagnosis::diagnosis::verdict::{Stages, WorkerVerdict};
use trainmon_diagnosis::history::recent_use::Recent;
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;

/// A worker over the verdict's window; what the verdict does not have is of this moment.
fn told(worker: &WorkerRates, scene: &Scene<'_>) -> WorkerVerdict {
    let known = scene.verdict().and_then(|verdict| verdict.workers.iter().find(|known| known.pid == worker.id.pid));
    known.cloned().unwrap_or_else(|| WorkerVerdict {
        pid: worker.id.pid,
        busy: worker.busy,
        io_wait: worker.io_wait,
        runnable: worker.runnable,
        idle: worker.idle,
        batches_per_s: worker.batches_per_s,
        ..WorkerVerdict::default()
    })
}

/// Draws a legend and as many workers as fit.
pub fn draw(buf: &mut Buffer, area: Rect, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let count = frame.workers.len();
    let room = bars::room(area, buf.area, count);
    let mut panel = Panel::new(format::counted(count, "worker", "workers"), theme.strong());
    panel.value.extend(summary(frame, scene).map(|text| (text, theme.strong())));
    if count > room {
        panel = panel.with(format!("{room} of {count} shown"), theme.dim());
    }
    for stage in Look::STAGES {
        panel = panel.with(format!("{} {}", theme.key(stage), stage.word), theme.style(stage));
    }
    let inner = panel.draw(buf, area, theme);
    for (worker, area) in frame.workers.iter().zip(bars::places(inner, count)) {
        row(buf, area, &told(worker, scene), scene);
    }
}

/// What the workers that feed the judged loop do together: `97% busy · 4.1 batches/s`, and of how many of all it is.
pub fn summary(frame: &Frame, scene: &Scene<'_>) -> Option<String> {
    let all: Vec<WorkerVerdict> = frame.workers.iter().map(|worker| told(worker, scene)).collect();
    let judged = scene.verdict().map_or(&[][..], |verdict| &verdict.workers);
    let workers = if judged.is_empty() { &all } else { judged };
    let busy = mean(workers.iter().map(|worker| worker.busy))?;
    let batches = workers.iter().map(|worker| worker.batches_per_s).sum::<Option<f64>>();
    let batches = batches.map(|per_s| format!(" · {} batches/s", format::number(Some(per_s)))).unwrap_or_default();
    let of_them = match workers {
        [one] if all.len() > 1 => format!(" ({})", one.pid),
        some if some.len() < all.len() => format!(" ({} of them)", some.len()),
        _ => String::new(),
    };
    Some(format!("{} busy{of_them}{batches}", format::share(Some(busy))))
}

fn row(buf: &mut Buffer, area: Rect, worker: &WorkerVerdict, scene: &Scene<'_>) {
    let theme = scene.theme;
    let shares = [worker.busy, worker.io_wait, worker.runnable, worker.idle];
    let shares = Look::STAGES.into_iter().zip(shares.map(|share| share.filter(|share| share.is_finite())));
    let known: Vec<(Look, f64)> = shares.filter_map(|(stage, share)| Some((stage, share?))).collect();
    let most = known.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let style = theme.style(most.map_or(Look::IDLE, |(most, _)| most));
    let mut text = most.map_or_else(
        || format::UNMEASURED.to_owned(),
        |(most, share)| format!("{} {:>3}%", most.word, whole_percent(share)),
    );
    let works = most.is_some_and(|(most, _)| [Look::BUSY, Look::IO].contains(&most));
    if let Some(stage) = worker.stages.and_then(longest_stage).filter(|_| works) {
        text = format!("{text} · {stage}");
    }
    let rate = worker.batches_per_s.map(|per_s| format!(" · {}/s", format::number(Some(per_s))));
    bars::ProcessBar {
        pid: worker.pid,
        number: Span::styled(format!("{:>8}", worker.pid), theme.dim()),
        parts: &known,
        recent: Recent::Cpu,
        style,
        text: Line::from_iter([Span::styled(text, style), Span::styled(rate.unwrap_or_default(), theme.dim())]),
    }
    .draw(buf, area, scene);
}

/// What it does most of the time that it works, if stacks show it.
fn longest_stage(stages: Stages) -> Option<&'static str> {
    let Stages { load, decode, transform, collate, .. } = stages;
    let parts = [("load", load), ("decode", decode), ("transform", transform), ("collate", collate)];
    parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > 0.05).map(|(name, _)| name)
}
