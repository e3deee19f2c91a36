//! What trainmon writes: one file for each format, each writing to an `impl Write`. Ticks and verdicts come in as they are: nothing
//! is measured or judged here.

pub mod anonymise;
pub mod chain;
pub mod csv;
pub mod explanation;
pub mod json;
pub mod log;
pub mod markdown;
pub mod ranks;
pub mod recording;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod text;
