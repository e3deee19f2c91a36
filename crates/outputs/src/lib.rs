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
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod profile_sections;
pub mod profile_tables;
mod rank_profile_section;
pub mod ranks;
pub mod recording;
mod report;
pub mod run_report;
pub mod section;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod text;
#[cfg(feature = "trace")]
pub mod trace;
pub mod trace_out;
pub mod whole_file;
