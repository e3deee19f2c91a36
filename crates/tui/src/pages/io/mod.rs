//! The page of storage and network: what the job reads and how much of it comes from storage, each disk, the mounts
//! that hold its data, the interfaces, and all of it over time.
//!
//! ```text
//! │ facts: page cache against storage, faults, memory, limits, pressure │
//! │ disks: those with the job's data first; idle ones in a count        │
//! │ mounts with data of the job, with some of the files                 │
//! │ network: one line                                                   │
//! │ timelines: job, disks, network, and the time axis                   │
//! └─────────────────────────────────────────────────────────────────────┘
//! ```

mod disks;
mod facts;
mod mounts;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Content;
use crate::widgets::{ChartLine, Drawn, Scene, Text, Top, count, scrolled};
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_waits::Frame;

/// Each with the text to show if there is nothing to draw.
const TIMELINES: [(ChartLine, &str); 4] = [
    (ChartLine(Class::Io, "Job reads from storage", |p| p.io.get(), Top::Bytes), "cannot read the job's reads"),
    (ChartLine(Class::Io, "Disk read", |p| p.disk_read.get(), Top::Bytes), NO_DISK),
    (ChartLine(Class::Io, "Disk busy", |p| p.disk_util.get(), Top::Percent), NO_DISK),
    (ChartLine(Class::Io, "Network in", |p| p.net_rx.get(), Top::Bytes), "no network interface found"),
];
const NO_DISK: &str = "no disk found";
/// Rows of the smallest version: one row of each, and the time axis.
const LEAST_ROWS: u16 = 2 * TIMELINES.len() as u16 + 1;
/// Maximum height of a timeline, on a page with fewer rows than [`TALL`] and on others: disks flicker, and every row
/// costs bytes.
const HIGHEST_CHART: [u16; 2] = [4, 8];
/// Rows of a tall page.
const TALL: u16 = 45;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Io;

impl Content for Io {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let text = match scene.frame() {
            Some(frame) => numbers(frame, scene, area),
            None => {
                let mut text = Text::new(area.width, scene.theme);
                text.line("Waiting for the first sample.", Style::new());
                text
            }
        };
        scrolled(buf, area, top, drawn, |page| {
            page.lines(&text.lines);
            let [low, high] = HIGHEST_CHART;
            let highest = if area.height < TALL { low } else { high };
            page.timelines(&TIMELINES, area.height.saturating_sub(count(text.lines.len())), highest, scene);
        });
    }
}

/// How much is left out if rows are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Detail {
    /// Lists idle disks one by one instead of counting them.
    idle: bool,
    /// Maximum number of files named for each mount.
    examples: usize,
}

/// Everything above the timelines, in as much detail as leaves room for them.
fn numbers(frame: &Frame, scene: &Scene<'_>, area: Rect) -> Text {
    let mut facts = Text::new(area.width, scene.theme);
    facts::add(&mut facts, frame, scene);
    let mut shown = facts.clone();
    for (idle, examples) in [(true, 3), (true, 1), (false, 1), (false, 0)] {
        let (mut text, detail) = (facts.clone(), Detail { idle, examples });
        disks::add(&mut text, frame, scene, detail);
        mounts::add(&mut text, frame, scene, detail);
        facts::network(&mut text, frame);
        shown = text;
        if count(shown.lines.len()) + LEAST_ROWS <= area.height {
            break;
        }
    }
    shown
}

/// A reason without its consequence: reasons of the diagnosis end with one.
fn cause(why: &str) -> &str {
    why.split(", so ").next().unwrap_or(why)
}
