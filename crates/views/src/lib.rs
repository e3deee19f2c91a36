//! What trainmon says, as data: sections, tables, rows, stages and sentences, made of frames, verdicts, profiles and totals.
//! `outputs` and `tui` lay them out: nothing here knows a format, a color or a terminal.

pub mod activity;
pub mod chain;
pub mod comparison;
pub mod cost;
pub mod cpu_facts;
pub mod earlier_run;
pub mod fleet;
pub mod gpu_words;
pub mod labels;
pub mod profile_sections;
pub mod profile_tables;
mod rank_profile_section;
pub mod ranks;
pub mod report;
pub mod run_report;
pub mod run_summary;
pub mod section;
pub mod stages;
pub mod storage_facts;
#[cfg(test)]
mod testing;
pub mod totals;
