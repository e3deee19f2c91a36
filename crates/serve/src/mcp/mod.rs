//! The Model Context Protocol: messages, versions, the table of tools and their arguments, the server on standard input and
//! output, and the marks around text that comes from other programs. What tools do is for the [`server::Worker`].

pub mod answer;
pub mod jsonrpc;
mod pipes;
pub mod protocol;
pub mod server;
pub mod tools;
pub mod untrusted;
