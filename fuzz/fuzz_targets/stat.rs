//! `/proc/PID/stat`, `schedstat` and `io`.
#![no_main]

use trainmon_sources::task_files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = (task_files::stat(bytes), task_files::comm(bytes), task_files::schedstat(bytes), task_files::io(bytes));
});
