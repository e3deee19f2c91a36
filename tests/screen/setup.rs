//! The settings on the screen, and how the screen is arranged when it is opened and left.

use crate::app::*;
use crossterm::event::KeyCode;
use trainmon::tui::pages::Page;
use trainmon::tui::pages::processes::{ProcessColumn, Sort};
use trainmon::tui::theme::{Depth, Theme};
use trainmon::tui::{App, AppOptions, Effect, Layout};

fn opened(options: AppOptions, size: (u16, u16)) -> App {
    let mut app = App::new(job(), options, size);
    press(&mut app, KeyCode::F(2));
    app
}

/// Goes to a row of the list and presses a key there.
fn at(app: &mut App, row: usize, code: KeyCode) -> Vec<Effect> {
    press(app, KeyCode::Home);
    for _ in 0..row {
        press(app, KeyCode::Down);
    }
    press(app, code)
}

#[test]
fn the_settings_stand_in_a_list() {
    let mut app = running(*COLOR, (80, 24), Job::default());
    press(&mut app, KeyCode::Char('C'));
    insta::assert_snapshot!("setup_80x24", text(&app, (80, 24)));
    at(&mut app, 6, KeyCode::Enter);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('-'));
    insta::assert_snapshot!("setup_columns_80x24", text(&app, (80, 24)));
    let mut ascii = running(Theme::plain(true), (80, 24), Job::default());
    press(&mut ascii, KeyCode::F(2));
    assert!(text(&ascii, (80, 24)).is_ascii());
}

#[test]
fn on_a_thin_line_charts_are_swept() {
    let mut app = running(*COLOR, (120, 40), Job { seconds: 90, ..Job::default() });
    press(&mut app, KeyCode::F(2));
    let effects = at(&mut app, 2, KeyCode::Char(' '));
    assert!(effects.contains(&Effect::Repaint));
    press(&mut app, KeyCode::Esc);
    insta::assert_snapshot!("low_bandwidth_120x40", text(&app, (120, 40)));
}

#[test]
fn every_setting_changes_what_it_says() {
    let mut app = opened(AppOptions { theme: *COLOR, mouse: true, ..AppOptions::default() }, (100, 30));
    let word = |app: &App| app.layout().theme.unwrap().to_string();
    assert_eq!(word(&app), "auto");
    at(&mut app, 0, KeyCode::Right);
    assert_eq!(word(&app), "dark");
    press(&mut app, KeyCode::Left);
    press(&mut app, KeyCode::Left);
    assert_eq!(word(&app), "high-contrast", "round the end");
    at(&mut app, 1, KeyCode::Right);
    let scale = |app: &App| app.layout().time_scale.unwrap().to_string();
    assert_eq!(scale(&app), "2m", "the next after the minute that auto ends with");
    for _ in 0..4 {
        press(&mut app, KeyCode::Left);
    }
    assert_eq!(scale(&app), "auto", "past the end");
    press(&mut app, KeyCode::Right);
    at(&mut app, 2, KeyCode::Enter);
    assert_eq!(app.layout().low_bandwidth, Some(true));
    assert_eq!(at(&mut app, 3, KeyCode::Enter)[0], Effect::Mouse(false));
    assert_eq!(app.layout().mouse, Some(false));
    at(&mut app, 4, KeyCode::Enter);
    assert!(text(&app, (100, 30)).is_ascii());
    let colored = |app: &App| draw(app, (100, 30)).content.iter().any(|c| c.fg != ratatui::style::Color::Reset);
    assert!(colored(&app));
    at(&mut app, 5, KeyCode::Enter);
    assert!(!colored(&app));
    let before = text(&app, (100, 30));
    at(&mut app, 7, KeyCode::Enter);
    assert!(before.contains("config file: signals = true") && text(&app, (100, 30)).contains("off"));
    press(&mut app, KeyCode::Esc);
    assert!(!text(&app, (100, 30)).contains("Settings"));
}

#[test]
fn a_terminal_without_colors_gets_none() {
    let mut app =
        opened(AppOptions { theme: Theme::plain(false), depth: Depth::None, ..AppOptions::default() }, (100, 30));
    at(&mut app, 5, KeyCode::Enter);
    assert!(text(&app, (100, 30)).contains("this terminal has no colors"));
    assert!(draw(&app, (100, 30)).content.iter().all(|c| c.fg == ratatui::style::Color::Reset));
}

#[test]
fn columns_are_hidden_shown_and_moved_and_one_stays() {
    let mut app = opened(AppOptions::default(), (100, 30));
    at(&mut app, 6, KeyCode::Enter);
    let columns = |app: &App| app.layout().columns.unwrap();
    let all = columns(&app);
    press(&mut app, KeyCode::Char(' '));
    assert_eq!(columns(&app), all[1..]);
    // The selection has stayed on its column: the same key shows it again, as the last.
    press(&mut app, KeyCode::Char(' '));
    assert_eq!(columns(&app).last(), Some(&ProcessColumn::Pid));
    press(&mut app, KeyCode::Char('-'));
    assert_eq!(columns(&app)[all.len() - 2], ProcessColumn::Pid);
    press(&mut app, KeyCode::Char('+'));
    press(&mut app, KeyCode::Char('+'));
    assert_eq!(columns(&app).last(), Some(&ProcessColumn::Pid));
    for _ in 0..40 {
        press(&mut app, KeyCode::Home);
        press(&mut app, KeyCode::Char(' '));
    }
    assert_eq!(columns(&app).len(), 1);
    press(&mut app, KeyCode::Esc);
    assert!(text(&app, (100, 30)).contains("Theme"), "back to the settings");
}

#[test]
fn the_screen_opens_as_it_was_left() {
    let layout = Layout {
        page: Some(Page::Processes),
        time_scale: "10m".parse().ok(),
        sort: Some(Sort { column: ProcessColumn::Memory, reversed: true }),
        columns: Some(vec![ProcessColumn::Memory, ProcessColumn::Pid]),
        tree: Some(true),
        threads: Some(true),
        theme: "light".parse().ok(),
        low_bandwidth: Some(true),
        mouse: Some(false),
    };
    let options = AppOptions { layout: layout.clone(), low_bandwidth: true, mouse: false, ..AppOptions::default() };
    let mut app = App::new(job(), options, (80, 24));
    assert_eq!(app.page(), Page::Processes);
    // Everything but the page is kept.
    let layout = Layout { page: None, ..layout };
    assert_eq!(app.layout(), layout);
    press(&mut app, KeyCode::Char('1'));
    press(&mut app, KeyCode::Char('+'));
    let changed = app.layout().changed_since(&layout);
    let expected = Layout { time_scale: "5m".parse().ok(), ..Layout::default() };
    assert_eq!(changed, expected);
}
