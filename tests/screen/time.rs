//! Looking back: pause, steps, seeking, changes of verdict, zoom, and a recording that is played.

use crate::app::*;
use crossterm::event::{KeyCode, MouseButton, MouseEventKind};
use proptest::prelude::*;
use ratatui::style::Modifier;
use trainmon::diagnosis::verdict::Class;
use trainmon::history::archive::Limits;
use trainmon::tui::{App, AppOptions, Message};

const SIZE: (u16, u16) = (120, 40);

fn shown(app: &App) -> u64 {
    app.job().frame().unwrap().sequence
}

/// A screen over a recording, all of it read: the same ninety seconds as [`running`].
fn recording(size: (u16, u16)) -> App {
    let mut app = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, size);
    let live = running(PLAIN, size, Job::default());
    let archive = live.job().archive();
    let mut id = archive.first().map(|stamp| stamp.id);
    while let Some(here) = id {
        let moment = archive.load(here).unwrap();
        tell(&mut app, (*moment.frame).clone(), moment.verdict);
        id = archive.step(here, 1).filter(|next| *next != here);
    }
    tell_loaded(&mut app);
    app
}

#[test]
fn steps_show_each_moment_with_its_verdict() {
    let mut app = running(PLAIN, SIZE, Job::default());
    assert_eq!(shown(&app), 90);
    press(&mut app, KeyCode::Left);
    assert_eq!(shown(&app), 89);
    for _ in 0..24 {
        press(&mut app, KeyCode::Left);
    }
    // Some seconds were not seen: from 65 a step leads to 60.
    assert_eq!(shown(&app), 65);
    press(&mut app, KeyCode::Left);
    assert_eq!(shown(&app), 60);
    let screen = text(&app, SIZE);
    assert!(screen.contains("The GPU is busy."), "{screen}");
    press(&mut app, KeyCode::End);
    assert_eq!(shown(&app), 90);
    assert!(!text(&app, SIZE).contains("PAUSED"));
}

#[test]
fn a_picture_stands_for_longer_than_the_past_is_kept() {
    let limits = Limits { span: std::time::Duration::from_secs(10), ..Limits::default() };
    let job = trainmon::tui::Job::new(JobKey::default(), target(), 1.0, limits);
    let mut app = App::new(job, AppOptions { theme: PLAIN, ..AppOptions::default() }, SIZE);
    let on = |app: &mut App, seconds: std::ops::Range<u64>| -> usize {
        seconds.map(|t| tell(app, frame(t, Job::default()), data_loader()).len()).sum()
    };
    on(&mut app, 1..20);
    press(&mut app, KeyCode::Char(' '));
    let stands = text(&app, SIZE);
    assert!(stands.contains("PAUSED"));
    assert_eq!(on(&mut app, 20..200), 0, "nothing is drawn behind a picture that stands");
    assert!(app.job().archive().first().unwrap().id.0 > 100);
    assert_eq!((shown(&app), text(&app, SIZE)), (19, stands));
    press(&mut app, KeyCode::Left);
    assert_eq!(Some(shown(&app) - 1), app.job().archive().first().map(|first| first.id.0));
}

#[test]
fn changes_of_verdict_are_jumped_to() {
    let mut app = running(PLAIN, SIZE, Job::default());
    let mut seen = Vec::new();
    for _ in 0..4 {
        type_text(&mut app, "[");
        seen.push((shown(&app), app.job().verdict().unwrap().class));
    }
    let changes = [(70, Class::DataLoader), (55, Class::Gpu), (5, Class::DataLoader)];
    assert_eq!(seen[..3], changes);
    // There is no earlier one, and the footer says so.
    assert_eq!(seen[3], changes[2]);
    assert!(text(&app, SIZE).contains("no earlier change of the verdict"));
    type_text(&mut app, "]]");
    assert_eq!(shown(&app), 70);
}

#[test]
fn the_cursor_stays_in_the_picture_at_every_scale() {
    let mut app = running(PLAIN, SIZE, Job::default());
    for _ in 0..50 {
        press(&mut app, KeyCode::Left);
    }
    let here = shown(&app);
    for key in ["++++", "-------", "++++++"] {
        type_text(&mut app, key);
        assert_eq!(shown(&app), here);
        assert!(text(&app, SIZE).contains('▲'), "{}", text(&app, SIZE));
    }
}

#[test]
fn far_moves_stop_at_the_ends() {
    let mut app = running(PLAIN, SIZE, Job::default());
    type_text(&mut app, ",");
    assert_eq!(shown(&app), 84);
    type_text(&mut app, ".");
    assert_eq!(shown(&app), 90);
    type_text(&mut app, "{");
    assert_eq!(shown(&app), 1);
    type_text(&mut app, ".");
    assert_eq!(shown(&app), 7);
    type_text(&mut app, "}");
    assert!(app.job().is_live());
}

#[test]
fn a_click_on_a_chart_looks_at_that_moment() {
    let mut app = running(PLAIN, SIZE, Job::default());
    let screen = text(&app, SIZE);
    let row = screen.lines().position(|line| line.starts_with("╭─ GPU 0")).unwrap();
    let row = u16::try_from(row).unwrap() + 1;
    // The charts of the left column begin beside their axis, end before their frame, and show a minute.
    click(&mut app, 38, row);
    assert!(shown(&app) >= 88, "{}", shown(&app));
    // Seconds 61 to 64 were not seen.
    click(&mut app, 23, row);
    assert!((56..=60).contains(&shown(&app)), "{}", shown(&app));
    click(&mut app, 0, row);
    assert!((56..=60).contains(&shown(&app)), "a click on a frame moves nothing");
}

#[test]
fn a_recording_plays_from_its_beginning_at_its_speed() {
    let mut app = recording(SIZE);
    assert_eq!(shown(&app), 1);
    let header = text(&app, SIZE).lines().next().unwrap().to_owned();
    assert!(header.contains("REPLAY") && header.contains("0 s of 1m29s") && header.contains("1.0×"), "{header}");
    assert!(app.job().due_s().is_some_and(|due| (0.9..=1.0).contains(&due)));
    for _ in 0..25 {
        app.step(Message::Advance(0.1));
    }
    assert_eq!(shown(&app), 3);
    type_text(&mut app, ">>>");
    app.step(Message::Advance(1.0));
    assert_eq!(shown(&app), 13);
    type_text(&mut app, " ");
    assert_eq!(app.job().due_s(), None);
    assert!(app.step(Message::Advance(5.0)).is_empty());
    assert!(text(&app, SIZE).contains("REPLAY PAUSED"));
    type_text(&mut app, " ]");
    assert_eq!(shown(&app), 55);
}

#[test]
fn a_recording_stops_at_its_end_and_begins_anew() {
    let mut app = recording(SIZE);
    type_text(&mut app, "}");
    assert_eq!(shown(&app), 90);
    app.step(Message::Advance(1.0));
    assert_eq!((shown(&app), app.job().due_s()), (90, None));
    type_text(&mut app, " ");
    assert_eq!(shown(&app), 1);
    assert!(app.job().due_s().is_some());
}

#[test]
fn a_replay_that_has_caught_up_with_its_file_goes_on_when_more_is_read() {
    let mut app = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, SIZE);
    tell(&mut app, frame(1, Job::default()), data_loader());
    assert_eq!(app.job().due_s(), None);
    tell(&mut app, frame(2, Job::default()), data_loader());
    assert!(app.job().due_s().is_some());
    app.step(Message::Advance(1.0));
    assert_eq!(shown(&app), 2);
}

#[test]
fn the_hour_before_can_be_looked_at_while_data_keeps_coming() {
    let mut app = running(PLAIN, SIZE, Job { seconds: 700, ..Job::default() });
    type_text(&mut app, "{");
    let oldest = shown(&app);
    assert_eq!(oldest, 1);
    for t in 701..760 {
        assert!(tell(&mut app, frame(t, Job::default()), data_loader()).is_empty());
    }
    assert_eq!(shown(&app), oldest);
    type_text(&mut app, "}");
    assert_eq!(shown(&app), 759);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_wandering_through_time_panics_or_loses_the_picture(
        moves in prop::collection::vec(prop::sample::select("[]{},.<>+- hH5".chars().collect::<Vec<_>>()), 0..60),
        steps in prop::collection::vec((0u64..2000, any::<bool>()), 0..20),
        replayed in any::<bool>(),
    ) {
        let mut app = if replayed { recording((80, 24)) } else { running(PLAIN, (80, 24), Job::default()) };
        for (key, (t, frame_first)) in moves.into_iter().zip(steps.into_iter().cycle()) {
            if frame_first {
                // Sequences may repeat and clocks may go backwards in a damaged recording.
                tell(&mut app, frame(t, Job::default()), data_loader());
            }
            press(&mut app, KeyCode::Char(key));
            press(&mut app, if t % 2 == 0 { KeyCode::Left } else { KeyCode::Right });
            app.step(Message::Advance(t as f64 / 100.0));
            prop_assert!(app.job().frame().is_some());
            draw(&app, (80, 24));
        }
    }
}

#[test]
fn what_lies_over_the_charts_takes_no_seeks_for_them() {
    let mut app = running(PLAIN, SIZE, Job::default());
    let seeks = |app: &App| {
        (0..SIZE.1).any(|row| {
            let mut app = app.clone();
            app.step(mouse(MouseEventKind::Drag(MouseButton::Left), SIZE.0 - 20, row));
            !app.job().is_live()
        })
    };
    assert!(seeks(&app));
    type_text(&mut app, "o");
    assert!(!seeks(&app));
}

#[test]
fn a_verdict_of_the_past_is_the_same_to_the_last_digit() {
    let mut app = running(PLAIN, SIZE, Job::default());
    type_text(&mut app, "{");
    (0..10).for_each(|_| {
        press(&mut app, KeyCode::Right);
    });
    assert_eq!((shown(&app), app.job().verdict()), (11, Some(&data_loader())));
}

#[test]
fn on_a_thin_line_a_recording_holds_its_numbers_while_it_plays() {
    let mut app = recording(SIZE);
    let live = app.job().clone();
    let options = AppOptions { theme: PLAIN, low_bandwidth: true, ..AppOptions::default() };
    app = App::new(live, options, SIZE);
    assert_eq!(shown(&app), 1);
    let mut seen = Vec::new();
    for _ in 0..20 {
        app.step(Message::Advance(1.0));
        seen.push(shown(&app));
    }
    seen.dedup();
    assert!((4..=6).contains(&seen.len()), "numbers of a few moments: {seen:?}");
    // Another verdict is worth its bytes at once: it comes at second 5.
    assert!(seen.contains(&5), "{seen:?}");
    // Ten times as fast it is still one picture a second.
    assert_eq!(app.job().due_s(), Some(1.0));
    type_text(&mut app, ">>>");
    assert_eq!(app.job().due_s(), Some(1.0));
    // Who stops it sees the moment itself, and the same by steps.
    type_text(&mut app, " ");
    assert_eq!(shown(&app), 21);
    press(&mut app, KeyCode::Left);
    assert_eq!(shown(&app), 20);
    assert!(!text(&app, SIZE).contains("▲now"), "a picture that stands needs no sweep");
}

/// Cells of the body that stand out in reverse.
fn reversed(app: &App, size: (u16, u16)) -> Vec<(u16, u16)> {
    let buf = draw(app, size);
    let body = body(buf.area);
    body.positions()
        .filter(|at| buf.cell(*at).unwrap().modifier.contains(Modifier::REVERSED))
        .map(|at| (at.x, at.y))
        .collect()
}

#[test]
fn every_timeline_of_every_page_is_marked_and_takes_clicks() {
    // Least rows of timelines without the time axis, by page and number of devices.
    for (page, gpus, least) in [('1', 1, 6), ('3', 1, 3), ('3', 2, 2), ('3', 8, 3), ('4', 1, 4), ('5', 1, 2)] {
        for size in [(80, 24), (120, 40), (200, 60)] {
            let mut app = running(PLAIN, size, Job { gpus, ..Job::default() });
            type_text(&mut app, &page.to_string());
            // Beside the text of many GPUs, or in the first column.
            let column = if gpus == 8 { size.0 - 20 } else { size.0 / 2 - 10 };
            let before = reversed(&app, size);
            let what = format!("page {page}, {gpus} GPUs, {size:?}");
            let mut takes = 0;
            for row in 1..size.1 - 1 {
                let mut clicked = app.clone();
                click(&mut clicked, column, row);
                if clicked.job().is_live() {
                    continue;
                }
                takes += 1;
                let mut marked = reversed(&clicked, size);
                marked.retain(|cell| !before.contains(cell));
                // Every timeline is marked: the one that was clicked where the click was.
                let rows: std::collections::BTreeSet<u16> = marked.iter().map(|(_, y)| *y).collect();
                assert!(rows.len() > least / 2, "{what}: {rows:?}");
                // A click marks the end of the second that it is in.
                let second = (size.0 / 60 + 1).max(3);
                let near = |(x, y): &(u16, u16)| *y == row && x.abs_diff(column) <= second;
                let is_ruler = !rows.contains(&row);
                assert!(is_ruler || marked.iter().any(near), "{what}, row {row}: {marked:?}");
            }
            assert!(takes > least.min(usize::from(size.1) / 3), "{what}: {takes}");
        }
    }
}
