//! A line of the Model Context Protocol.
#![no_main]

use trainmon_serve::mcp::jsonrpc::{self, Incoming};
use trainmon_serve::mcp::protocol::{self, Era};
use trainmon_serve::mcp::tools::ToolCall;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Incoming::Request { params, .. }) = jsonrpc::parse(bytes) {
        let _ = (protocol::initialize(&params), Era::of_request(&params, None), ToolCall::from_params(&params));
    }
});
