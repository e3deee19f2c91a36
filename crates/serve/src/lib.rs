#![doc = include_str!("../README.md")]

#[cfg(feature = "server")]
pub mod exporter;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "client")]
pub mod prometheus;
