//! Colours and glyphs. Colour only ever repeats what a letter, a word or a texture already says.
//!
//! The palette is Okabe and Ito's (2008), made for every common kind of colour blindness, in the nearest entries of
//! xterm's 256 colours. Without colour (`NO_COLOR`, `--no-color`) modifiers stay; `--ascii` draws with ASCII alone.

use ratatui::style::{Color, Modifier, Style};

use crate::diagnosis::verdict::Class;

/// Okabe-Ito in xterm-256.
const ORANGE: Color = Color::Indexed(178);
const SKY: Color = Color::Indexed(74);
const GREEN: Color = Color::Indexed(35);
const YELLOW: Color = Color::Indexed(221);
const BLUE: Color = Color::Indexed(25);
const VERMILLION: Color = Color::Indexed(166);
const PURPLE: Color = Color::Indexed(175);
/// Grey that is readable on black and on white.
const GREY: Color = Color::Indexed(245);

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Use colours.
    pub colour: bool,
    /// Draw with ASCII alone.
    pub ascii: bool,
}

impl Default for Theme {
    fn default() -> Self {
        Self { colour: true, ascii: false }
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
    /// The theme that flags and environment ask for: colours off by `NO_COLOR` (any value, no-color.org), `--no-color`
    /// or `TERM=dumb`; ASCII by `--ascii`, by a locale that is not UTF-8, and on the Linux console, whose fonts have
    /// no braille.
    pub fn detect(no_color: bool, ascii: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty());
        let term = set("TERM").unwrap_or_default();
        // The first of the three that is set decides (locale(7)).
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        Self {
            colour: !(no_color || set("NO_COLOR").is_some() || term == "dumb"),
            ascii: ascii || !utf8 || term == "linux" || term == "dumb",
        }
    }

    /// A foreground colour, or nothing without colours.
    fn fg(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Text that matters less.
    #[must_use]
    pub fn dim(self) -> Style {
        if self.colour { Style::new().fg(GREY) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// Text that matters.
    #[must_use]
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Title bar, footer keys.
    #[must_use]
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The row that is selected.
    #[must_use]
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What to do. Vermillion is readable on black and on white.
    #[must_use]
    pub fn advice(self) -> Style {
        self.fg(VERMILLION).add_modifier(Modifier::BOLD)
    }

    /// Something is wrong with a source, or a notice.
    #[must_use]
    pub fn warning(self) -> Style {
        self.fg(VERMILLION).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// The heading of the process table.
    #[must_use]
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }

    /// Colour of a class.
    fn class_colour(class: Class) -> Color {
        match class {
            Class::DataLoader => ORANGE,
            Class::Io => SKY,
            Class::Cpu => PURPLE,
            Class::Gpu => GREEN,
            Class::Balanced => BLUE,
            Class::Idle => GREY,
            Class::Unknown => YELLOW,
        }
    }

    /// The badge with a verdict's class.
    #[must_use]
    pub fn badge(self, class: Class) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if !self.colour {
            return bold.add_modifier(Modifier::REVERSED);
        }
        // Black on everything but blue: at least 4.5:1 in xterm's palette.
        let text = if class == Class::Balanced { Color::Indexed(231) } else { Color::Indexed(16) };
        bold.fg(text).bg(Self::class_colour(class))
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
            Series::Gpu => GREEN,
            Series::Cpu => PURPLE,
            Series::Io => SKY,
            Series::Loader => ORANGE,
        })
    }

    /// Colour of a part of the main thread's time.
    #[must_use]
    pub fn part(self, part: Part) -> Style {
        self.fg(match part {
            Part::Wait => ORANGE,
            Part::Sync => GREEN,
            Part::Host => PURPLE,
            Part::Checkpoint => SKY,
            Part::Other => GREY,
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
            Stage::Busy => ORANGE,
            Stage::Io => SKY,
            Stage::Queue => VERMILLION,
            Stage::Idle => GREY,
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
        '↑' => '^',
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

    fn with(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn flags_and_environment_decide() {
        let utf8 = Theme::detect(false, false, with(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm-256color")]));
        assert_eq!(utf8, Theme { colour: true, ascii: false });
        let c = Theme::detect(false, false, with(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(c.ascii);
        let console = Theme::detect(false, false, with(&[("LANG", "C.utf8"), ("TERM", "linux")]));
        assert!(console.ascii && console.colour);
        let plain = Theme::detect(false, false, with(&[("LANG", "C.utf8"), ("NO_COLOR", "1")]));
        assert_eq!(plain, Theme { colour: false, ascii: false });
        assert!(!Theme::detect(true, false, with(&[])).colour);
    }

    #[test]
    fn parts_and_stages_differ_without_colour() {
        for ascii in [false, true] {
            let theme = Theme { colour: false, ascii };
            let mut parts = Part::ALL.map(|p| theme.part_glyph(p)).to_vec();
            parts.sort_unstable();
            parts.dedup();
            assert_eq!(parts.len(), 5);
            let mut stages = Stage::ALL.map(|s| theme.stage_glyph(s)).to_vec();
            stages.sort_unstable();
            stages.dedup();
            assert_eq!(stages.len(), 4);
        }
    }
}
