//! The page of the wait chain: what the loop waits for, and what that waits for, as a tree with shares; and where the
//! loop's time went.
//!
//! ```text
//! │ the chain in one line                                     │
//! │ the tree: share, bar, who or what, and where in its code  │
//! │ where each step's time went                               │
//! └───────────────────────────────────────────────────────────┘
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Content;
use super::overview::the_loop;
use crate::format;
use crate::theme::Theme;
use crate::widgets::{Drawn, Scene, Text, bars, count, scrolled};
use trainmon_base::text::fit;
use trainmon_diagnosis::diagnosis::chain::waits_for;
use trainmon_diagnosis::diagnosis::verdict::{ChainNode, Class, Verdict};
use trainmon_views::chain::{ChainRow, line, rows};
use trainmon_waits::taxonomy::End;

/// Maximum height of the loop's time.
const CHART_ROWS: u16 = 24;
/// Seconds of waits below which there is no chain.
const CHAIN_AFTER_S: f64 = 2.0;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain;

impl Content for Chain {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let nodes = scene.verdict().map_or(&[][..], |verdict| &verdict.chain);
        let mut text = head(area.width, scene).lines;
        text.extend(rows(nodes).iter().map(|row| tree_line(row, area.width, scene.theme)));
        text.push(Line::default());
        let used = count(text.len());
        scrolled(buf, area, top, drawn, |page| {
            page.lines(&text);
            if scene.frame().is_some() {
                page.tiles(&[the_loop(scene, area.width)], area.height.saturating_sub(used), CHART_ROWS, scene);
            }
        });
    }
}

/// The text above the tree: the chain in one line, or the reason why there is no chain.
fn head(width: u16, scene: &Scene<'_>) -> Text {
    let mut text = Text::new(width, scene.theme);
    let told = scene.verdict().and_then(|verdict| line(verdict, usize::from(width)));
    let Some(told) = told else {
        text.wrapped("", 0, &why_none(scene), Style::new());
        return text;
    };
    text.heading(&told);
    if scene.verdict().is_some_and(|verdict| waits_for(&verdict.chain).is_none()) {
        text.wrapped("", 0, "The loop waits for nothing long.", Style::new());
    }
    text.line("", Style::new());
    text.table_heading(&format!("{:>6}  of the loop's time: what it waits for, and what that waits for", ""));
    text
}

/// Why there is no chain.
fn why_none(scene: &Scene<'_>) -> String {
    let Some(Verdict { observed_s, .. }) = scene.verdict().filter(|verdict| verdict.observed_s >= CHAIN_AFTER_S)
    else {
        return "No wait chain yet: it takes two seconds.".to_owned();
    };
    let ranks = scene.frame().map_or(&[][..], |frame| &frame.ranks);
    let is_older = !ranks.is_empty() && ranks.iter().all(|rank| rank.chain.is_none());
    if scene.job.replay.is_some() && is_older {
        return "This recording is older than the wait chain: it has none.".to_owned();
    }
    let seconds = format::duration(*observed_s);
    format!("No wait chain: in {seconds} trainmon found no training loop in this job whose waits it could follow.")
}

/// A row of the tree: what is waited for, on the left if it is short, and its place in the code after it.
fn tree_line(row: &ChainRow<'_>, width: u16, theme: Theme) -> Line<'static> {
    let bar = match width {
        0..100 => 6,
        100..140 => 10,
        _ => 24,
    };
    let share = row.node.share;
    let mut line = Line::from(format!("{:>6} ", format::share(Some(share))));
    line.extend(bars::share(bar, share, style(row.node, theme), ("·", theme.dim())));
    line.push_span(Span::styled(format!(" {}", row.branch), theme.dim()));
    let room = usize::from(width).saturating_sub(line.width());
    let of = if row.node.is_end() { theme.strong() } else { Style::new() };
    line.push_span(Span::styled(fit(&row.text, room), of));
    line
}

/// The color of whatever ends a wait: the color of its resource.
fn style(node: &ChainNode, theme: Theme) -> Style {
    theme.series(match node.end {
        Some(End::Gpu) => Class::Gpu,
        Some(End::Net | End::Disk | End::Flush | End::Memory) => Class::Io,
        Some(End::Cpu) => Class::Cpu,
        _ => Class::DataLoader,
    })
}
