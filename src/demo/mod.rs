//! `trainmon demo`: a small training program that is held back as asked, so that the monitor can be tried anywhere. It tells
//! the monitor nothing: everything trainmon says about it is measured.
//!
//! The job is a Python program of the standard library only, in `assets/demo`. Its worker processes read, decode and augment
//! images, and its loop trains on a simulated GPU. trainmon attaches to it as to any other job.
//!
//! ```text
//! trainmon demo ─┬─ python3 train.py ─┬─ worker     batch number → pipe → worker → pipe → training loop
//!                │                    └─ worker     (each at most 4 batches ahead, taken in order)
//!                └─ python3 storage_server.py       only with --bottleneck io: a slow server on 127.0.0.1
//! ```
//!
//! Nothing is left behind: the GPU's state is a file without a name, each process ends with its parent, [`DemoJob`] ends all
//! of them when it is dropped, and both it and the job remove the folder that they run in.

pub mod job;
mod plan;
pub mod python;

pub use job::DemoJob;

/// A recording of a PyTorch job with too few workers, for machines without Python.
pub const RECORDING: &[u8] = include_bytes!("../../assets/demo/recording.tmz");
