//! The process page: what it shows at every size, what its keys and clicks do, and that nothing a process calls itself
//! breaks it.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use trainmon::diagnosis::verdict::{Stages, WorkerVerdict};
use trainmon::rates::frame::ProcessRates;
use trainmon::rates::threads::ThreadRates;
use trainmon::sample::{ProcessRole, ThreadRole};
use trainmon::tui::{App, AppOptions, Effect, Message, Theme};
use trainmon::waits::Frame;

const SMALL: (u16, u16) = (80, 24);

/// A frame with everything that the page shows: a launcher, its rank with workers and a helper, threads.
fn full_frame(job: Job) -> Frame {
    let mut frame = frame(90, job);
    let launcher = ProcessRates {
        id: id(1200),
        parent: 1,
        role: ProcessRole::Launcher,
        command: Arc::from("torchrun --nproc-per-node 1 train.py"),
        state: 'S',
        rss_bytes: 90 << 20,
        threads: 2,
        ..ProcessRates::default()
    };
    frame.processes.insert(0, launcher);
    for (nth, process) in (0u32..).zip(&mut frame.processes) {
        process.nice = Some(if process.role == ProcessRole::Worker { 5 } else { 0 });
        process.cpu_time_s = Some(f64::from(nth) * 1234.5);
        process.uid = Some(1000);
        process.cpu_pct = process.cpu_pct.map(|cpu| cpu.rem_euclid(100.0));
    }
    let thread = |process, tid, role, name: &str, cpu_pct| ThreadRates {
        process: id(process),
        tid,
        role,
        name: Arc::from(name),
        cpu_pct,
        run_delay_pct: 3.0,
    };
    frame.threads = vec![
        thread(1301, 1301, ThreadRole::Main, "pt_data_worker", 93.0),
        thread(1234, 1234, ThreadRole::Main, "python", 21.0),
        thread(1234, 1250, ThreadRole::Pin, "pt_data_pin", 8.0),
        thread(1234, 1251, ThreadRole::Other, "", 1.2),
    ];
    frame
}

fn page(theme: Theme, size: (u16, u16), frame: Frame) -> App {
    page_of(AppOptions { theme, may_signal: true, ..AppOptions::default() }, size, frame)
}

fn page_of(options: AppOptions, size: (u16, u16), frame: Frame) -> App {
    let mut app = App::new(job(), options, size);
    let stages = Some(Stages { load: 0.05, decode: 0.21, transform: 0.66, collate: 0.05, hand_over: 0.01 });
    let workers = vec![WorkerVerdict { pid: 1301, idle: Some(0.02), stages, ..WorkerVerdict::default() }];
    tell(&mut app, frame, Arc::new(trainmon::diagnosis::Verdict { workers, ..data_loader() }));
    press(&mut app, KeyCode::Char('6'));
    app
}

/// The PIDs of the rows, from the top.
fn pids(app: &App, size: (u16, u16)) -> Vec<String> {
    let text = text(app, size);
    let table = text.lines().skip_while(|line| !line.contains("PID ")).skip_while(|line| !line.contains("ROLE"));
    let first = table.skip(1).map(|line| line.split_whitespace().next().unwrap_or("").to_owned());
    first.take_while(|word| word.chars().all(|c| c.is_ascii_digit()) && !word.is_empty()).collect()
}

fn selected(app: &App, size: (u16, u16)) -> String {
    use ratatui::style::Modifier;
    let buf = draw(app, size);
    let is_selected = |y: &u16| {
        let body = crate::app::body(buf.area);
        let mut row = (body.left()..body.right()).map(|x| buf.cell((x, *y)).unwrap());
        row.all(|cell| cell.modifier.contains(Modifier::REVERSED))
    };
    let y = (1..size.1 - 1).rev().find(is_selected).expect("a selected row");
    rows(&buf)[usize::from(y)].clone()
}

#[test]
fn the_table_fits_every_size() {
    for size in [SMALL, (120, 40), (200, 60)] {
        let app = page(PLAIN, size, full_frame(Job::default()));
        insta::assert_snapshot!(format!("table_{}x{}", size.0, size.1), text(&app, size));
    }
}

#[test]
fn the_tree_shows_threads() {
    for (name, theme, size) in [("tree", PLAIN, (120, 40)), ("tree_ascii", ASCII, SMALL)] {
        let mut app = page(theme, size, full_frame(Job::default()));
        press(&mut app, KeyCode::Char('t'));
        press(&mut app, KeyCode::Char('H'));
        let text = text(&app, size);
        assert!(!theme.ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn the_last_of_a_thousand_processes_is_reached() {
    let mut app = page(PLAIN, (120, 40), full_frame(Job { workers: 997, ..Job::default() }));
    press(&mut app, KeyCode::Char('P'));
    press(&mut app, KeyCode::End);
    insta::assert_snapshot!("thousand", text(&app, (120, 40)));
}

#[test]
fn the_filter_works_while_it_is_typed_and_escape_restores() {
    let mut app = page(PLAIN, SMALL, full_frame(Job::default()));
    press(&mut app, KeyCode::F(4));
    type_text(&mut app, "WORK");
    assert_eq!(pids(&app, SMALL), ["1301", "1302", "1303", "1304"]);
    press(&mut app, KeyCode::Enter);
    insta::assert_snapshot!("filter", text(&app, SMALL));
    press(&mut app, KeyCode::Char('\\'));
    type_text(&mut app, "zzz");
    assert!(text(&app, SMALL).contains("no process matches the filter"), "{}", text(&app, SMALL));
    press(&mut app, KeyCode::Esc);
    assert_eq!(pids(&app, SMALL).len(), 4);
    press(&mut app, KeyCode::F(4));
    app.step(Message::Key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)));
    press(&mut app, KeyCode::Enter);
    assert_eq!(pids(&app, SMALL).len(), 7);
}

#[test]
fn a_search_jumps_while_it_is_typed_and_goes_on() {
    let mut app = page(PLAIN, SMALL, full_frame(Job::default()));
    let start = selected(&app, SMALL);
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "worker");
    assert!(selected(&app, SMALL).contains("1301"));
    press(&mut app, KeyCode::F(3));
    assert!(selected(&app, SMALL).contains("1302"));
    press(&mut app, KeyCode::Esc);
    assert_eq!(selected(&app, SMALL), start);
    press(&mut app, KeyCode::F(3));
    type_text(&mut app, "130");
    press(&mut app, KeyCode::Enter);
    for expected in ["1302", "1303", "1304", "1301"] {
        press(&mut app, KeyCode::F(3));
        assert!(selected(&app, SMALL).contains(expected));
    }
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "nowhere");
    press(&mut app, KeyCode::Enter);
    assert!(text(&app, SMALL).contains("“nowhere” not found"), "{}", text(&app, SMALL));
}

#[test]
fn keys_and_clicks_sort() {
    let mut app = page(PLAIN, (200, 60), full_frame(Job::default()));
    let order = |app: &App| pids(app, (200, 60));
    let role = order(&app);
    assert_eq!(role, ["1234", "1301", "1302", "1303", "1304", "1200", "1290"]);
    press(&mut app, KeyCode::Char('P'));
    assert_eq!(order(&app)[..5], ["1301", "1302", "1303", "1304", "1234"]);
    press(&mut app, KeyCode::Char('I'));
    assert_eq!(order(&app)[0], "1234");
    press(&mut app, KeyCode::Char('N'));
    assert_eq!(order(&app)[..2], ["1200", "1234"]);
    press(&mut app, KeyCode::Char('T'));
    assert_eq!(order(&app)[0], "1290");
    press(&mut app, KeyCode::F(6));
    insta::assert_snapshot!("sort_menu", text(&app, (120, 40)));
    press(&mut app, KeyCode::Char('e'));
    assert_eq!(order(&app)[0], "1234", "the one with the most memory");
    let screen = rows(&draw(&app, (200, 60)));
    let heading = screen.iter().position(|row| row.contains("COMMAND")).unwrap();
    let pid = screen[heading].find("PID").unwrap();
    for first in ["1200", "1304"] {
        click(&mut app, pid as u16, heading as u16);
        assert_eq!(order(&app)[0], first);
    }
    // A row is selected by the first click and opened by the second.
    let row = heading as u16 + 3;
    click(&mut app, 30, row);
    assert!(selected(&app, (200, 60)).contains("1302"), "{}", selected(&app, (200, 60)));
    click(&mut app, 30, row);
    assert!(text(&app, (200, 60)).contains(" worker 1302 "));
}

#[test]
fn the_process_in_full_scrolls() {
    let mut frame = full_frame(Job::default());
    frame.processes[1].command = Arc::from("--some-long-argument ".repeat(200).trim_end());
    let mut app = page(PLAIN, SMALL, frame);
    press(&mut app, KeyCode::Enter);
    insta::assert_snapshot!("detail", text(&app, SMALL));
    let top = text(&app, SMALL);
    press(&mut app, KeyCode::End);
    let end = text(&app, SMALL);
    assert!(end.contains("84/84") && end != top, "{end}");
    press(&mut app, KeyCode::Up);
    assert!(text(&app, SMALL).contains("83/84"), "{}", text(&app, SMALL));
    press(&mut app, KeyCode::Home);
    assert_eq!(text(&app, SMALL), top);
}

#[test]
fn signals_are_asked_about_and_name_whom_they_hit() {
    let mut app = page(PLAIN, SMALL, full_frame(Job::default()));
    press(&mut app, KeyCode::F(9));
    insta::assert_snapshot!("signals", text(&app, SMALL));
    press(&mut app, KeyCode::Enter);
    insta::assert_snapshot!("signal_confirm", text(&app, SMALL));
    assert_eq!(press(&mut app, KeyCode::Enter), [], "only y does it");
    assert_eq!(press(&mut app, KeyCode::Char('y')), [Effect::Signal(id(1234), 15), Effect::Redraw]);
    for (key, number) in [('i', 2), ('h', 1), ('k', 9), ('u', 10), ('v', 12), ('s', 19), ('c', 18)] {
        press(&mut app, KeyCode::F(9));
        press(&mut app, KeyCode::Char(key));
        assert_eq!(press(&mut app, KeyCode::Char('y'))[0], Effect::Signal(id(1234), number));
    }
    press(&mut app, KeyCode::F(9));
    press(&mut app, KeyCode::Char('k'));
    press(&mut app, KeyCode::Char('n'));
    assert!(!text(&app, SMALL).contains("Sure?"));
}

#[test]
fn nothing_is_signalled_unless_it_is_switched_on_and_live() {
    let refused = |app: &mut App, why: &str| {
        assert_eq!(press(app, KeyCode::F(9)), [Effect::Redraw]);
        assert!(text(app, (120, 40)).contains(why), "{}", text(app, (120, 40)));
        // Whatever is pressed next confirms nothing.
        assert!(press(app, KeyCode::Char('y')).iter().all(|effect| *effect == Effect::Redraw));
    };
    let mut off =
        page_of(AppOptions { theme: PLAIN, ..AppOptions::default() }, (120, 40), full_frame(Job::default()));
    refused(&mut off, "start trainmon with --signals");
    let mut past = page(PLAIN, (120, 40), full_frame(Job::default()));
    press(&mut past, KeyCode::Char(' '));
    refused(&mut past, "this is a past moment");
    press(&mut past, KeyCode::Char(' '));
    press(&mut past, KeyCode::F(9));
    assert!(text(&past, (120, 40)).contains("SIGTERM"));
    press(&mut past, KeyCode::Esc);
    tell_end(&mut past, None);
    refused(&mut past, "has ended");
    let options = AppOptions { theme: PLAIN, may_signal: true, ..AppOptions::default() };
    let mut replay = App::new(job().recording(), options, (120, 40));
    tell(&mut replay, full_frame(Job::default()), data_loader());
    press(&mut replay, KeyCode::Char('6'));
    refused(&mut replay, "this is a recording");
}

#[test]
fn the_selection_stays_with_its_process_over_frames() {
    let mut app = page(PLAIN, SMALL, full_frame(Job::default()));
    type_text(&mut app, "jjj");
    assert!(selected(&app, SMALL).contains("1303"));
    let mut next = full_frame(Job::default());
    next.monotonic_ns += 1_000_000_000;
    next.processes.retain(|process| process.id.pid != 1301);
    tell(&mut app, next, data_loader());
    assert!(selected(&app, SMALL).contains("1303"));
}

#[test]
fn hostile_names_break_nothing() {
    for size in [(60, 15), SMALL, (200, 60)] {
        for theme in [PLAIN, ASCII] {
            for name in HOSTILE_NAMES {
                let mut frame = full_frame(Job::default());
                let long: Arc<str> = Arc::from(name.repeat(4096 / name.len()));
                for process in &mut frame.processes {
                    (process.command, process.comm) = (Arc::clone(&long), Arc::clone(&long));
                    process.state = '\x1b';
                }
                frame.threads.iter_mut().for_each(|thread| thread.name = Arc::clone(&long));
                let mut app = page(theme, size, frame);
                for keys in ["", "tH", "\\\t", "\n", "\n"] {
                    for c in keys.chars() {
                        match c {
                            '\n' => drop(press(&mut app, KeyCode::Enter)),
                            '\t' => drop(app.step(Message::Paste(name.to_owned()))),
                            c => drop(press(&mut app, KeyCode::Char(c))),
                        }
                    }
                    assert_harmless(&draw(&app, size), theme);
                }
                press(&mut app, KeyCode::F(9));
                press(&mut app, KeyCode::Char('k'));
                assert_harmless(&draw(&app, size), theme);
            }
        }
    }
}
