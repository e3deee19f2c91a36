//! A recording, as it is and unpacked, and the verdict on what is in it.
#![no_main]

use std::io::Read;

use trainmon_diagnosis::Pipeline;
use trainmon_sources::recording::Recording;

fn judge(from: impl Read) {
    if let Ok(recording) = Recording::new(from) {
        let pipeline = Pipeline::of_recording(&recording.header, None);
        let _ = pipeline.last_verdict(recording);
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    // Frames have checksums, so a change behind them is seldom read.
    if let Ok(packed) = zstd::encode_all(bytes, 1) {
        judge(packed.as_slice());
    }
});
