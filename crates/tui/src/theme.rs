//! Colors and glyphs. Color only repeats what a letter, a word or a texture already says.
//!
//! [`Palette`] knows the colors, [`Depth`] how many of them the terminal supports. Without color (`NO_COLOR`,
//! `--no-color`) modifiers stay; `--ascii` draws with ASCII alone.

mod color;
#[cfg(test)]
mod contrast;
mod detect;
mod palette;

use ratatui::style::{Color, Modifier, Style};

pub use color::{ANSI, Rgb};
pub use detect::{in_screen, utf8_locale};
pub use palette::{ColorSlot, Palette};

use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::loop_parts::LoopPart;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_views::stages;
use trainmon_waits::time_split::LoopActivity;

/// How many colors the terminal supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// No colors: unsupported, or switched off.
    None,
    /// The 16 named colors, which the terminal's user can set.
    Ansi16,
    /// xterm's 256.
    Indexed256,
    /// 24 bits.
    TrueColor,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// How many colors to use.
    pub depth: Depth,
    /// Draw with ASCII alone.
    pub ascii: bool,
    /// Which colors.
    pub palette: Palette,
}

impl Default for Theme {
    /// The dark theme in 256 colors, with every glyph.
    fn default() -> Self {
        Self { depth: Depth::Indexed256, ascii: false, palette: Palette::dark() }
    }
}

/// How a kind of thing is told from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Word in the legend.
    pub word: &'static str,
    /// Color.
    pub slot: ColorSlot,
    /// Texture, which works without color.
    pub glyph: char,
    /// Texture in ASCII.
    pub ascii: char,
}

impl Look {
    /// A worker on a CPU.
    pub const BUSY: Self = Self::new("busy", ColorSlot::Orange, '█', 'B');
    /// A worker that waits for its data.
    pub const IO: Self = Self::new("io", ColorSlot::Sky, '▒', 'i');
    /// A worker that queues for a CPU.
    pub const QUEUE: Self = Self::new("queueing", ColorSlot::Vermillion, '╳', 'q');
    /// An idle worker.
    pub const IDLE: Self = Self::new("idle", ColorSlot::Grey, '·', '.');
    /// Where a worker's time goes, from left to right.
    pub const STAGES: [Self; 4] = [Self::BUSY, Self::IO, Self::QUEUE, Self::IDLE];
    /// A wait of the loop that has a name.
    pub const WAIT: Self = Self::new("waiting", ColorSlot::Vermillion, '╱', 'L');

    /// A part of the loop's time, warm if it is lost and cool if it is useful. What the verdict blames has the color of the
    /// verdict.
    pub fn of_part(part: LoopPart, verdict: Option<&Verdict>) -> Self {
        let look = match part {
            LoopPart::Activity(activity) => activity.look(),
            LoopPart::Wait(..) => Self::WAIT,
        };
        match verdict.filter(|verdict| stages::is_blamed(part, verdict)) {
            Some(verdict) => Self { slot: verdict.class.look().slot, ..look },
            None => look,
        }
    }

    /// A percentage that should be low, such as queueing or pressure: green, amber from 10, red from 25.
    pub fn of_pressure(percent: f32) -> Self {
        let slot = match percent {
            25.0.. => ColorSlot::Vermillion,
            10.0.. => ColorSlot::Orange,
            _ => ColorSlot::Green,
        };
        Self::new("", slot, '█', '#')
    }

    /// A look with this word, color, texture, and texture in ASCII.
    pub const fn new(word: &'static str, slot: ColorSlot, glyph: char, ascii: char) -> Self {
        Self { word, slot, glyph, ascii }
    }
}

/// What the engine names and the screen draws.
pub trait WithLook {
    /// How it is drawn, and its word in legends.
    fn look(self) -> Look;
}

impl WithLook for LoopActivity {
    fn look(self) -> Look {
        let (slot, glyph, letter) = match self {
            Self::InputWait => (ColorSlot::Orange, '█', 'D'),
            Self::DeviceSync => (ColorSlot::Blue, '▒', 'G'),
            Self::HostBusy => (ColorSlot::Green, '░', 'W'),
            Self::Checkpoint => (ColorSlot::Sky, '╳', 'S'),
            Self::Other => (ColorSlot::Grey, '▓', 'O'),
        };
        Look::new(self.word(), slot, glyph, letter)
    }
}

impl WithLook for Class {
    /// Its name, and its color on the card, in the pipeline, in charts and in the band of past verdicts.
    fn look(self) -> Look {
        let slot = match self {
            Self::DataLoader => ColorSlot::Orange,
            Self::Io => ColorSlot::Yellow,
            Self::Cpu => ColorSlot::Purple,
            Self::Gpu => ColorSlot::Blue,
            Self::Balanced => ColorSlot::Green,
            Self::Idle => ColorSlot::Grey,
            Self::Unknown => ColorSlot::Sky,
        };
        Look::new(self.name(), slot, '━', '=')
    }
}

impl Theme {
    /// Without colors.
    pub const fn plain(ascii: bool) -> Self {
        Self { depth: Depth::None, ascii, palette: Palette::MONOCHROME }
    }

    /// The theme that flags and environment ask for: see [`Depth`]. `no_color` and `ascii` are the flags; the palette
    /// fits the background if the environment reports it.
    pub fn detect(no_color: bool, ascii: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            depth: if no_color { Depth::None } else { detect::depth(&variable) },
            ascii: ascii || detect::ascii(&variable),
            palette: detect::palette(&variable),
        }
    }

    /// A slot as a foreground color; without colors, only less important text has a style.
    fn fg(self, slot: ColorSlot) -> Style {
        match self.depth {
            Depth::None if matches!(slot, ColorSlot::Dim | ColorSlot::Edge) => {
                Style::new().add_modifier(Modifier::DIM)
            }
            Depth::None => Style::new(),
            _ => Style::new().fg(self.color(slot)),
        }
    }

    fn color(self, slot: ColorSlot) -> Color {
        self.palette.shade(slot).at(self.depth)
    }

    /// Text on its own background; with 16 colors or fewer, the terminal's own colors reversed.
    fn pair(self, text: ColorSlot, ground: ColorSlot) -> Style {
        match self.depth {
            Depth::None | Depth::Ansi16 => Style::new().add_modifier(Modifier::REVERSED),
            Depth::Indexed256 | Depth::TrueColor => Style::new().fg(self.color(text)).bg(self.color(ground)),
        }
    }

    /// Less important text.
    pub fn dim(self) -> Style {
        self.fg(ColorSlot::Dim)
    }

    /// Frames and rules.
    pub fn edge(self) -> Style {
        self.fg(ColorSlot::Edge)
    }

    /// A row of a filled chart at a relative height, 0–1: faint below, bright at the top. A row has one color
    /// regardless of the values: color changes are most of what a chart costs a terminal.
    pub fn filled(self, look: Look, part: f64) -> Style {
        match self.depth {
            Depth::None => Style::new(),
            Depth::Ansi16 if part < 0.5 => self.style(look).add_modifier(Modifier::DIM),
            Depth::Ansi16 => self.style(look),
            _ => Style::new().fg(self.palette.at_height(look.slot, part).at(self.depth)),
        }
    }

    /// Alarms: a hung job, a throttled GPU.
    pub fn alarm(self) -> Style {
        self.fg(ColorSlot::Vermillion)
    }

    /// Good news: a healthy run.
    pub fn good(self) -> Style {
        self.fg(ColorSlot::Green)
    }

    /// Important text.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Title bar, footer keys.
    pub fn bar(self) -> Style {
        self.pair(ColorSlot::BarText, ColorSlot::Bar)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        self.pair(ColorSlot::SelectedText, ColorSlot::Selected)
    }

    /// The cursor in the charts.
    pub fn cursor(self) -> Style {
        let emphasis = if self.depth == Depth::None { Modifier::REVERSED } else { Modifier::BOLD };
        self.fg(ColorSlot::Cursor).add_modifier(emphasis)
    }

    /// A notice, or a problem with a source.
    pub fn warning(self) -> Style {
        self.fg(ColorSlot::Warning).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// The heading of the process table.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }

    /// A timeline about this class.
    pub fn series(self, class: Class) -> Style {
        self.style(class.look())
    }

    /// The color of a look.
    pub fn style(self, look: Look) -> Style {
        self.fg(look.slot)
    }

    /// A row of a filled chart, on the color that another look has at the same height.
    pub fn filled_on(self, look: Look, ground: Look, part: f64) -> Style {
        Style { bg: self.filled(ground, part).fg, ..self.filled(look, part) }
    }

    /// A blank in the color of a filled chart.
    pub fn ground(self, look: Look, part: f64) -> Style {
        Style { fg: None, bg: self.filled(look, part).fg, ..Style::default() }
    }

    /// Text on an area of this color.
    pub fn over(self, ground: Color) -> Style {
        self.fg(ColorSlot::Text).bg(ground)
    }

    /// The mark of a look in a legend: its color where there are enough, otherwise its texture.
    pub fn key(self, look: Look) -> char {
        if self.is_solid() && look.glyph != Look::IDLE.glyph { '■' } else { self.glyph(look) }
    }

    /// Whether colors alone tell parts from each other; otherwise textures do as well.
    pub fn is_solid(self) -> bool {
        !self.ascii && matches!(self.depth, Depth::Indexed256 | Depth::TrueColor)
    }

    /// The texture of a look.
    pub fn glyph(self, look: Look) -> char {
        if self.ascii { look.ascii } else { look.glyph }
    }

    /// The text for values that were not measured.
    pub fn gap_glyph(self) -> char {
        if self.ascii { '-' } else { '–' }
    }
}

/// The ASCII replacement for a character that this program draws, `?` for anything else.
pub fn ascii(c: char) -> char {
    match c {
        ' '..='~' => c,
        '–' | '—' | '─' | '╌' | '−' => '-',
        '│' => '|',
        '·' | '•' => '.',
        '×' => 'x',
        '…' => '~',
        '→' | '▶' | '►' | '▸' => '>',
        '◀' => '<',
        '┈' => '.',
        '┊' => ':',
        '━' => '=',
        '✓' => '+',
        '↑' | '▲' => '^',
        '↓' | '▼' => 'v',
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
        assert_eq!(Theme::detect(false, false, terminal), Theme::default());
        assert_eq!(Theme::detect(true, false, terminal).depth, Depth::None);
        assert!(Theme::detect(false, true, terminal).ascii);
    }

    #[test]
    fn without_colors_no_style_has_one() {
        let theme = Theme::plain(false);
        let styles = [theme.dim(), theme.bar(), theme.selected(), theme.cursor(), theme.warning()];
        for style in styles.into_iter().chain(LoopActivity::ALL.map(|activity| theme.style(activity.look()))) {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
