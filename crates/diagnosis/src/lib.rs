#![doc = include_str!("../README.md")]

pub mod diagnosis;
pub mod fleet;
pub mod history;
pub mod pipeline;
pub mod watch;
