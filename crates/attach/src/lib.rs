#![doc = include_str!("../README.md")]

pub mod collector;
pub mod doctor;
pub mod jobs;
pub mod runs;
pub mod started;
