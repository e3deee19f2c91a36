//! HTTP: the server that Prometheus scrapes, and the client that asks Prometheus. Nothing here knows what is served or asked for.

pub mod client;
pub mod named_files;
pub mod server;
pub mod tls;
pub mod token;
