//! The screen: what it knows ([`app`]), how it looks ([`views`]), and the one file that touches the terminal
//! ([`terminal`]).
//!
//! Messages go into [`app::App::update`], effects come out, and [`views::draw`] paints the state into a buffer. Nothing
//! here reads a clock, a file or a process: the same screen can be driven by a live job, a recording or a test.

pub mod app;
pub mod charts;
pub mod format;
pub mod keys;
pub mod layout;
pub mod processes;
pub mod svg;
pub mod terminal;
pub mod theme;
pub mod timeline;
pub mod views;
pub mod words;

pub use app::{App, Effect, Message, Target};
pub use terminal::Terminal;
pub use theme::Theme;
