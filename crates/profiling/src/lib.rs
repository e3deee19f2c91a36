#![doc = include_str!("../README.md")]

pub mod inject;
pub mod kineto;
pub mod probes;
