//! Makes a long recording of a short one, to measure what a day costs: its samples again and again, with clocks and counters that
//! go on.
//!
//!     long_recording FILE OUT SECONDS

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

#[path = "looped.rs"]
mod looped;

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use looped::Looped;
use trainmon::outputs::recording::Recorder;
use trainmon::pipeline::Pipeline;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, out, seconds] = words.as_slice() else { panic!("long_recording FILE OUT SECONDS") };
    let looped = Looped::read(file, |_| {});
    let mut pipeline = Pipeline::of_recording(&looped.header, None);
    let mut recorder = Recorder::new(BufWriter::new(File::create(out).unwrap()), &looped.header).unwrap();
    for second in 0..seconds.parse().unwrap() {
        let sample = Arc::new(looped.sample(second));
        recorder.digest(&pipeline.push(Arc::clone(&sample)));
        recorder.write(&sample).unwrap();
    }
    recorder.flush().unwrap();
}
