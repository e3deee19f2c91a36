//! What the gap under the cursor is, in two sentences.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::gpus::look;
use crate::outputs::profile_sections::length;
use crate::profiles::drawn::{DrawnGap, DrawnStep, SliceKind};
use crate::text::sanitise;
use crate::tui::theme::Theme;

/// Smaller parts of a gap are not told.
const TOLD: f64 = 0.05;

/// Its two lines: why it is idle, and what ended it.
pub fn lines(gap: &DrawnGap, step: &DrawnStep, theme: Theme) -> Vec<Line<'static>> {
    let kind = gap.by.first().map_or(SliceKind::Python, |(kind, _)| *kind);
    let look = look(kind);
    let head = match gap.gpu {
        Some(gpu) => format!("GPU {gpu} idle {}", length(gap.ms)),
        None => format!("the loop waits {}", length(gap.ms)),
    };
    let first = Line::from(vec![
        Span::styled(format!("{} ", theme.glyph(look)), theme.style(look)),
        Span::styled(head, theme.style(look).patch(theme.strong())),
        Span::styled(format!(": {}", reason(gap, kind)), Style::new()),
    ]);
    let mut lines = vec![first];
    lines.extend(end(gap, step).map(|text| Line::styled(text, Style::new())));
    lines
}

/// What the host does meanwhile.
fn reason(gap: &DrawnGap, main: SliceKind) -> String {
    let does = match (main, gap.gpu) {
        (SliceKind::Data, Some(_)) => "the loop waits for data",
        (SliceKind::Data, None) => "for data",
        (SliceKind::Sync, Some(_)) => "a call waits for the GPU",
        (SliceKind::Sync, None) => "for the GPU",
        (SliceKind::Launch, _) => "the host is in a call of the GPU's runtime",
        (SliceKind::Operator, _) if gap.host == "in no operator" => "the host is in no operator",
        (SliceKind::Operator, _) => "the host is in an operator",
        _ if gap.host.is_empty() => "nothing is recorded of the host",
        _ => "the host is in Python",
    };
    let mut text = does.to_owned();
    if !gap.host.is_empty() && gap.host != "in no operator" {
        text += &format!(", {}", sanitise(&gap.host));
    }
    let others = gap.by.iter().skip(1).filter(|(_, ms)| *ms >= TOLD * gap.ms);
    let others: Vec<_> = others.map(|(kind, ms)| format!("{} {}", kind.words(), length(*ms))).collect();
    if !others.is_empty() {
        text += &format!(" · also {}", others.join(", "));
    }
    text
}

/// What ends it: the kernel, and the call that launched it.
fn end(gap: &DrawnGap, step: &DrawnStep) -> Option<String> {
    if gap.goes_on {
        return Some("goes on after the end of the step".to_owned());
    }
    let work = gap.work.as_ref()?;
    let mut text = format!("ended by {} on {}", sanitise(&work.name), sanitise(&work.place));
    if let Some(call) = &gap.call {
        let before = length((work.begin - call.begin).max(0.0) * step.length_ms);
        text += &format!(", launched {before} before by {} in {}", sanitise(&call.name), sanitise(&call.place));
    }
    Some(text)
}
