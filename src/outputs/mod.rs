//! What trainmon writes: a file for each format, each writing to an `impl Write`. Ticks and verdicts are written as they are;
//! nothing is measured or judged here.

pub mod activity;
pub mod anonymise;
pub mod chain;
pub mod comparison;
pub mod cost;
pub mod csv;
pub mod events;
pub mod explanation;
pub mod fleet;
pub mod html;
pub mod json;
pub mod log;
pub mod markdown;
pub mod metrics;
mod profile_sections;
mod profile_tables;
pub mod ranks;
pub mod recording;
mod report;
pub mod run_report;
mod section;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trace;
pub mod whole_file;
