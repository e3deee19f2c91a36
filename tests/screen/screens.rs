//! What the screen shows at every size, in color, without it, and in ASCII.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::KeyCode;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Class, Phase};
use trainmon::sample::{SourceState, SourceStatus, Sources};
use trainmon::tui::{App, Effect, Message};

const SIZES: [(u16, u16); 6] = [(20, 5), (40, 10), (60, 15), (80, 24), (120, 40), (200, 60)];

fn with_verdict(size: (u16, u16), verdict: Verdict) -> App {
    running_until(PLAIN, size, Job::default(), |last| {
        (last.since_ns, last.verdict) = (last.frame.monotonic_ns, Arc::new(verdict));
    })
}

#[test]
fn the_overview_fits_every_size() {
    for size in SIZES {
        let app = running(PLAIN, size, Job::default());
        insta::assert_snapshot!(format!("overview_{}x{}", size.0, size.1), text(&app, size));
    }
}

#[test]
fn the_first_page_names_the_culprit() {
    let summary = "The GPU waits while the loop waits for batches 68 % of the time: other processes use the CPUs that \
                   the job needs (rustc (PID 24077 and 3 more): 2.9 CPUs; sim.py (PID 24090): 2.5 CPUs).";
    for size in [(80, 24), (120, 40), (200, 60)] {
        let verdict = Verdict {
            class: Class::Cpu,
            cause: Some(Cause::NoisyNeighbour),
            summary: summary.into(),
            ..data_loader()
        };
        let shown = text(&with_verdict(size, verdict), size);
        assert!(shown.contains("rustc (PID 24077"), "{shown}");
    }
}

#[test]
fn the_run_page_sums_the_run_up() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut app = running(PLAIN, size, Job::default());
        press(&mut app, KeyCode::Char('9'));
        insta::assert_snapshot!(format!("run_{}x{}", size.0, size.1), text(&app, size));
    }
    let mut app = running(ASCII, (80, 24), Job::default());
    press(&mut app, KeyCode::Char('9'));
    let text = text(&app, (80, 24));
    assert!(text.is_ascii() && text.contains("What the loop did"), "{text}");
    let mut app = fresh(PLAIN, (80, 24));
    press(&mut app, KeyCode::Char('9'));
    assert!(crate::app::text(&app, (80, 24)).contains("No history yet."));
}

#[test]
fn overview_in_ascii_has_nothing_but_ascii() {
    for size in SIZES {
        let app = running(ASCII, size, Job::default());
        let text = text(&app, size);
        assert!(text.is_ascii(), "{text}");
        if size == (80, 24) {
            insta::assert_snapshot!("overview_ascii", text);
        }
    }
}

#[test]
fn color_changes_no_character_and_no_color_has_none() {
    for size in SIZES {
        let color = draw(&running(*COLOR, size, Job::default()), size);
        let plain = draw(&running(PLAIN, size, Job::default()), size);
        let [words, of_plain] = [&color, &plain].map(|buf| rows(buf).join("\n"));
        assert!(same_words(&words, &of_plain), "{words}\n{of_plain}");
        let reset = ratatui::style::Color::Reset;
        assert!(plain.content.iter().all(|c| c.fg == reset && c.bg == reset));
        assert!(color.content.iter().any(|c| c.fg != reset));
    }
}

#[test]
fn first_frame_is_a_whole_screen_before_anything_is_seen() {
    let size = (80, 24);
    insta::assert_snapshot!("attaching", text(&fresh(PLAIN, size), size));
}

#[test]
fn help_lists_keys_and_words() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job::default());
    press(&mut app, KeyCode::F(1));
    insta::assert_snapshot!("help", text(&app, (120, 60)));
}

#[test]
fn every_class_is_said_in_words_at_every_size() {
    let all = [
        (Class::DataLoader, Some("decode"), "DATA LOADER"),
        (Class::Io, Some("network-storage"), "IO"),
        (Class::Cpu, Some("cgroup-throttled"), "CPU"),
        (Class::Gpu, Some("host-device-sync"), "GPU"),
        (Class::Balanced, None, "HEALTHY"),
        (Class::Idle, None, "NOT TRAINING"),
        (Class::Unknown, None, "UNKNOWN"),
    ];
    for size in SIZES {
        for (class, cause, word) in all {
            let text = text(&with_verdict(size, other(class, cause.and_then(Cause::named), "Why it is so.")), size);
            assert!(text.contains(word), "{word} at {size:?}:\n{text}");
        }
    }
}

#[test]
fn unknown_says_what_was_missing_and_names_the_fix() {
    for size in [(80, 24), (120, 40)] {
        let screen = text(&with_verdict(size, unknown()), size);
        assert!(screen.contains("sudo trainmon --pid 1234"), "{screen}");
        assert!(screen.contains("To read system calls"), "{screen}");
    }
    insta::assert_snapshot!("unknown", text(&with_verdict((80, 24), unknown()), (80, 24)));
}

#[test]
fn the_first_advice_stays_whole_beside_a_long_summary() {
    let mut verdict = data_loader();
    verdict.summary = "A very long explanation of what was found. ".repeat(12);
    verdict.advice[0].title =
        "Move the resizing of images into the data set's own preparation, once, before training".into();
    let screen = text(&with_verdict((80, 24), verdict), (80, 24));
    assert!(screen.contains("▶ Move the resizing of images") && screen.contains("up to 1.7× faster"), "{screen}");
    assert!(screen.contains('…'), "{screen}");
}

#[test]
fn without_a_gpu_the_reason_stands_in_its_place() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job { gpus: 0, ..Job::default() });
    let gpu = SourceStatus {
        state: SourceState::Absent,
        reason: Some(Arc::from("libnvidia-ml.so.1 not found")),
        ..SourceStatus::default()
    };
    tell_sources(&mut app, Sources { gpu, ..Sources::default() });
    let screen = text(&app, size);
    assert!(screen.contains("No GPU: libnvidia-ml.so.1 not found"), "{screen}");
    insta::assert_snapshot!("no_gpu", screen);
}

#[test]
fn a_hung_source_is_named() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job::default());
    let gpu = SourceStatus { state: SourceState::Hung, ..SourceStatus::default() };
    tell_sources(&mut app, Sources { gpu, ..Sources::default() });
    assert!(text(&app, size).contains("HUNG"));
}

#[test]
fn what_was_not_measured_is_a_dash() {
    let size = (120, 40);
    let mut app = fresh(PLAIN, size);
    let mut empty = frame(1, Job::default());
    empty.gpus.clear();
    empty.ranks.clear();
    empty.host = Default::default();
    empty.storage = Default::default();
    empty.job = Default::default();
    for w in &mut empty.workers {
        *w = trainmon::waits::frame::WorkerRates { id: w.id, ..Default::default() };
    }
    for p in &mut empty.processes {
        (p.cpu_pct, p.run_delay_share, p.read_bytes_per_s) = (None, None, None);
    }
    tell(&mut app, empty, Verdict::default());
    let screen = text(&app, size);
    insta::assert_snapshot!("unmeasured", screen);
    assert!(!screen.contains(" 0%") && !screen.contains("0 MiB/s"), "{screen}");
}

#[test]
fn many_gpus_show_their_spread_and_many_workers_are_counted() {
    let size = (120, 40);
    let screen = text(&running(PLAIN, size, Job { workers: 64, gpus: 8, seconds: 90 }), size);
    assert!(screen.contains("8 GPUs"), "{screen}");
    assert!(screen.contains("of 64"), "{screen}");
    insta::assert_snapshot!("many", screen);
}

#[test]
fn the_end_of_the_target_is_said_and_the_verdict_stays() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job::default());
    tell_end(&mut app, Some(720.0));
    let screen = text(&app, size);
    assert!(screen.contains("ENDED: process 1234 ended after 12m00s"), "{screen}");
    assert!(screen.contains("too few workers"), "{screen}");
}

#[test]
fn gaps_are_drawn() {
    let screen = text(&running(PLAIN, (80, 24), Job::default()), (80, 24));
    let band = screen.lines().find(|line| line.contains("━ data loader ━")).unwrap();
    assert!(band.contains("━–"), "{band}");
}

#[test]
fn pause_freezes_the_picture_while_data_flows() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job::default());
    press(&mut app, KeyCode::Char(' '));
    let before = text(&app, size);
    assert!(before.contains("PAUSED"));
    for t in 91..200 {
        let effects = tell(&mut app, frame(t, Job::default()), other(Class::Gpu, None, "changed"));
        assert!(effects.is_empty(), "a paused screen need not be drawn");
    }
    assert_eq!(text(&app, size), before);
    assert_eq!(app.job().archive().len(), 86 + 109);
    press(&mut app, KeyCode::Char(' '));
    let after = text(&app, size);
    assert!(after.contains("changed") && !after.contains("PAUSED"), "{after}");
}

#[test]
fn hostile_names_reach_no_cell_raw() {
    for size in SIZES {
        for theme in [PLAIN, ASCII] {
            for name in HOSTILE_NAMES {
                let mut app = running(theme, size, Job::default());
                let mut f = frame(91, Job::default());
                let long: Arc<str> = Arc::from(name.repeat(200));
                for p in &mut f.processes {
                    p.command = Arc::clone(&long);
                    p.comm = Arc::clone(&long);
                }
                f.gpus[0].name = Some(Arc::clone(&long));
                f.storage.mounts[0].mount_point = Arc::clone(&long);
                let mut v = unknown();
                v.summary = name.repeat(5);
                v.not_seen[1].why = name.into();
                v.not_seen[1].fix = Some(name.into());
                v.advice = data_loader().advice;
                v.advice[0].title = name.into();
                tell(&mut app, f, v);
                for key in ["", "2", "3", "4", "5", "6", "\n", "7", "8", "?"] {
                    for c in key.chars() {
                        press(&mut app, if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) });
                    }
                    assert_harmless(&draw(&app, size), theme);
                }
            }
        }
    }
}

#[test]
fn phases_are_told_in_the_banner_when_nothing_is_wrong() {
    let size = (80, 24);
    let mut verdict = other(Class::Idle, None, "The first batch has not been asked for yet.");
    verdict.phase = Phase::Init;
    verdict.advice.clear();
    let screen = text(&with_verdict(size, verdict), size);
    assert!(screen.contains("starting up"), "{screen}");
}

#[test]
fn a_popup_that_cannot_be_seen_takes_no_keys() {
    let size = (120, 40);
    let mut app = running(PLAIN, size, Job::default());
    let key = |c| key(KeyCode::Char(c));
    app.step(key('e'));
    assert!(text(&app, size).contains("Save to the working"), "{}", text(&app, size));
    for small in [(40, 10), (59, 40), (120, 14)] {
        app.step(Message::Resize(small.0, small.1));
        assert!(text(&app, small).contains("q quits"));
        let effects = app.step(key('j'));
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Save(..))), "{effects:?}");
        app.step(Message::Paste("j".to_owned()));
        assert_eq!(app.step(key('q')), [Effect::Quit], "what the screen says works");
    }
    // It is there again where it can be seen, and takes its keys.
    app.step(Message::Resize(size.0, size.1));
    assert!(text(&app, size).contains("Save to the working"));
    assert!(app.step(key('j')).iter().any(|effect| matches!(effect, Effect::Save(..))));
}

#[test]
fn after_an_exec_the_head_names_the_new_program() {
    let size = (120, 40);
    let mut app = running(PLAIN, size, Job::default());
    assert!(!text(&app, size).contains("second.py"));
    tell_verdict(&mut app, Verdict { command: "python second.py".into(), ..data_loader() });
    let seen = text(&app, size);
    assert!(seen.lines().next().unwrap().contains("second.py"), "{seen}");
}
