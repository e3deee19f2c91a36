//! A trace of torch.profiler.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = trainmon_profiles::read_course(bytes);
});
