//! What trainmon writes: a file for each format, each writing to an `impl Write`. Ticks and verdicts are written as they are;
//! nothing is measured or judged here.

pub mod anonymize;
pub mod csv;
pub mod document;
pub mod events;
pub mod explanation;
pub mod html;
pub mod json;
pub mod log;
pub mod markdown;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod recording;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "../../views/src/testing.rs"]
mod testing_views;
pub mod text;
#[cfg(feature = "trace")]
pub mod trace;
pub mod trace_out;
pub mod whole_file;

use document::Document;

/// The formats of `report` and `compare`; messages list them in this order.
pub const DOCUMENTS: &[&Document] = &[&html::DOCUMENT, &markdown::DOCUMENT];
