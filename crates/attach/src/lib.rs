#![doc = include_str!("../README.md")]

pub mod collector;
pub mod jobs;
