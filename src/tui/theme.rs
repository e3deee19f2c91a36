//! Colours and glyphs. Colour only ever repeats what a letter, a word or a texture already says.
//!
//! What the colours are is the [`Palette`]'s business, how many of them the terminal has [`Depth`]'s. Without colour
//! (`NO_COLOR`, `--no-color`) modifiers stay; `--ascii` draws with ASCII alone.

mod colour;
#[cfg(test)]
mod contrast;
mod detect;
mod palette;

use ratatui::style::{Color, Modifier, Style};

pub use colour::{ANSI, Rgb};
pub use detect::{in_screen, utf8_locale};
pub use palette::{Palette, Slot};

use crate::diagnosis::verdict::Class;
use crate::rates::time_split::LoopActivity;

/// How many colours the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// None, or none are wanted.
    None,
    /// The 16 that have names and look as the terminal's owner likes.
    Ansi16,
    /// xterm's 256.
    Indexed256,
    /// 24 bits.
    TrueColour,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// How many colours to use.
    pub depth: Depth,
    /// Draw with ASCII alone.
    pub ascii: bool,
    /// Which colours.
    pub palette: Palette,
}

impl Default for Theme {
    fn default() -> Self {
        Self::coloured()
    }
}

/// A line of the timelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// Device utilisation.
    Gpu,
    /// CPU use.
    Cpu,
    /// Storage.
    Io,
    /// Workers.
    Loader,
}

/// What a worker's time went into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// On a CPU.
    Busy,
    /// Waiting for its data.
    Io,
    /// Queueing for a CPU.
    Queue,
    /// Nothing to do.
    Idle,
}

impl Stage {
    /// All stages, from left to right.
    pub const ALL: [Self; 4] = [Self::Busy, Self::Io, Self::Queue, Self::Idle];

    /// The word of the legend.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.look().0
    }

    fn look(self) -> Look {
        match self {
            Self::Busy => ("busy", Slot::Orange, '█', 'B'),
            Self::Io => ("io", Slot::Sky, '▒', 'i'),
            Self::Queue => ("queue", Slot::Vermillion, '╳', 'q'),
            Self::Idle => ("idle", Slot::Grey, '·', '.'),
        }
    }
}

/// How one of several is told from the others: word of the legend, colour, texture, and the texture in ASCII.
type Look = (&'static str, Slot, char, char);

fn activity_look(activity: LoopActivity) -> Look {
    match activity {
        LoopActivity::InputWait => ("wait for batch", Slot::Orange, '█', 'W'),
        LoopActivity::DeviceSync => ("wait for GPU", Slot::Green, '▒', 'S'),
        LoopActivity::HostBusy => ("host work", Slot::Purple, '░', 'H'),
        LoopActivity::Checkpoint => ("saving", Slot::Sky, '╳', 'C'),
        LoopActivity::Other => ("other", Slot::Grey, '·', '.'),
    }
}

/// What the loop does, in the legend's words.
#[must_use]
pub fn activity_word(activity: LoopActivity) -> &'static str {
    activity_look(activity).0
}

impl Theme {
    /// Without colours.
    #[must_use]
    pub const fn plain(ascii: bool) -> Self {
        Self { depth: Depth::None, ascii, palette: Palette::MONOCHROME }
    }

    /// The dark theme in 256 colours, with every glyph.
    #[must_use]
    pub fn coloured() -> Self {
        Self { depth: Depth::Indexed256, ascii: false, palette: Palette::dark() }
    }

    /// What flags and environment ask for: see [`Depth`]; `no_color` and `ascii` are the flags, and the palette fits the
    /// background where the environment tells it.
    pub fn detect(no_color: bool, ascii: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            depth: if no_color { Depth::None } else { detect::depth(&variable) },
            ascii: ascii || detect::ascii(&variable),
            palette: detect::palette(&variable),
        }
    }

    /// A slot as a foreground colour, or nothing without colours.
    fn fg(self, slot: Slot) -> Style {
        if self.depth == Depth::None { Style::new() } else { Style::new().fg(self.colour(slot)) }
    }

    fn colour(self, slot: Slot) -> Color {
        self.palette.shade(slot).at(self.depth)
    }

    /// Text on a ground of its own; the terminal's own colours reversed where 16 or fewer leave no choice.
    fn pair(self, text: Slot, ground: Slot) -> Style {
        match self.depth {
            Depth::None | Depth::Ansi16 => Style::new().add_modifier(Modifier::REVERSED),
            Depth::Indexed256 | Depth::TrueColour => Style::new().fg(self.colour(text)).bg(self.colour(ground)),
        }
    }

    /// Text that matters less.
    #[must_use]
    pub fn dim(self) -> Style {
        if self.depth == Depth::None { Style::new().add_modifier(Modifier::DIM) } else { self.fg(Slot::Dim) }
    }

    /// Text that matters.
    #[must_use]
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Title bar, footer keys.
    #[must_use]
    pub fn bar(self) -> Style {
        self.pair(Slot::BarText, Slot::Bar)
    }

    /// The row that is selected.
    #[must_use]
    pub fn selected(self) -> Style {
        self.pair(Slot::SelectedText, Slot::Selected)
    }

    /// The cursor in the charts.
    #[must_use]
    pub fn cursor(self) -> Style {
        self.fg(Slot::Cursor).add_modifier(Modifier::BOLD)
    }

    /// What to do.
    #[must_use]
    pub fn advice(self) -> Style {
        self.fg(Slot::Advice).add_modifier(Modifier::BOLD)
    }

    /// Something is wrong with a source, or a notice.
    #[must_use]
    pub fn warning(self) -> Style {
        self.fg(Slot::Warning).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// The heading of the process table.
    #[must_use]
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }

    /// The badge with a verdict's class.
    #[must_use]
    pub fn badge(self, class: Class) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.depth == Depth::None {
            return bold.add_modifier(Modifier::REVERSED);
        }
        let shade = self.palette.shade(match class {
            Class::DataLoader => Slot::Orange,
            Class::Io => Slot::Sky,
            Class::Cpu => Slot::Purple,
            Class::Gpu => Slot::Green,
            Class::Balanced => Slot::Blue,
            Class::Idle => Slot::Grey,
            Class::Unknown => Slot::Yellow,
        });
        bold.fg(shade.ink(self.depth)).bg(shade.at(self.depth))
    }

    /// A class's letter on the strip.
    #[must_use]
    pub fn class(self, class: Class) -> Style {
        self.badge(class).remove_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// A timeline.
    #[must_use]
    pub fn series(self, series: Series) -> Style {
        self.fg(match series {
            Series::Gpu => Slot::Green,
            Series::Cpu => Slot::Purple,
            Series::Io => Slot::Sky,
            Series::Loader => Slot::Orange,
        })
    }

    fn texture(self, (.., glyph, ascii): Look) -> char {
        if self.ascii { ascii } else { glyph }
    }

    /// Colour of what the loop does.
    #[must_use]
    pub fn activity(self, activity: LoopActivity) -> Style {
        self.fg(activity_look(activity).1)
    }

    /// Texture of what the loop does: told apart without any colour.
    #[must_use]
    pub fn activity_glyph(self, activity: LoopActivity) -> char {
        self.texture(activity_look(activity))
    }

    /// Colour of a worker's stage.
    #[must_use]
    pub fn stage(self, stage: Stage) -> Style {
        self.fg(stage.look().1)
    }

    /// Texture of a worker's stage.
    #[must_use]
    pub fn stage_glyph(self, stage: Stage) -> char {
        self.texture(stage.look())
    }

    /// What stands where nothing was measured.
    #[must_use]
    pub fn gap_glyph(self) -> char {
        if self.ascii { '-' } else { '–' }
    }
}

/// The ASCII stand-in for a character that this program draws, `?` for anything else.
#[must_use]
pub fn ascii(c: char) -> char {
    match c {
        ' '..='~' => c,
        '–' | '—' | '─' | '╌' | '−' => '-',
        '│' => '|',
        '·' | '•' => '.',
        '×' => 'x',
        '…' => '~',
        '→' | '►' | '▸' => '>',
        '↑' | '▲' => '^',
        '↓' => 'v',
        '≤' | '←' => '<',
        '°' => ' ',
        '█' | '▌' => '#',
        '└' => '`',
        '┴' | '┬' | '┼' | '╭' | '╮' | '╰' | '╯' | '├' | '┤' => '+',
        'µ' => 'u',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_environment() {
        let terminal = |name: &str| match name {
            "TERM" => Some("xterm-256color".to_owned()),
            "LANG" => Some("de_DE.UTF-8".to_owned()),
            _ => None,
        };
        assert_eq!(Theme::detect(false, false, terminal), Theme::coloured());
        assert_eq!(Theme::detect(true, false, terminal).depth, Depth::None);
        assert!(Theme::detect(false, true, terminal).ascii);
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let theme = Theme::plain(false);
        let styles = [theme.dim(), theme.bar(), theme.selected(), theme.cursor(), theme.advice(), theme.warning()];
        let badges = Class::ALL.map(|class| theme.badge(class));
        for style in
            styles.into_iter().chain(badges).chain(LoopActivity::ALL.map(|activity| theme.activity(activity)))
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
