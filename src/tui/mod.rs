//! The screen: what it knows ([`app`]), how it looks ([`views`]), and the one file that touches the terminal
//! ([`terminal`]).
//!
//! Messages go into [`app::App::update`], effects come out, and [`views::draw`] paints the state into a buffer. Nothing
//! here reads a clock, a file or a process: the same screen can be driven by a live job, a recording or a test.

pub mod app;
pub mod arrangement;
pub mod charts;
pub mod encode;
pub mod job;
pub mod jobs;
pub mod keys;
pub mod layout;
pub mod message;
pub mod page;
pub mod pages;
pub mod picker;
pub mod popup;
pub mod processes;
pub mod setup;
pub mod summary;
pub mod svg;
pub mod terminal;
pub mod theme;
pub mod views;
pub mod words;

pub use crate::text::format;
pub use app::{App, Options};
pub use arrangement::Layout;
pub use job::Job;
pub use message::{Effect, Message};
pub use terminal::Terminal;
pub use theme::Theme;
