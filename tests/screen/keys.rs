//! Keys do what fingers expect, and no storm of events panics.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use proptest::prelude::*;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::Class;
use trainmon::tui::keys;
use trainmon::tui::{App, AppOptions, Effect, Message};

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

/// What keys for processes do on the page of processes, with signals allowed.
fn processes_page(keys: &[KeyCode], signals: bool) -> String {
    text(&pressed(keys, signals), (80, 24))
}

fn pressed(keys: &[KeyCode], signals: bool) -> App {
    let size = (80, 24);
    let options = AppOptions { theme: PLAIN, may_signal: signals, ..AppOptions::default() };
    let mut app = App::new(job(), options, size);
    for t in 1..=3 {
        let mut frame = frame(t, Job::default());
        frame.processes.iter_mut().for_each(|process| process.nice = Some(0));
        tell(&mut app, frame, data_loader());
    }
    keys.iter().for_each(|code| drop(app.step(key(*code))));
    app
}

#[test]
fn keys_for_processes_work_from_every_page() {
    let processes = KeyCode::Char('6');
    let others = || (1..=9).filter(|n| *n != 6).filter_map(|n| char::from_digit(n, 10)).map(KeyCode::Char);
    for code in ['/', 's', 't', 'n', '\\', 'P', 'M', 'N', 'T', 'I', 'H']
        .map(KeyCode::Char)
        .into_iter()
        .chain([3, 4, 5, 6].map(KeyCode::F))
    {
        let wanted = processes_page(&[processes, code], true);
        assert_ne!(wanted, processes_page(&[], true), "{code:?}");
        for page in others() {
            assert_eq!(processes_page(&[page, code], true), wanted, "{code:?} on page {page:?}");
        }
    }
    for page in others() {
        // As people who use htop search: type, Enter, and look at the process.
        let mut app = pressed(&[page, KeyCode::Char('/')], true);
        for code in "1302".chars().map(KeyCode::Char).chain([KeyCode::Enter, KeyCode::Enter]) {
            app.step(key(code));
        }
        assert!(text(&app, (80, 24)).contains(" worker 1302 "), "{page:?}");
        // Nothing may be asked about a process that was not selected.
        let kill = KeyCode::F(9);
        let shown = processes_page(&[page, kill], true);
        let advice = "select a process with Up and Down, then press F9";
        assert!(shown.contains("COMMAND") && shown.contains(advice), "{page:?}: {shown}");
        let menu = processes_page(&[page, kill, KeyCode::Down, kill], true);
        assert!(menu.contains("1301") && menu.contains("Signal to"), "{menu}");
        let off = processes_page(&[page, KeyCode::F(9)], false);
        assert!(off.contains("signals are off: start trainmon with --signals"), "{off}");
    }
}

#[test]
fn enter_opens_what_there_is_or_names_the_pages_where_it_does() {
    let (enter, why) = (KeyCode::Enter, KeyCode::Char('8'));
    assert_eq!(processes_page(&[enter], true), processes_page(&[why], true));
    for page in ['2', '3', '4', '5', '8', '9', '?'].map(KeyCode::Char) {
        let shown = processes_page(&[page, enter], true);
        assert!(shown.contains("nothing to open here: press 6 for processes, 7 for functions"), "{page:?}: {shown}");
    }
}

#[test]
fn a_long_notice_is_shown_to_its_end() {
    let words: Vec<String> = (100..140).map(|n| format!("word{n}")).collect();
    for keys in [&[][..], &[KeyCode::Char('o')]] {
        let mut app = pressed(keys, true);
        app.step(Message::Notice(words.join(" ")));
        let shown = text(&app, (80, 24));
        assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
    }
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
fn escape_and_a_key_that_come_at_once_are_both_taken() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    let overview = text(&app, (80, 24));
    app.step(key(KeyCode::Char('e')));
    let both = |c| Message::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT));
    assert_eq!(app.step(both('q')), [Effect::Redraw, Effect::Quit]);
    assert_eq!(text(&app, (80, 24)), overview, "closed first");
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
        let mut app: App = fresh(trainmon::tui::Theme { ascii, ..*COLOR }, size);
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
