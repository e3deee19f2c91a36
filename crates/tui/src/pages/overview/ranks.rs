//! One row for each rank of a distributed run: where its training loop's time goes, and its GPU.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::format;
use crate::theme::Look;
use crate::widgets::panel::Panel;
use crate::widgets::{Scene, bars};
use trainmon_diagnosis::diagnosis::loop_parts;
use trainmon_diagnosis::history::recent_use::Recent;
use trainmon_views::labels::whole_percent;
use trainmon_views::ranks;
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;

/// Draws a heading and as many ranks as fit.
pub fn draw(buf: &mut Buffer, area: Rect, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let count = frame.ranks.len();
    let room = bars::room(area, buf.area, count);
    let straggler = straggler(frame, scene);
    let late = straggler.and_then(|place| Some(frame.ranks.get(place)?.number(place)));
    let mut panel = Panel::new(format!("{count} ranks"), theme.strong());
    panel.value.extend(late.map(|rank| (format!("the others wait for rank {rank}"), theme.warning())));
    if count > room {
        panel = panel.with(format!("{room} shown"), theme.dim());
    }
    let inner = panel.with("colors as above · GPU use of this second", theme.dim()).draw(buf, area, theme);
    let mut listed: Vec<_> = frame.ranks.iter().enumerate().collect();
    if count > room {
        // The rank that the others wait for is always shown.
        listed.sort_by_key(|(place, _)| Some(*place) != straggler);
    }
    for ((place, rank), area) in listed.into_iter().zip(bars::places(inner, count)) {
        row(buf, area, place, rank, straggler == Some(place), frame, scene);
    }
}

fn row(
    buf: &mut Buffer,
    area: Rect,
    place: usize,
    rank: &RankRates,
    is_late: bool,
    frame: &Frame,
    scene: &Scene<'_>,
) {
    let theme = scene.theme;
    // The verdict's window, as on the card; before the first verdict this moment.
    let told = scene.verdict().and_then(|verdict| verdict.ranks.iter().find(|known| known.pid == rank.id.pid));
    let told = scene.verdict().zip(told).map(|(verdict, told)| ranks::loop_parts(told, verdict));
    let now = || Some((rank.split_s.shares_of(rank.seconds_seen)?, Vec::new()));
    let parts = told.or_else(now).map_or_else(Vec::new, |(shares, waits)| loop_parts::parts(&shares, &waits));
    let looks: Vec<_> = parts.iter().map(|(part, share)| (Look::of_part(*part, scene.verdict()), *share)).collect();
    let style = looks.first().map_or_else(|| theme.dim(), |(look, _)| theme.style(*look));
    let most = parts.first().map_or_else(
        || format::UNMEASURED.to_owned(),
        |(part, share)| format!("{} {}", part.short(), format::share(Some(*share))),
    );
    let mut text = vec![Span::styled(most, style)];
    let devices: Vec<_> = frame.gpus.iter().filter(|gpu| gpu.job_pids.contains(&rank.id.pid)).collect();
    if let Some((first, others)) = devices.split_first() {
        // Of several GPUs, the idlest is shown: a mean would hide it.
        let least = devices.iter().filter_map(|gpu| gpu.utilization_pct).reduce(f64::min);
        let more = if others.is_empty() { String::new() } else { format!("+{}", others.len()) };
        let text_of = format!(" · GPU {}{more} at {}", first.index, whole_percent(least));
        text.push(Span::styled(text_of, theme.dim()));
    }
    let mark = if is_late { "!" } else { "" };
    let of_number = if is_late { theme.alarm() } else { theme.dim() };
    bars::ProcessBar {
        pid: rank.id.pid,
        number: Span::styled(format!("{:>3}{mark:1} {:>7}", rank.number(place), rank.id.pid), of_number),
        parts: &looks,
        recent: Recent::Lost,
        style,
        text: Line::from(text),
    }
    .draw(buf, area, scene);
}

/// The index of the rank that the others wait for.
fn straggler(frame: &Frame, scene: &Scene<'_>) -> Option<usize> {
    let straggler = scene.verdict()?.ranks.iter().find(|rank| rank.straggler)?;
    frame.ranks.iter().position(|rank| rank.id.pid == straggler.pid)
}
