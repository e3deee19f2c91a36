//! What a profile looks like: the parts of a GPU's time as one bar, and one step with its threads and streams on one time axis.
//!
//! Positions are percentages, so that the drawing fits any screen while its letters keep their shape.

use std::fmt::Write;

use super::{escaped, percent};
use trainmon_profiles::drawn::{DrawnLane, DrawnSlice, DrawnStep, SliceKind};
use trainmon_views::profile_sections::length;

/// The drawing's own units, from its begin to its end and from a lane's top to its bottom.
const ACROSS: f64 = 10_000.0;
const DOWN: f64 = 100.0;
/// Wider slices have their name inside, and those that are still wide enough to point at have it as a hint.
const NAME_INSIDE: f64 = 0.03;
const NAME_AS_HINT: f64 = 0.002;
/// Lower slices have no room for a name.
const MOSTLY_FILLED: f64 = 0.8;
/// The lowest height of a slice that stands for several with gaps between them.
const LOWEST: f64 = 0.12;
/// Longest name inside a slice, and as a hint, characters.
const NAME: usize = 60;
const NAME_IN_HINT: usize = 200;

/// Shares of a whole as one bar, with its key.
pub(super) fn stacked(out: &mut String, parts: &[(SliceKind, &str, f64)]) {
    out.push_str("<div class=\"parts\" aria-hidden=\"true\">");
    for (kind, words, share) in parts {
        let share = within(*share) * 100.0;
        let _ =
            write!(out, "<i class=\"{}\" style=\"width:{share:.2}%\" title=\"{}\"></i>", kind.word(), escaped(words));
    }
    out.push_str("</div>\n<ul class=\"keys\">");
    for (kind, words, share) in parts {
        let (kind, words) = (kind.word(), escaped(words));
        let _ = write!(out, "<li class=\"key {kind}\"><i></i>{words} {}%</li>", percent(within(*share)));
    }
    out.push_str("</ul>\n");
}

/// A share as far as it is one.
fn within(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// One step.
pub(super) fn draw(out: &mut String, drawn: &DrawnStep) {
    let title = match drawn.step {
        Some((_, 1)) => "The step".to_owned(),
        Some((number, of)) => format!("Step {number} of {of}"),
        None => "The whole window".to_owned(),
    };
    let took = length(drawn.length_ms);
    let _ = write!(
        out,
        "<section aria-labelledby=\"drawn\">\n<h2 id=\"drawn\">{title}, {took}</h2>\n<ul class=\"keys\">"
    );
    let is_there =
        |kind: &SliceKind| drawn.lanes.iter().any(|lane| lane.slices.iter().any(|slice| slice.kind == *kind));
    for kind in SliceKind::ALL.into_iter().filter(is_there) {
        let _ = write!(out, "<li class=\"key {}\"><i></i>{}</li>", kind.word(), kind.words());
    }
    out.push_str("</ul>\n<div class=\"lanes\">\n");
    drawn.lanes.iter().for_each(|lane| self::lane(out, lane));
    let marks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| format!("<span>{}</span>", length(drawn.length_ms * share)));
    let _ = writeln!(out, "<p></p><p class=\"ends\">{}</p>\n</div>", marks.concat());
    out.push_str(
        "<p>While a GPU is idle, its last lane shows what the host does. A low slice is several short ones with gaps between them: \
         its height is the share that they fill.</p>\n",
    );
    if drawn.left_out > 0 {
        let _ = writeln!(out, "<p>{} more threads and streams are not drawn.</p>", drawn.left_out);
    }
    out.push_str("</section>\n");
}

/// A lane: all slices as a path for each kind, and over them those with a name.
fn lane(out: &mut String, lane: &DrawnLane) {
    let name = escaped(&lane.name);
    let _ = write!(
        out,
        "<p>{name}</p>\n<svg role=\"img\" aria-label=\"{name}\"><svg viewBox=\"0 0 {ACROSS} {DOWN}\" \
         preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">"
    );
    for kind in SliceKind::ALL {
        let slices = lane.slices.iter().filter(|slice| slice.kind == kind);
        let path: String = slices.map(path).collect();
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{}\" d=\"{path}\"/>", kind.word());
        }
    }
    out.push_str("</svg>");
    lane.slices.iter().for_each(|slice| self::name(out, slice));
    out.push_str("</svg>\n");
}

/// Its outline, in the drawing's units: at least one of them wide.
fn path(slice: &DrawnSlice) -> String {
    let [begin, end] = [slice.begin, slice.end].map(|at| (within(at) * ACROSS).round());
    let high = (within(slice.filled).max(LOWEST) * DOWN).round();
    let width = (end - begin).max(1.0);
    format!("M{begin} {DOWN}v-{high}h{width}v{high}z")
}

/// The name of a slice that is wide enough.
fn name(out: &mut String, slice: &DrawnSlice) {
    let width = within(slice.end) - within(slice.begin);
    if slice.name.is_empty() || width < NAME_AS_HINT {
        return;
    }
    let others = if slice.count > 1 { format!(" and {} more", slice.count - 1) } else { String::new() };
    let cut = |most: usize| escaped(&trainmon_base::text::fit(&slice.name, most));
    let (left, wide) = (within(slice.begin) * 100.0, width * 100.0);
    let kind = slice.kind.words();
    let is_inside = width >= NAME_INSIDE && slice.filled > MOSTLY_FILLED;
    let edge = if is_inside { " class=\"edge\"" } else { "" };
    let _ = write!(
        out,
        "<svg x=\"{left:.2}%\" width=\"{wide:.2}%\"><title>{}{others} · {kind}</title>\
         <rect{edge} width=\"100%\" height=\"100%\"/>",
        cut(NAME_IN_HINT)
    );
    if is_inside {
        let _ = write!(out, "<text x=\"3\" y=\"50%\">{}</text>", cut(NAME));
    }
    out.push_str("</svg>");
}
