//! HTTP: the server that Prometheus scrapes, and the client that asks Prometheus. Nothing here knows what is served or asked for.

#[cfg(feature = "client")]
pub mod client;
pub mod named_files;
#[cfg(feature = "server")]
pub mod server;
pub mod tls;
pub mod token;
