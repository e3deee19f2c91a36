//! What the screen is set to when it comes up.

use jiff::tz::TimeZone;

use crate::history::archive::Limits;
use crate::tui::arrangement::Layout;
use crate::tui::keys::Keymap;
use crate::tui::theme::{Depth, Palette, Theme};

/// What the screen is set to.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// Colors and glyphs.
    pub theme: Theme,
    /// Which key does what.
    pub keymap: Keymap,
    /// How much of the past is kept.
    pub limits: Limits,
    /// Signals and nice values may be sent.
    pub may_signal: bool,
    /// The mouse is reported.
    pub mouse: bool,
    /// Few bytes: for thin lines.
    pub low_bandwidth: bool,
    /// Colors that the terminal has, wanted or not.
    pub depth: Depth,
    /// The themes to choose from, and their names; none means the built-in ones.
    pub themes: Vec<(String, Palette)>,
    /// How the screen was arranged the last time, or is to be by the configuration.
    pub layout: Layout,
    /// The zone of the clock times shown.
    pub zone: TimeZone,
    /// The name of this machine, for the header.
    pub host: String,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            keymap: Keymap::default(),
            limits: Limits::default(),
            may_signal: false,
            mouse: false,
            low_bandwidth: false,
            depth: Depth::Indexed256,
            themes: Vec::new(),
            layout: Layout::default(),
            zone: TimeZone::UTC,
            host: String::new(),
        }
    }
}
