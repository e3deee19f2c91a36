//! The real program without a terminal: its command line, and bad input, bad luck and bad timing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bad_input;
mod compare;
mod cost;
mod culprits;
mod examples;
mod export;
mod faulty_library;
mod files;
mod fleet;
mod foreign_text;
mod guesses;
mod import;
mod inject;
mod limits;
mod made_trace;
mod mcp;
mod outcome;
#[path = "../support/process.rs"]
mod process;
mod profile;
#[path = "../support/prometheus.rs"]
mod prometheus;
mod rank_traces;
mod report;
mod rights;
mod run_report;
mod signals;
mod stacks;
mod trace;
mod trace_files;
mod unkind_devices;
mod usage;
mod watch;
mod whole_files;
