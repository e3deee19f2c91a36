//! What trainmon writes: one file for each format, each writing to an `impl Write`.

pub mod csv;
pub mod json;
pub mod log;
pub mod text;
pub mod wrap;
