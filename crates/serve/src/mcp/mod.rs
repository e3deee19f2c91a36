//! The Model Context Protocol, as far as it needs no job: messages, versions, the table of tools and their arguments, and the
//! marks around text that comes from other programs. Nothing is read, watched or written here; `commands/mcp` does that.

pub mod jsonrpc;
pub mod protocol;
pub mod tools;
pub mod untrusted;
