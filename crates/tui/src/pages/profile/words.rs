//! What the gap under the cursor is, in two sentences.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};

use super::gpus::look;
use super::table::shortened;
use crate::theme::Theme;
use crate::widgets::cells;
use trainmon_base::text::{fit, sanitize};
use trainmon_profiles::NO_OPERATOR;
use trainmon_profiles::drawn::{DrawnGap, DrawnStep, SliceKind};
use trainmon_views::profile_sections::length;

/// Smaller parts of a gap are not told.
const LEAST_PART_TOLD: f64 = 0.05;
/// How torch calls a wait for its loader.
const TORCHS_LOADER: &str = "enumerate(DataLoader)";
/// Before the name of what ends a gap.
const ENDED: &str = "ended by ";
/// Fewer cells are too few for the rest of a sentence.
const LEAST_REST: u16 = 10;

/// Writes why it is idle and what ended it: wrapped, or on a row each, which are shortened if they have to be.
pub fn draw(buf: &mut Buffer, area: Rect, gap: &DrawnGap, step: &DrawnStep, wrapped: bool, theme: Theme) {
    let width = if wrapped { u16::MAX } else { area.width };
    let kind = gap.by.first().map_or(SliceKind::Python, |(kind, _)| *kind);
    let look = look(kind);
    let head = match gap.gpu {
        Some(gpu) => format!("{} GPU {gpu} idle {}", theme.glyph(look), length(gap.ms)),
        None => format!("{} the loop waits {}", theme.glyph(look), length(gap.ms)),
    };
    let reason = reason(gap, kind, width.saturating_sub(cells(&head)));
    let head = Span::styled(head, theme.style(look).patch(theme.strong()));
    let mut lines = vec![Line::from(vec![head, Span::raw(reason)])];
    lines.extend(end(gap, step, width).map(Line::raw));
    let text = Paragraph::new(lines);
    if wrapped { text.wrap(Wrap { trim: true }) } else { text }.render(area, buf);
}

/// What the host does meanwhile.
fn reason(gap: &DrawnGap, main: SliceKind, width: u16) -> String {
    let does = match (main, gap.gpu) {
        (SliceKind::Data, Some(_)) => ": the loop waits for data",
        (SliceKind::Data, None) => " for data",
        (SliceKind::Sync, Some(_)) if gap.host.contains("emcpy") || gap.host.contains("emset") => {
            ": the host is in a call that copies"
        }
        (SliceKind::Sync, Some(_)) => ": a call waits for the GPU",
        (SliceKind::Sync, None) => " for the GPU",
        (SliceKind::Launch, _) => ": the host is in a call of the GPU's runtime",
        (SliceKind::Annotation, _) if gap.host.starts_with(NO_OPERATOR) => ": the host is in no operator",
        (SliceKind::Annotation, _) => ": the host is in an annotation and no operator",
        (SliceKind::Operator, _) => ": the host is in an operator",
        _ if gap.host.is_empty() => ": nothing is recorded of the host",
        _ => ": the host is in Python",
    };
    // What waits for data and where is enough.
    let place = [TORCHS_LOADER, NO_OPERATOR].into_iter().find_map(|begin| gap.host.strip_prefix(begin));
    let host = place.map_or(&*gap.host, |place| place.trim_start_matches(", "));
    let others = gap.by.iter().skip(1).filter(|(_, ms)| *ms >= LEAST_PART_TOLD * gap.ms);
    let others: Vec<_> = others.map(|(kind, ms)| format!("{} {}", kind.words(), length(*ms))).collect();
    let mut text = with_rest(does, ", ", host, width);
    if !others.is_empty() {
        text = with_rest(&text, " · also ", &others.join(", "), width);
    }
    text
}

/// What ends it: the kernel, and the call that launched it.
fn end(gap: &DrawnGap, step: &DrawnStep, width: u16) -> Option<String> {
    if gap.goes_on {
        return Some("goes on after the end of the step".to_owned());
    }
    let work = gap.work.as_ref()?;
    let (name, stream) = (sanitize(&work.name), sanitize(&work.place));
    let Some(call) = &gap.call else {
        return Some(fit(&format!("{ENDED}{name} on {stream}"), usize::from(width)));
    };
    let before = length((work.begin - call.begin).max(0.0) * step.length_ms);
    let launched = format!(", launched {before} before by ");
    let full = format!("{ENDED}{name} on {stream}{launched}{} in {}", sanitize(&call.name), sanitize(&call.place));
    if cells(&full) <= width {
        return Some(full);
    }
    // The arrow shows stream and thread.
    let room = width.saturating_sub(cells(ENDED) + cells(&launched));
    let name = fit(&name, usize::from(room.saturating_sub(cells(&call.name)).max(room / 2)));
    Some(with_rest(&format!("{ENDED}{name}"), &launched, &call.name, width))
}

/// A text and what follows it, shortened if there is no room for all of it.
fn with_rest(text: &str, between: &str, rest: &str, width: u16) -> String {
    let room = width.saturating_sub(cells(text) + cells(between));
    if rest.is_empty() || room < LEAST_REST {
        return fit(text, usize::from(width));
    }
    format!("{text}{between}{}", shortened(rest, room))
}
