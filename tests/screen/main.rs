//! The screen without a terminal: messages in, a buffer of cells out, held against what must and must not stand there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/app.rs"]
mod app;
mod bytes;
mod chain;
mod every_page;
mod fleet;
mod gpu_cpu;
mod io_stacks;
mod jobs;
mod keys;
mod one_number;
#[path = "../support/svg.rs"]
mod picture;
mod processes;
mod profile;
mod profile_step;
mod profiling;
mod screens;
mod setup;
mod svg;
mod time;
