//! `/proc/PID/syscall`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = trainmon_sources::task_files::syscall(bytes);
});
