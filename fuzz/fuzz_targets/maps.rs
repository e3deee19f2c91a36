//! `/proc/PID/maps`.
#![no_main]

use trainmon_sources::maps;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for mapping in bytes.split(|&byte| byte == b'\n').filter_map(maps::mapping) {
        assert!(mapping.addresses.0 < mapping.addresses.1);
    }
});
