//! What is read from and done to real processes, the made-up NVML library and the real py-spy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod amd;
mod attached_jobs;
mod nvml;
mod nvml_special;
mod own_reader;
mod probes;
#[path = "../support/process.rs"]
mod process;
mod process_actions;
mod py_spy;
mod python;
mod unkind_devices;
