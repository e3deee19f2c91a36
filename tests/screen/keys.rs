//! Keys do what fingers expect, and no storm of events panics.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use proptest::prelude::*;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::Class;
use trainmon::tui::keys;
use trainmon::tui::{App, Effect, Message};

fn every_key() -> Vec<Message> {
    keys::TABLE.iter().flat_map(|binding| binding.keys.split(' ')).map(|name| Message::Key(named_key(name))).collect()
}

#[test]
fn every_key_of_the_table_does_what_it_says() {
    for binding in keys::TABLE.iter() {
        for name in binding.keys.split(' ') {
            assert_eq!(keys::action(named_key(name)), Some(binding.action), "{name}");
        }
        assert!(binding.keys.starts_with(keys::key_of(binding.action)), "{}", binding.keys);
    }
}

#[test]
fn quitting_suspending_and_painting_are_effects() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    for quit in [key(KeyCode::Char('q')), key(KeyCode::F(10)), Message::Quit] {
        assert_eq!(app.step(quit), [Effect::Quit]);
    }
    let control = |c| Message::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!(app.step(control('c')), [Effect::Quit]);
    assert_eq!(app.step(control('z')), [Effect::Suspend]);
    assert_eq!(app.step(control('l')), [Effect::Repaint]);
    assert_eq!(app.step(key(KeyCode::Char('x'))), []);
}

#[test]
fn escape_only_closes() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    let overview = text(&app, (80, 24));
    for open in [KeyCode::Char('e'), KeyCode::Char('3'), KeyCode::Char('8'), KeyCode::F(1)] {
        app.step(key(open));
        assert_ne!(text(&app, (80, 24)), overview);
        assert_eq!(app.step(key(KeyCode::Esc)), [Effect::Redraw]);
        assert_eq!(text(&app, (80, 24)), overview);
    }
    assert_eq!(app.step(key(KeyCode::Esc)), [Effect::Redraw]);
}

#[test]
fn copying_gives_the_whole_verdict() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    let effects = app.step(key(KeyCode::Char('c')));
    let Some(Effect::Copy(text)) = effects.first() else { panic!("{effects:?}") };
    for part in ["too few workers", "Raise num_workers from 4 to 7", "up to 1.7×", "PID 1234"] {
        assert!(text.contains(part), "{text}");
    }
    let mut empty = fresh(PLAIN, (80, 24));
    assert_eq!(empty.update(key(KeyCode::Char('c'))), [Effect::Redraw]);
}

#[test]
fn what_has_been_seen_fills_the_charts_until_a_minute_is_reached() {
    for (seconds, span_s) in [(0, 60.0), (1, 1.0), (15, 15.0), (16, 18.0), (40, 40.0), (51, 60.0), (90, 60.0)] {
        let mut app = running(PLAIN, (80, 24), Job { seconds, ..Job::default() });
        assert_eq!(app.span_s(), span_s, "after {seconds} s");
        draw(&app, (80, 24));
        // A scale that was chosen stays.
        app.step(key(KeyCode::Char('-')));
        let chosen = app.span_s();
        assert!(chosen > span_s);
        tell(&mut app, frame(seconds + 40, Job::default()), data_loader());
        assert_eq!(app.span_s(), chosen);
    }
}

#[test]
fn zoom_goes_from_ten_seconds_to_an_hour() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    assert_eq!(app.span_s(), 60.0);
    for _ in 0..9 {
        app.step(key(KeyCode::Char('+')));
    }
    assert_eq!(app.span_s(), 10.0);
    for _ in 0..9 {
        app.step(key(KeyCode::Char('-')));
        draw(&app, (80, 24));
    }
    assert_eq!(app.span_s(), 3600.0);
}

#[test]
fn the_table_scrolls_to_its_end_and_back() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job { workers: 40, ..Job::default() });
    app.step(key(KeyCode::Char('6')));
    app.step(key(KeyCode::End));
    let end = text(&app, size);
    assert!(end.contains("1290 helper") && end.contains("42/42"), "{end}");
    app.step(key(KeyCode::Home));
    assert!(text(&app, size).contains("1234 training"));
    app.step(key(KeyCode::PageDown));
    app.step(key(KeyCode::Char('N')));
    app.step(key(KeyCode::Char('I')));
    app.step(key(KeyCode::Home));
    assert!(text(&app, size).contains("1340 worker"), "{}", text(&app, size));
}

#[test]
fn a_click_selects_a_row() {
    let size = (80, 24);
    let mut app = running(PLAIN, size, Job::default());
    app.step(key(KeyCode::Char('6')));
    let row = text(&app, size).lines().position(|l| l.contains("1302 worker")).unwrap();
    click(&mut app, 3, u16::try_from(row).unwrap());
    app.step(key(KeyCode::Enter));
    assert!(text(&app, size).contains(" worker 1302 "));
}

#[test]
fn a_large_paste_does_nothing() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    assert_eq!(app.step(Message::Paste("q".repeat(1 << 20))), []);
}

#[test]
fn verdicts_go_into_the_history_with_their_frames() {
    let app = running(PLAIN, (80, 24), Job::default());
    let last = app.job().archive().latest().unwrap();
    let (frame, verdict) = (&last.frame, &last.verdict);
    assert_eq!((frame.sequence, verdict.class, verdict.cause), (90, Class::DataLoader, Some(Cause::TooFewWorkers)));
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        2 => prop::sample::select(Class::ALL.to_vec()).prop_map(|class| other(class, None, "why")),
        1 => Just(unknown()),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let keys = every_key();
    prop_oneof![
        6 => prop::sample::select(keys),
        1 => any::<char>().prop_map(|c| key(KeyCode::Char(c))),
        2 => (0u16..300, 0u16..100).prop_map(|(w, h)| Message::Resize(w, h)),
        5 => (0u64..500, 0u32..12, 0u32..3, any_verdict(), prop::bool::weighted(0.8)).prop_map(
            |(t, workers, gpus, verdict, alive)| {
                let frame = frame(t, Job { workers, gpus, seconds: 0 }).into();
                let tick = Tick { frame, verdict: Arc::new(verdict), alive, ..Tick::default() };
                Message::Job(JobKey::default(), JobEvent::Tick(Arc::new(tick)))
            }
        ),
        1 => prop::option::of(".{0,40}").prop_map(|note| Message::Job(JobKey::default(), JobEvent::Loaded(note))),
        1 => ".{0,40}".prop_map(Message::Notice),
        1 => (0u16..300, 0u16..100, any::<bool>()).prop_map(|(column, row, up)| {
            mouse(if up { MouseEventKind::ScrollUp } else { MouseEventKind::Down(MouseButton::Left) }, column, row)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_storm_of_events_panics(messages in prop::collection::vec(any_message(), 0..40), ascii in any::<bool>()) {
        let mut size = (80, 24);
        let mut app: App = fresh(trainmon::tui::Theme { ascii, ..*COLOUR }, size);
        for message in messages {
            if let Message::Resize(w, h) = message {
                size = (w, h);
            }
            app.step(message);
            draw(&app, size);
        }
        // The size that is drawn may be another than the one that was told.
        for other in [(0, 0), (1, 1), (61, 16), (300, 90)] {
            draw(&app, other);
        }
    }
}
