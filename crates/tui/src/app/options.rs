//! Settings of the screen at startup.

use jiff::tz::TimeZone;

use crate::arrangement::Layout;
use crate::theme::{Depth, Palette, Theme};
use trainmon_diagnosis::history::archive::Limits;
use trainmon_views::cost::Price;

/// Settings of the screen at startup.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// Colors and glyphs.
    pub theme: Theme,
    /// How much of the past is kept.
    pub limits: Limits,
    /// Whether signals may be sent.
    pub may_signal: bool,
    /// Whether the job may be asked for a profile, which slows it down for a moment.
    pub may_profile: bool,
    /// Whether the mouse is reported.
    pub mouse: bool,
    /// Low bandwidth: few bytes, for slow connections.
    pub low_bandwidth: bool,
    /// Colors that the terminal supports, even if they are switched off.
    pub depth: Depth,
    /// The themes to choose from, with their names; empty means the built-in ones.
    pub themes: Vec<(String, Palette)>,
    /// How the screen was arranged last time, or how the configuration arranges it.
    pub layout: Layout,
    /// Time zone of the clock times shown.
    pub zone: TimeZone,
    /// What an hour of a GPU costs.
    pub price: Option<Price>,
    /// The name of this machine, for the header.
    pub host: String,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            limits: Limits::default(),
            may_signal: false,
            may_profile: true,
            mouse: false,
            low_bandwidth: false,
            depth: Depth::Indexed256,
            themes: Vec::new(),
            layout: Layout::default(),
            zone: TimeZone::UTC,
            price: None,
            host: String::new(),
        }
    }
}
