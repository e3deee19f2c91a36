//! The whole program in a real pseudo-terminal: every key on every page, storms of input, signals, hostile names, odd
//! terminals, recordings, the first screen. Whatever happens it goes on answering, and leaves the terminal as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/app.rs"]
mod app;
mod diagnose;
mod foreground;
mod input;
mod keys;
mod kinds;
mod layout;
mod picker;
#[path = "../support/process.rs"]
mod process;
mod profile;
#[path = "../support/pty.rs"]
mod pty;
mod replay;
mod restart;
mod run;
mod signals;
mod terminal_file;
mod wire;
