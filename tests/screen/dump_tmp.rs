use crate::app::*;
use crossterm::event::KeyCode;
use std::path::Path;
use std::sync::Arc;
use trainmon::pipeline::Pipeline;
use trainmon::sources::recording::Recording;
use trainmon::tui::{App, AppOptions, Job, Message};
#[test]
fn dump() {
    let Ok(spec) = std::env::var("DUMP") else { return };
    let words: Vec<&str> = spec.split(' ').collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(words[0]).with_extension("tmz");
    let size: (u16, u16) = (words[2].parse().unwrap(), words[3].parse().unwrap());
    let mut recording = Recording::open(&path).unwrap();
    let samples: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
    let upto: usize = words.get(4).map_or(samples.len(), |w| w.parse().unwrap());
    let mut pipeline = Pipeline::of_recording(&recording.header, None);
    let target = Target { pid: recording.header.pid, command: recording.header.command.clone() };
    let job = Job::new(JobKey::default(), target, 1.0, Default::default());
    let mut app = App::new(job, AppOptions { theme: PLAIN, ..AppOptions::default() }, size);
    for sample in samples.into_iter().take(upto) {
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(pipeline.push(Arc::new(sample)))));
    }
    press(&mut app, KeyCode::Char(words[1].chars().next().unwrap()));
    println!("{}", text(&app, size));
}
