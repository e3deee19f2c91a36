//! The list of jobs, over a page and as the first screen; several jobs; the end of one; eight ranks.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::{KeyCode, MouseButton, MouseEventKind};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Class, Rank};
use trainmon::jobs::JobCandidate;
use trainmon::tui::{App, AppOptions, Effect, Message, Theme};
use trainmon::waits::Frame;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const SECOND: JobKey = JobKey(1);

/// Presses keys: `\n` Enter, `\x1b` Esc, `^` up, `v` down.
fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    keys.chars().flat_map(|c| app.step(key(code(c)))).collect()
}

fn code(c: char) -> KeyCode {
    match c {
        '\n' => KeyCode::Enter,
        '\x1b' => KeyCode::Esc,
        '^' => KeyCode::Up,
        'v' => KeyCode::Down,
        c => KeyCode::Char(c),
    }
}

fn candidates() -> Vec<JobCandidate> {
    vec![
        JobCandidate {
            pid: 4321,
            command: "python -m torch.distributed.run --nproc-per-node 8 finetune.py --model /models/13b --data \
                      /data/corpus --sequence-length 4096 --gradient-checkpointing"
                .into(),
            user: Some("ann".into()),
            uid: Some(1000),
            state: Some('S'),
            cpu_pct: Some(873.0),
            rss_bytes: Some(61 << 30),
            gpu_memory_bytes: Some(512 << 30),
            gpu_pct: Some(730.0),
            workers: 32,
            library: Some("libtorch_cuda.so".into()),
            age_s: Some(93_800),
        },
        JobCandidate {
            pid: 1234,
            command: "python train.py".into(),
            gpu_memory_bytes: Some(6 << 30),
            age_s: Some(900),
            ..JobCandidate::default()
        },
        JobCandidate {
            pid: 777,
            command: "python notebook.py".into(),
            library: Some("libtensorflow_framework.so.2".into()),
            age_s: Some(40),
            ..JobCandidate::default()
        },
    ]
}

/// A screen with two jobs, the second one GPU-bound and shown.
fn two_jobs(theme: Theme, size: (u16, u16)) -> App {
    let mut app = running(theme, size, Job::default());
    let target = Target { pid: 2222, command: "python other.py --fast".into() };
    app.step(Message::Attached(SECOND, target));
    for t in 1..=30 {
        let verdict = other(Class::Gpu, Some(Cause::ComputeBound), "The GPU is busy 97 % of the time.");
        tell_of(&mut app, SECOND, frame(t, Job::default()), verdict);
    }
    app
}

fn list(theme: Theme, size: (u16, u16)) -> App {
    let mut app = two_jobs(theme, size);
    press(&mut app, "o");
    app.step(Message::Candidates(candidates()));
    app
}

fn picker(theme: Theme, size: (u16, u16), list: Vec<JobCandidate>) -> App {
    let mut picker = App::picker(AppOptions { theme, ..AppOptions::default() }, size);
    picker.step(Message::Candidates(list));
    picker
}

/// The text of the row that is selected.
fn selected(buf: &Buffer) -> String {
    let all = rows(buf);
    let last = buf.area.height - 1;
    let row = (2..last).find(|y| buf.cell((3, *y)).unwrap().modifier.contains(Modifier::REVERSED));
    row.map_or_else(String::new, |y| all[usize::from(y)].clone())
}

#[test]
fn the_list_fits_over_a_page_at_every_size() {
    for size in SIZES {
        let mut app = list(PLAIN, size);
        insta::assert_snapshot!(format!("list_{}x{}", size.0, size.1), text(&app, size));
        press(&mut app, "v");
        insta::assert_snapshot!(format!("list_candidate_{}x{}", size.0, size.1), text(&app, size));
    }
    let ascii = text(&list(ASCII, (80, 24)), (80, 24));
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("list_ascii", ascii);
}

#[test]
fn small_terminals_still_choose() {
    for size in [(40, 10), (20, 5), (60, 15)] {
        let mut first = picker(PLAIN, size, candidates());
        draw(&first, size);
        if size.1 >= 10 {
            let shown = text(&first, size);
            assert!(shown.contains("4321"), "{size:?}: {shown}");
            first.update(key(KeyCode::Down));
            assert!(text(&first, size).contains("1234"));
        }
    }
    let before = text(&App::picker(AppOptions { theme: PLAIN, ..AppOptions::default() }, (80, 24)), (80, 24));
    assert!(before.contains("looking for training processes"), "{before}");
}

#[test]
fn the_first_screen_lists_candidates_at_every_size() {
    for size in SIZES {
        let shown = text(&picker(PLAIN, size, candidates()), size);
        assert!(shown.contains("--gradient-checkpointing"), "the whole command line: {shown}");
        insta::assert_snapshot!(format!("picker_{}x{}", size.0, size.1), shown);
    }
    let ascii = text(&picker(ASCII, (80, 24), candidates()), (80, 24));
    assert!(ascii.is_ascii(), "{ascii}");
    let empty = text(&picker(PLAIN, (80, 24), Vec::new()), (80, 24));
    assert!(empty.contains("processes that hold GPU memory"), "{empty}");
    insta::assert_snapshot!("picker_empty", empty);
}

#[test]
fn the_first_screen_chooses_quits_and_takes_any_pid() {
    let mut first = picker(PLAIN, (80, 24), candidates());
    assert_eq!(first.update(key(KeyCode::Enter)), [Effect::Attach(4321), Effect::Redraw]);
    first.update(key(KeyCode::End));
    assert_eq!(first.update(key(KeyCode::Enter)), [Effect::Attach(777), Effect::Redraw]);
    for c in "p98765".chars() {
        first.update(key(KeyCode::Char(c)));
    }
    assert_eq!(first.update(key(KeyCode::Enter)), [Effect::Attach(98765), Effect::Redraw]);
    first.update(Message::Notice("no process 98765".into()));
    assert!(text(&first, (80, 24)).contains("no process 98765"));
    assert_eq!(first.update(key(KeyCode::Esc)), [Effect::Redraw], "Esc never quits");
    first.update(key(KeyCode::Char('/')));
    assert_ne!(first.update(key(KeyCode::Char('q'))), [Effect::Quit], "typed into the filter");
    first.update(key(KeyCode::Esc));
    assert_eq!(first.update(key(KeyCode::Char('q'))), [Effect::Quit]);
    assert_eq!(App::picker(AppOptions::default(), (80, 24)).update(key(KeyCode::Enter)), []);
}

#[test]
fn a_selection_stays_with_its_process_when_the_list_changes() {
    let size = (80, 24);
    let mut first = picker(PLAIN, size, candidates());
    first.update(key(KeyCode::Down));
    assert!(selected(&draw(&first, size)).contains(" 1234 "));
    let mut turned = candidates();
    turned.reverse();
    first.update(Message::Candidates(turned.clone()));
    assert!(selected(&draw(&first, size)).contains(" 1234 "));
    turned.retain(|c| c.pid != 1234);
    first.update(Message::Candidates(turned));
    assert!(selected(&draw(&first, size)).contains(" 4321 "), "the one that has taken its place");
    // The first one that was shown stays selected although nobody has moved yet.
    let mut untouched = picker(PLAIN, size, vec![candidates()[2].clone()]);
    untouched.update(Message::Candidates(candidates()));
    assert_eq!(untouched.update(key(KeyCode::Enter))[0], Effect::Attach(777));
}

#[test]
fn enter_shows_an_attached_job_and_attaches_to_others() {
    let size = (120, 40);
    let mut app = list(PLAIN, size);
    assert_eq!(app.job().key, SECOND);
    press(&mut app, "^\n");
    assert_eq!(app.job().key, JobKey::default());
    assert!(text(&app, size).contains("job 1/2 · "));
    press(&mut app, "o");
    app.step(Message::Candidates(candidates()));
    assert!(!text(&app, size).contains("3 more"));
    assert_eq!(
        press(&mut app, "777\n"),
        [Effect::Redraw, Effect::Redraw, Effect::Redraw, Effect::Attach(777), Effect::Redraw]
    );
    // What is watched already is shown instead, and never listed twice.
    assert_eq!(press(&mut app, "p2222\n").last(), Some(&Effect::Redraw));
    assert_eq!(app.job().key, SECOND);
    press(&mut app, "o/train.py\n");
    app.step(Message::Candidates(candidates()));
    let shown = text(&app, size);
    assert_eq!(shown.matches(" 1234 ").count(), 1, "{shown}");
}

#[test]
fn next_job_goes_round_and_pages_stay() {
    let mut app = two_jobs(PLAIN, (120, 40));
    press(&mut app, "8J");
    assert_eq!(app.job().key, JobKey::default());
    assert!(text(&app, (120, 40)).contains("Evidence"));
    press(&mut app, "J");
    assert_eq!(app.job().key, SECOND);
    let mut alone = running(PLAIN, (120, 40), Job::default());
    press(&mut alone, "J");
    assert!(text(&alone, (120, 40)).contains("no other job"));
}

#[test]
fn each_job_keeps_its_own_past_and_its_own_cursor() {
    let size = (120, 40);
    let mut app = two_jobs(PLAIN, size);
    press(&mut app, "J ");
    assert!(text(&app, size).contains("PAUSED"));
    press(&mut app, "J");
    assert!(!text(&app, size).contains("PAUSED"));
    for t in 91..120 {
        let effects = tell(&mut app, frame(t, Job::default()), data_loader());
        assert!(effects.is_empty(), "what is not shown is not drawn");
    }
    press(&mut app, "J");
    assert_eq!(app.job().archive().len(), 86 + 29);
    let ago = app.job().archive().last().unwrap().monotonic_ns - app.job().cursor().unwrap().frame.monotonic_ns;
    assert_eq!(ago, 29_000_000_000, "the cursor stays where it stood");
    assert!(text(&app, size).contains("PAUSED"), "{}", text(&app, size));
}

#[test]
fn a_cursor_is_in_the_picture_whatever_the_scale_was_meanwhile() {
    let size = (120, 40);
    let mut app = two_jobs(PLAIN, size);
    press(&mut app, "J ");
    (0..40).for_each(|_| {
        app.step(key(KeyCode::Left));
    });
    assert!(text(&app, size).contains('▲'));
    press(&mut app, "J++J");
    assert!(text(&app, size).contains("PAUSED") && text(&app, size).contains('▲'), "{}", text(&app, size));
}

#[test]
fn letting_go_is_confirmed_and_never_takes_the_last_job() {
    let mut app = list(PLAIN, (80, 24));
    assert_eq!(press(&mut app, "xn"), [Effect::Redraw, Effect::Redraw]);
    assert_eq!(app.jobs().len(), 2);
    press(&mut app, "x");
    assert!(text(&app, (80, 24)).contains("Stop watching process 2222"));
    assert_eq!(press(&mut app, "y"), [Effect::Detach(SECOND), Effect::Redraw]);
    assert_eq!((app.jobs().len(), app.job().key), (1, JobKey::default()));
    let after = text(&app, (80, 24));
    assert!(after.contains("1 attached"), "the list stays open: {after}");
    app.step(key(KeyCode::Home));
    assert_eq!(press(&mut app, "xy"), [Effect::Redraw]);
    assert_eq!(app.jobs().len(), 1);
    // A candidate cannot be let go of.
    app.step(key(KeyCode::End));
    assert_eq!(app.step(key(KeyCode::Delete)), []);
    // A tick that was under way when it went is for nobody.
    assert_eq!(tell_of(&mut app, SECOND, frame(31, Job::default()), data_loader()), []);
}

#[test]
fn letting_another_job_go_keeps_the_shown_one_shown() {
    let mut app = list(PLAIN, (80, 24));
    press(&mut app, "^xy");
    assert_eq!((app.jobs().len(), app.job().key), (1, SECOND));
}

#[test]
fn one_click_selects_and_the_second_opens() {
    let size = (80, 24);
    let mut app = list(PLAIN, size);
    let row = rows(&draw(&app, size)).iter().position(|row| row.contains(" 777 ")).unwrap() as u16;
    assert_eq!(click(&mut app, 10, row), [Effect::Redraw]);
    assert!(selected(&draw(&app, size)).contains(" 777 "));
    assert_eq!(click(&mut app, 10, row), [Effect::Attach(777), Effect::Redraw]);
    // Headings, borders and the preview are no rows.
    for y in [0, 1, 2, size.1 - 2, size.1 - 1] {
        assert_eq!(click(&mut app, 10, y), []);
    }
}

#[test]
fn digits_jump_and_what_is_no_pid_is_said() {
    let size = (80, 24);
    let mut app = list(PLAIN, size);
    press(&mut app, "43");
    assert!(selected(&draw(&app, size)).contains(" 4321 "));
    press(&mut app, "v9");
    assert!(text(&app, size).contains("no PID in the list starts with 9"));
    press(&mut app, "pabc\n");
    assert!(text(&app, size).contains("not a PID: abc"));
    press(&mut app, "p99999999999\n");
    assert!(text(&app, size).contains("not a PID: 99999999999"));
    app.step(key(KeyCode::Char('p')));
    app.step(Message::Paste("12\n34".into()));
    assert_eq!(app.step(key(KeyCode::Enter)), [Effect::Attach(12), Effect::Redraw]);
}

#[test]
fn an_attachment_that_fails_is_told_in_a_line_and_the_list_stays() {
    let size = (80, 24);
    let mut app = list(PLAIN, size);
    app.step(Message::Notice("no process 777: it has ended".into()));
    let shown = text(&app, size);
    assert!(shown.contains("no process 777: it has ended") && shown.contains("2 attached"), "{shown}");
}

#[test]
fn two_hundred_candidates_scroll() {
    let many: Vec<JobCandidate> = (0..200)
        .map(|n| JobCandidate { pid: 10_000 + n, command: format!("python run_{n}.py"), ..JobCandidate::default() })
        .collect();
    for size in SIZES {
        let mut app = list(PLAIN, size);
        app.step(Message::Candidates(many.clone()));
        for (code, pid) in [
            (KeyCode::End, "10199"),
            (KeyCode::Up, "10198"),
            (KeyCode::Home, "1234"),
            (KeyCode::Down, "2222"),
            (KeyCode::Down, "10000"),
        ] {
            app.step(key(code));
            assert!(selected(&draw(&app, size)).contains(pid), "{code:?}: {}", text(&app, size));
        }
        app.step(key(KeyCode::PageDown));
        app.step(key(KeyCode::PageDown));
        assert!(selected(&draw(&app, size)).contains("python run_"));
        press(&mut app, "/run_19\n");
        app.step(key(KeyCode::End));
        assert!(selected(&draw(&app, size)).contains("10199"));
        app.step(Message::Resize(80, 15));
        assert!(selected(&draw(&app, (80, 15))).contains("10199"), "{}", text(&app, (80, 15)));
    }
}

fn ended(theme: Theme, size: (u16, u16)) -> App {
    running_until(theme, size, Job::default(), |last| last.alive = false)
}

#[test]
fn the_end_is_announced_with_the_run_summed_up_once() {
    for size in SIZES {
        let mut app = ended(PLAIN, size);
        let shown = text(&app, size);
        for part in ["ENDED: process 1234", "too few workers", "Watched for 1m26s: 82 steps in", "▶ Raise num"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        insta::assert_snapshot!(format!("ended_{}x{}", size.0, size.1), shown);
        assert_eq!(press(&mut app, "\x1b"), [Effect::Redraw]);
        assert!(!text(&app, size).contains("Summary of the run"));
        press(&mut app, "8");
        assert!(!text(&app, size).contains("Summary of the run"));
        press(&mut app, "o");
        assert!(text(&app, size).contains("ENDED, data loader"), "{}", text(&app, size));
    }
    assert_eq!(press(&mut ended(PLAIN, (80, 24)), "q"), [Effect::Quit]);
    let ascii = text(&ended(ASCII, (80, 24)), (80, 24));
    assert!(ascii.is_ascii(), "{ascii}");
}

#[test]
fn the_end_of_another_job_is_told_and_summed_up_when_it_is_shown() {
    let size = (80, 24);
    let mut app = two_jobs(PLAIN, size);
    let effects = tell_end(&mut app, Some(120.0));
    assert_eq!(effects, [Effect::Redraw]);
    let shown = text(&app, size);
    assert!(
        shown.contains("another job: process 1234 ended after 2m00s") && !shown.contains("Summary of the run"),
        "{shown}"
    );
    press(&mut app, "J");
    assert!(text(&app, size).contains("Summary of the run"));
}

#[test]
fn a_question_is_not_covered_by_the_end() {
    let mut app = running(PLAIN, (80, 24), Job::default());
    press(&mut app, "e");
    tell_end(&mut app, None);
    assert!(!text(&app, (80, 24)).contains("Summary of the run"));
    press(&mut app, "\x1b");
    assert!(text(&app, (80, 24)).contains("Summary of the run"));
}

fn ranked(t: u64) -> Frame {
    let mut f = frame(t, Job { workers: 64, gpus: 16, seconds: 0 });
    let one = f.ranks[0].clone();
    f.ranks = (0..8)
        .map(|number| {
            let mut rank = one.clone();
            rank.id = id(1234 + number);
            if number == 5 {
                (rank.split_s.input_wait, rank.split_s.host_busy) = (0.85, 0.05);
            }
            rank
        })
        .collect();
    for (index, gpu) in f.gpus.iter_mut().enumerate() {
        // Two for each rank.
        gpu.job_pids = vec![1234 + index as u32 / 2];
    }
    f
}

fn eight_ranks(theme: Theme, size: (u16, u16)) -> App {
    let mut app = fresh(theme, size);
    let mut verdict = data_loader();
    verdict.ranks = (0..8).map(|rank| Rank { pid: 1234 + rank, straggler: rank == 5, ..Rank::default() }).collect();
    let verdict = Arc::new(verdict);
    for t in 1..=90 {
        tell(&mut app, ranked(t), Arc::clone(&verdict));
    }
    app
}

#[test]
fn eight_ranks_sixteen_gpus_and_sixty_four_workers_keep_the_overview() {
    for size in SIZES {
        let shown = text(&eight_ranks(PLAIN, size), size);
        let (gpus, workers) = if size == (80, 24) { ("2 GPUs", "8 ranks") } else { ("16 GPUs", "64 workers") };
        for part in ["too few workers", "▶ Raise", gpus, "the others wait for rank 5", "5!    1239", workers] {
            assert!(shown.contains(part), "{part} at {size:?}: {shown}");
        }
        for rank in (0..8).filter(|_| size.1 > 24) {
            assert!(shown.contains(&format!("{}", 1234 + rank)), "rank {rank}: {shown}");
        }
        insta::assert_snapshot!(format!("ranks_{}x{}", size.0, size.1), shown);
    }
    assert!(text(&eight_ranks(ASCII, (80, 24)), (80, 24)).is_ascii());
}

#[test]
fn hostile_names_reach_no_cell_raw() {
    for size in [(80, 24), (40, 10), (200, 60)] {
        for theme in [PLAIN, ASCII] {
            for name in HOSTILE_NAMES {
                let long = name.repeat(300);
                let hostile = JobCandidate {
                    pid: 5,
                    command: long.clone(),
                    user: Some(long.clone()),
                    uid: Some(1000),
                    library: Some(long.clone()),
                    state: Some('\u{202E}'),
                    ..JobCandidate::default()
                };
                let mut app = two_jobs(theme, size);
                app.step(Message::Attached(JobKey(2), Target { pid: 6, command: long.clone() }));
                let mut verdict = other(Class::Io, Some(Cause::DiskBandwidth), &long);
                verdict.advice[0].title = long.clone();
                tell_of(&mut app, JobKey(2), frame(1, Job::default()), verdict.clone());
                tell_of(&mut app, JobKey(2), frame(2, Job::default()), verdict.clone());
                press(&mut app, "o");
                app.step(Message::Candidates(vec![hostile.clone()]));
                let first = picker(theme, size, vec![hostile]);
                let mut buffers = vec![draw(&app, size), draw(&first, size)];
                app.step(key(KeyCode::End));
                buffers.push(draw(&app, size));
                app.step(key(KeyCode::Char('/')));
                app.step(Message::Paste(name.into()));
                buffers.push(draw(&app, size));
                press(&mut app, "\x1b\x1b");
                let last = Tick { alive: false, ..tick(&app, JobKey(2), frame(3, Job::default()), verdict) };
                app.step(Message::Job(JobKey(2), JobEvent::Tick(last.into())));
                buffers.push(draw(&app, size));
                buffers.iter().for_each(|buf| assert_harmless(buf, theme));
            }
        }
    }
}

fn any_key() -> impl Strategy<Value = Message> {
    prop_oneof![
        8 => prop::sample::select("ojJkgGqxyn/p0123456789\n\x1b^v J7".chars().collect::<Vec<_>>()).prop_map(|c| key(code(c))),
        2 => prop::sample::select(vec![
            KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home, KeyCode::End, KeyCode::Delete, KeyCode::Backspace,
        ]).prop_map(key),
        2 => (0u16..210, 0u16..70).prop_map(|(column, row)| mouse(MouseEventKind::Down(MouseButton::Left), column, row)),
        1 => (0u16..210, 0u16..70).prop_map(|(columns, rows)| Message::Resize(columns, rows)),
        1 => prop::collection::vec(1u32..50, 0..40).prop_map(|pids| Message::Candidates(
            pids.into_iter().map(|pid| JobCandidate { pid, command: format!("python {pid}"), ..JobCandidate::default() }).collect()
        )),
        1 => (0u32..4).prop_map(|n| Message::Attached(JobKey(n + 10), Target { pid: n + 10, command: "x".into() })),
        1 => (0u32..12).prop_map(|n| Message::Job(JobKey(n), JobEvent::Tick(Arc::default()))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_storm_panics_or_loses_the_last_job(messages in prop::collection::vec(any_key(), 0..80)) {
        let mut size = (80, 24);
        let mut app = list(PLAIN, size);
        let mut first = picker(PLAIN, size, candidates());
        for message in messages {
            if let Message::Resize(columns, rows) = message {
                size = (columns, rows);
            }
            app.step(message.clone());
            first.update(message);
            prop_assert!(!app.jobs().is_empty());
            draw(&app, size);
            draw(&first, size);
        }
    }
}
