//! What is made of samples: the verdicts on recordings, and what an hour of them costs to keep.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod archive;
mod comparisons;
mod hostile;
mod profiled;
mod recordings;
mod schemas;
mod watching;
