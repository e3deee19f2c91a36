//! The whole program in a real pseudo-terminal: every key on every page, storms of input, signals, hostile names, odd
//! terminals, recordings. Whatever happens it goes on answering, and leaves the terminal as it was.
//!
//! Nothing here depends on how a page looks: that the program still answers is seen by its painting anew when asked to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

#[path = "screen_pty/input.rs"]
mod input;
#[path = "screen_pty/keys.rs"]
mod keys;
#[path = "screen_pty/replay.rs"]
mod replay;
#[path = "screen_pty/signals.rs"]
mod signals;
#[path = "screen_pty/support.rs"]
mod support;
#[path = "screen_pty/wire.rs"]
mod wire;
