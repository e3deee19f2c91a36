//! A thing has one number on a screen: every page of every recording, at its end and on the way there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::*;
use crossterm::event::KeyCode;
use trainmon::pipeline::Pipeline;
use trainmon::sources::recording::Recording;
use trainmon::tui::pages::Page;
use trainmon::tui::{App, AppOptions, Job, Message};

#[path = "../support/figures.rs"]
mod figures;

use figures::{differing, figures};

/// The recordings of the repository, and those in the folder that `RECORDINGS` names.
fn recordings() -> Vec<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let more = std::env::var_os("RECORDINGS").map(PathBuf::from);
    let entries = [Some(ours), more].into_iter().flatten().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "tmz"));
    found.sort();
    found
}

/// Looks at every page; returns how many figures there were, and those that differ.
fn look(app: &mut App, size: (u16, u16)) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in Page::ALL {
        press(app, KeyCode::Char(page.spec().keys.chars().next().unwrap()));
        let text = text(app, size);
        let rows: Vec<String> = text.lines().map(str::to_owned).collect();
        let found = figures(&rows, page == Page::Run);
        count += found.values().map(Vec::len).sum::<usize>();
        wrong.extend(differing(&found).into_iter().map(|what| format!("{page} {}x{}: {what}", size.0, size.1)));
    }
    (count, wrong)
}

#[test]
fn a_thing_has_one_number_on_every_page_of_every_recording() {
    let (mut count, mut wrong) = (0, Vec::new());
    for path in recordings() {
        let mut recording = Recording::open(&path).unwrap();
        let samples: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
        let mut pipeline = Pipeline::of_recording(&recording.header, None);
        let target = Target { pid: recording.header.pid, command: recording.header.command.clone() };
        let job = Job::new(JobKey::default(), target, 1.0, Default::default());
        let mut app = App::new(job, AppOptions { theme: PLAIN, ..AppOptions::default() }, (200, 60));
        let (last, third) = (samples.len().saturating_sub(1), samples.len() / 3);
        for (at, sample) in samples.into_iter().enumerate() {
            let tick = pipeline.push(Arc::new(sample));
            app.update(Message::Job(JobKey::default(), JobEvent::Tick(tick)));
            let is_long = at > 0 && at % 60 == 0;
            if at == last || at == third || at == 2 * third || is_long {
                let sizes: &[(u16, u16)] = if at == last { &[(80, 24), (120, 40), (200, 60)] } else { &[(120, 40)] };
                for size in sizes {
                    let (found, differ) = look(&mut app, *size);
                    count += found;
                    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                    wrong.extend(differ.into_iter().map(|what| format!("{name} after {at}: {what}")));
                }
            }
        }
    }
    println!("{count} figures, {} differ", wrong.len());
    assert!(count > 5000, "only {count} figures were read");
    assert!(wrong.is_empty(), "{count} figures, {} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn figures_are_read_with_name_owner_and_window() {
    let rows = [
        "│ The GPU sits idle 78% of the time: the loop waits for data 79% of the time. │",
        "╭─ where each step's time went ─── 15 steps/s · 68 ms a step · █ data 70% ─╮",
        "╭─ GPU 0 ──────────── 22% · 200/700 W ─╮",
        " rank  0 ██████ data 54% · GPU 0 at 44%",
    ];
    let found = figures(&rows.map(str::to_owned), false);
    let told: Vec<_> = differing(&found);
    assert_eq!(told.len(), 1, "{told:?} of {found:?}");
    assert!(told[0].starts_with("waiting for data of loop, window: "), "{told:?}");
    assert!(found.iter().any(|(of, _)| of.owner == "rank 0"), "{found:?}");
}
