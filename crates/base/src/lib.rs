#![doc = include_str!("../README.md")]

pub mod errors;
pub mod foreground;
pub mod heap;
pub mod leave;
pub mod signals;
pub mod stats;
pub mod streams;
pub mod text;
pub mod trust;
pub mod zone;
