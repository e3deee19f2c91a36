//! Stacks as py-spy writes them.
#![no_main]

use trainmon_sample::ProcessId;
use trainmon_sources::py_spy::collapsed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = collapsed::parse(bytes, ProcessId { pid: 7, start_ticks: 1 }, &[7]);
});
