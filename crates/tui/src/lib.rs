//! The screen: what it knows ([`app`]), its [`pages`], and the only file that touches the terminal ([`terminal`]).
//!
//! Messages go into [`app::App::update`], effects come out, and [`draw`] paints the state into a buffer and returns
//! what it drew where. Nothing here reads a clock, a file or a process: a live job, a recording or a test can drive the
//! same screen.

pub mod app;
pub mod arrangement;
pub mod charts;
pub mod encode;
pub mod job;
pub mod jobs;
pub mod message;
pub mod pages;
mod rescue;
pub mod terminal;
pub mod theme;
mod widgets;

pub use app::view::draw;
pub use app::{App, AppOptions, MIN_HEIGHT, MIN_WIDTH};
pub use arrangement::Layout;
pub use job::Job;
pub use message::{Effect, Message};
pub use pages::keys;
pub use terminal::Terminal;
pub use theme::Theme;
pub use trainmon_base::text::format;
