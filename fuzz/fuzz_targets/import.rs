//! Files of other tools: CSV of nvidia-smi, tables of sysstat, stacks, traces.
#![no_main]

use std::io::Cursor;

use jiff::tz::TimeZone;
use trainmon_imports::ImportContext;
use trainmon_imports::merge::Merge;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let context = ImportContext { zone: TimeZone::UTC, written_ms: 1_790_000_000_000 };
    if let Ok(read) = trainmon_imports::read(Cursor::new(bytes), None, &context)
        && let Ok(merge) = Merge::new(vec![read])
    {
        let _ = merge.samples().take(100).count();
    }
});
