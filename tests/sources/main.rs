//! What is read from and done to real processes, the made-up NVML library and the real py-spy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod deeds;
mod demo;
mod nvml;
mod py_spy;
mod watching;
