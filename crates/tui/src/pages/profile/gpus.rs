//! What each GPU did in the window of a profile: one bar of parts for each, with words below.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::charts;
use crate::theme::{ColorSlot, Look, Theme};
use crate::widgets::table;
use crate::widgets::{Piece, cells, count, piece_lines};
use trainmon_base::text::{fit, sanitize};
use trainmon_profiles::account::ProfileAccount;
use trainmon_profiles::drawn::SliceKind;
use trainmon_views::profile_sections::{self, ProfilePart};
use trainmon_views::section::whole;

/// Longest name of a GPU.
const NAME: usize = 26;
/// Blanks before the words of a bar, and between two of them.
const INDENT_OF_PARTS: u16 = 2;
const BETWEEN_PARTS: &str = "  ";
/// More GPUs share one line of words.
const EACH_IN_WORDS: usize = 2;

/// How a part of a GPU's or of the loop's time is drawn: cool where the GPU works, warm where it is idle.
pub fn look(kind: SliceKind) -> Look {
    let (slot, glyph, letter) = match kind {
        SliceKind::Compute => (ColorSlot::Green, '█', '#'),
        SliceKind::Collective => (ColorSlot::Blue, '▓', 'N'),
        SliceKind::Copy => (ColorSlot::Sky, '▒', 'C'),
        SliceKind::Data => (ColorSlot::Orange, '╳', 'D'),
        SliceKind::Sync => (ColorSlot::Vermillion, '░', 'G'),
        SliceKind::Launch => (ColorSlot::Purple, '≡', 'L'),
        SliceKind::Operator => (ColorSlot::Purple, '▚', 'O'),
        SliceKind::Python => (ColorSlot::Yellow, '·', 'P'),
        SliceKind::Annotation => (ColorSlot::Grey, '–', '-'),
    };
    Look::new(kind.words(), slot, glyph, letter)
}

/// A bar with what it is of.
struct PartBar {
    name: String,
    /// What is on its left and its right.
    ends: [Piece; 2],
    parts: Vec<ProfilePart>,
}

/// The bars of a profile.
pub struct PartBars {
    bars: Vec<PartBar>,
    /// GPUs that there is no room for.
    more: usize,
    theme: Theme,
}

impl PartBars {
    /// A bar for each GPU, at most so many; without a GPU, one for the loop.
    pub fn new(account: &ProfileAccount, most: usize, theme: Theme) -> Self {
        let of_gpu = |device: &trainmon_profiles::account::GpuAccount| {
            let name = device.name.as_deref().map(|name| sanitize(name.trim_start_matches("NVIDIA ")).into_owned());
            let idle = if device.idle() >= 0.1 { theme.alarm() } else { theme.dim() };
            PartBar {
                name: fit(&format!("GPU {} {}", device.index, name.unwrap_or_default()), NAME).trim_end().to_owned(),
                ends: [
                    (format!("{:>4} busy", whole(device.busy)), theme.good()),
                    (format!("{:>4} idle", whole(device.idle())), idle),
                ],
                parts: profile_sections::gpu_parts(device),
            }
        };
        let mut bars: Vec<_> = account.devices.iter().take(most).map(of_gpu).collect();
        let more = account.devices.len() - bars.len();
        if bars.is_empty()
            && let Some(of_loop) = account.of_loop.as_ref()
        {
            let none = || (String::new(), Style::new());
            let parts = profile_sections::loop_parts(of_loop);
            bars.push(PartBar { name: "training loop".to_owned(), ends: [none(), none()], parts });
        }
        Self { bars, more, theme }
    }

    /// The words of a bar: `█ computing 55%`.
    fn words(&self, parts: &[ProfilePart], with_shares: bool) -> Vec<Piece> {
        let word = |(kind, words, share): &ProfilePart| {
            let look = look(*kind);
            let share = if with_shares { format!(" {}", whole(*share)) } else { String::new() };
            (format!("{} {words}{share}", self.theme.glyph(look)), self.theme.style(look))
        };
        parts.iter().map(word).collect()
    }

    /// Lines of words, each group after as many bars.
    fn groups(&self) -> Vec<(usize, Vec<Piece>)> {
        if self.bars.len() <= EACH_IN_WORDS {
            return self.bars.iter().map(|bar| (1, self.words(&bar.parts, true))).collect();
        }
        let mut all: Vec<ProfilePart> = Vec::new();
        for part in self.bars.iter().flat_map(|bar| &bar.parts) {
            if all.iter().all(|(kind, words, _)| (*kind, *words) != (part.0, part.1)) {
                all.push(*part);
            }
        }
        all.sort_by_key(|(kind, ..)| SliceKind::ALL.iter().position(|known| known == kind));
        let mut words = self.words(&all, false);
        if self.more > 0 {
            words.push((format!("and {} more GPUs", self.more), self.theme.dim()));
        }
        vec![(self.bars.len(), words)]
    }

    /// The bars, each group with its words below, in lines of `width` cells.
    pub fn lines(&self, width: u16) -> Vec<Line<'static>> {
        let named = self.bars.iter().map(|bar| cells(&bar.name)).max().unwrap_or(0);
        let mut bars = self.bars.iter();
        let mut lines = Vec::new();
        for (count, words) in self.groups() {
            lines.extend(bars.by_ref().take(count).map(|bar| self.bar(width, bar, named)));
            let words = piece_lines(width.saturating_sub(INDENT_OF_PARTS), BETWEEN_PARTS, &words);
            lines.extend(words.into_iter().map(|mut line| {
                line.spans.insert(0, Span::raw(" ".repeat(usize::from(INDENT_OF_PARTS))));
                line
            }));
        }
        lines
    }

    fn bar(&self, width: u16, bar: &PartBar, named: u16) -> Line<'static> {
        let [(left, good), (right, bad)] = &bar.ends;
        let right = if right.is_empty() { String::new() } else { format!(" {right}") };
        let name = Span::styled(table::set(&bar.name, -(named as i16 + 1)), self.theme.strong());
        let left = Span::styled(format!("{left} "), *good);
        let room = width.saturating_sub(named + 1 + count(left.width()) + cells(&right));
        let parts: Vec<_> = bar.parts.iter().map(|(kind, _, share)| (look(*kind), *share)).collect();
        let bar = charts::split(room, &parts, self.theme);
        Line::from_iter([name, left].into_iter().chain(bar).chain([Span::styled(right, *bad)]))
    }
}
