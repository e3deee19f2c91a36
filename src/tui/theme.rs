//! Colours and glyphs. Colour only ever repeats what a letter, a word or a texture already says.
//!
//! What the colours are is the [`Palette`]'s business, how many of them the terminal has [`Depth`]'s. Without colour
//! (`NO_COLOR`, `--no-color`) modifiers stay; `--ascii` draws with ASCII alone.

mod colour;
mod detect;
mod palette;
#[cfg(test)]
mod sight;

use ratatui::style::{Color, Modifier, Style};

pub use colour::Rgb;
pub use detect::in_screen;
pub use palette::{Palette, Slot, ThemeError};

use crate::diagnosis::verdict::Class;

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

/// What the main thread's time went into, in the order it is stacked from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Waiting for a batch.
    Wait,
    /// Waiting for the device.
    Sync,
    /// Working on the host.
    Host,
    /// Saving state.
    Checkpoint,
    /// Anything else.
    Other,
}

impl Part {
    /// All parts, from the bottom of the stack up.
    pub const ALL: [Self; 5] = [Self::Wait, Self::Sync, Self::Host, Self::Checkpoint, Self::Other];

    /// The word of the legend.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait for batch",
            Self::Sync => "wait for GPU",
            Self::Host => "host work",
            Self::Checkpoint => "saving",
            Self::Other => "other",
        }
    }
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
        match self {
            Self::Busy => "busy",
            Self::Io => "io",
            Self::Queue => "queue",
            Self::Idle => "idle",
        }
    }
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

    /// Some colours are used.
    fn has_colour(self) -> bool {
        self.depth != Depth::None
    }

    /// A slot as a foreground colour, or nothing without colours.
    fn fg(self, slot: Slot) -> Style {
        if self.has_colour() { Style::new().fg(self.colour(slot)) } else { Style::new() }
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
        if self.has_colour() { self.fg(Slot::Dim) } else { Style::new().add_modifier(Modifier::DIM) }
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

    /// Colour of a class.
    fn class_slot(class: Class) -> Slot {
        match class {
            Class::DataLoader => Slot::Orange,
            Class::Io => Slot::Sky,
            Class::Cpu => Slot::Purple,
            Class::Gpu => Slot::Green,
            Class::Balanced => Slot::Blue,
            Class::Idle => Slot::Grey,
            Class::Unknown => Slot::Yellow,
        }
    }

    /// The badge with a verdict's class.
    #[must_use]
    pub fn badge(self, class: Class) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if !self.has_colour() {
            return bold.add_modifier(Modifier::REVERSED);
        }
        let shade = self.palette.shade(Self::class_slot(class));
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

    /// Colour of a part of the main thread's time.
    #[must_use]
    pub fn part(self, part: Part) -> Style {
        self.fg(match part {
            Part::Wait => Slot::Orange,
            Part::Sync => Slot::Green,
            Part::Host => Slot::Purple,
            Part::Checkpoint => Slot::Sky,
            Part::Other => Slot::Grey,
        })
    }

    /// Texture of a part of the main thread's time: told apart without any colour.
    #[must_use]
    pub fn part_glyph(self, part: Part) -> char {
        match (part, self.ascii) {
            (Part::Wait, false) => '█',
            (Part::Sync, false) => '▒',
            (Part::Host, false) => '░',
            (Part::Checkpoint, false) => '╳',
            (Part::Other, false) => '·',
            (Part::Wait, true) => 'W',
            (Part::Sync, true) => 'S',
            (Part::Host, true) => 'H',
            (Part::Checkpoint, true) => 'C',
            (Part::Other, true) => '.',
        }
    }

    /// Colour of a worker's stage.
    #[must_use]
    pub fn stage(self, stage: Stage) -> Style {
        self.fg(match stage {
            Stage::Busy => Slot::Orange,
            Stage::Io => Slot::Sky,
            Stage::Queue => Slot::Vermillion,
            Stage::Idle => Slot::Grey,
        })
    }

    /// Texture of a worker's stage.
    #[must_use]
    pub fn stage_glyph(self, stage: Stage) -> char {
        match (stage, self.ascii) {
            (Stage::Busy, false) => '█',
            (Stage::Io, false) => '▒',
            (Stage::Queue, false) => '╳',
            (Stage::Idle, false) => '·',
            (Stage::Busy, true) => 'B',
            (Stage::Io, true) => 'i',
            (Stage::Queue, true) => 'q',
            (Stage::Idle, true) => '.',
        }
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
        '≤' => '<',
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
        for style in styles.into_iter().chain(badges).chain(Part::ALL.map(|part| theme.part(part))) {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
