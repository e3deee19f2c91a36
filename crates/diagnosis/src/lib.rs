#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! `cargo run -p trainmon-diagnosis --example exporter`:
//!
//! ```
#![doc = include_str!("../examples/exporter.rs")]
//! ```

pub mod diagnosis;
pub mod fleet;
pub mod history;
pub mod pipeline;
pub mod watch;

pub use diagnosis::{Context, Verdict};
pub use pipeline::{Pipeline, Tick};
pub use trainmon_rates::{GpuChoice, RatesOptions};
pub use trainmon_sample as sample;
