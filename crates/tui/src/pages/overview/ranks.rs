//! One bar for each rank of a distributed run: where its training loop's time goes, and its GPU.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::charts;
use crate::labels::whole_percent;
use crate::theme::{Theme, WithLook};
use crate::widgets::panel::Panel;
use crate::widgets::{Scene, bars};
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;

/// Width of rank and PID before a bar, and of the numbers after it.
const BEFORE: u16 = 11;
const BEHIND: u16 = 15;

/// Draws a heading and as many ranks as fit.
pub fn draw(buf: &mut Buffer, area: Rect, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (count, room) = (frame.ranks.len(), bars::room(area, buf.area));
    let straggler = straggler(frame, scene);
    let late = straggler.and_then(|place| Some(frame.ranks.get(place)?.number(place)));
    let mut panel = Panel::new(format!("{count} ranks"), theme.strong());
    panel.value.extend(late.map(|rank| (format!("the others wait for rank {rank}"), theme.warning())));
    if count > room {
        panel = panel.with(format!("{room} shown"), theme.dim());
    }
    let inner = panel.with("colors as above · waiting for data · GPU use", theme.dim()).draw(buf, area, theme);
    for ((place, rank), area) in frame.ranks.iter().enumerate().zip(bars::places(inner)) {
        let number = rank.number(place);
        let number = if straggler == Some(place) {
            Span::styled(format!("{number:>2}!"), theme.warning())
        } else {
            Span::styled(format!("{number:>2} "), theme.dim())
        };
        line(area.width, number, rank, frame, theme).render(area, buf);
    }
}

fn line(width: u16, number: Span<'static>, rank: &RankRates, frame: &Frame, theme: Theme) -> Line<'static> {
    let pid = Span::styled(format!("{:>7} ", rank.id.pid), theme.dim());
    let parts: Vec<_> = rank.split_s.iter().map(|(activity, s)| (activity.look(), s)).collect();
    let wait = rank.split_s.shares_of(rank.seconds_seen).map(|shares| shares.input_wait * 100.0);
    let devices: Vec<_> = frame.gpus.iter().filter(|gpu| gpu.job_pids.contains(&rank.id.pid)).collect();
    let text = match devices.split_first() {
        Some((first, others)) => {
            // Of several GPUs, the idlest is shown: a mean would hide it.
            let least = devices.iter().filter_map(|gpu| gpu.utilization_pct).reduce(f64::min);
            let more = if others.is_empty() { String::new() } else { format!("+{}", others.len()) };
            format!(" {:>4} G{}{more} {}", whole_percent(wait), first.index, whole_percent(least))
        }
        None => format!(" {:>4} wait", whole_percent(wait)),
    };
    let bar = charts::split(width.saturating_sub(BEFORE + BEHIND), &parts, theme);
    Line::from_iter([number, pid].into_iter().chain(bar).chain([Span::styled(text, theme.dim())]))
}

/// The index of the rank that the others wait for.
fn straggler(frame: &Frame, scene: &Scene<'_>) -> Option<usize> {
    let straggler = scene.verdict()?.ranks.iter().find(|rank| rank.straggler)?;
    frame.ranks.iter().position(|rank| rank.id.pid == straggler.pid)
}
