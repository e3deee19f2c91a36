#![doc = include_str!("../README.md")]

pub mod exporter;
pub mod http;
pub mod mcp;
pub mod prometheus;
