//! The drawn step on the page of a profile: its lanes, the cursor on its gaps, the arrow from a launch to its kernel, and the zoom.

use std::sync::Arc;

use crate::app::*;
use crate::profile::judged;
use crossterm::event::KeyCode;
use proptest::prelude::*;
use ratatui::style::Modifier;
use trainmon::profiles::drawn::{DrawnGap, DrawnLane, DrawnSlice, DrawnStep, DrawnWork, LaneKind, SliceKind};
use trainmon::tui::{App, Theme};

const SIZE: (u16, u16) = (120, 40);
const PROFILE: char = '0';

/// A step of 100 ms, as lanes of slices in milliseconds.
fn lane(kind: LaneKind, name: &str, slices: &[(f64, f64, SliceKind, &str)]) -> DrawnLane {
    let slice = |(begin, end, kind, name): &(f64, f64, SliceKind, &str)| DrawnSlice {
        begin: begin / 100.0,
        end: end / 100.0,
        kind: *kind,
        filled: 1.0,
        count: 1,
        name: (*name).into(),
    };
    let gpu = matches!(kind, LaneKind::Stream | LaneKind::Idle).then_some(0);
    let of_loop = name.starts_with("loop");
    DrawnLane { kind, gpu, of_loop, name: name.into(), slices: slices.iter().map(slice).collect() }
}

fn work(lane: usize, place: &str, name: &str, kind: SliceKind, (begin, end): (f64, f64)) -> Option<DrawnWork> {
    let (begin, end) = (begin / 100.0, end / 100.0);
    Some(DrawnWork { lane: Some(lane), place: place.into(), name: name.into(), kind: Some(kind), begin, end })
}

fn gap((begin, end): (f64, f64), by: &[(SliceKind, f64)], host: &str) -> DrawnGap {
    let host_lane = Some(1);
    let (gpu, ms) = (Some(0), end - begin);
    DrawnGap {
        gpu,
        begin: begin / 100.0,
        end: end / 100.0,
        ms,
        by: by.to_vec(),
        host: host.into(),
        host_lane,
        ..DrawnGap::default()
    }
}

/// The loop waits for data, then for the GPU; autograd's thread launches the last kernel, on another stream.
pub fn step() -> DrawnStep {
    use SliceKind::{Annotation, Compute, Copy, Data, Launch, Operator, Sync};
    let launch = "cudaLaunchKernel in aten::mm, train.py:41";
    let sync = "cudaStreamSynchronize in aten::item, train.py:52";
    let lanes = vec![
        lane(LaneKind::Annotations, "annotations", &[(0.0, 40.0, Annotation, "enumerate(DataLoader)")]),
        lane(
            LaneKind::Thread,
            "loop, thread 1234",
            &[
                (0.0, 40.0, Data, "enumerate(DataLoader)"),
                (40.0, 41.0, Operator, "aten::mm"),
                (41.0, 41.006, Launch, launch),
                (41.006, 50.0, Operator, "aten::mm"),
                (50.0, 78.0, Sync, sync),
                (78.0, 100.0, Annotation, "in no operator"),
            ],
        ),
        lane(
            LaneKind::Thread,
            "backward, thread 1240",
            &[(78.0, 80.0, Operator, "MmBackward0"), (80.0, 80.2, Launch, "")],
        ),
        lane(LaneKind::Stream, "GPU 0, stream 7", &[(41.01, 72.0, Compute, "gemm bf16 (cutlass sm80)")]),
        lane(
            LaneKind::Stream,
            "GPU 0, stream 20",
            &[(0.0, 2.0, Copy, "to the GPU"), (81.0, 98.0, Compute, "gemm bf16")],
        ),
        lane(
            LaneKind::Idle,
            "GPU 0 idle",
            &[
                (2.0, 40.0, Data, ""),
                (40.0, 41.01, Operator, ""),
                (72.0, 78.0, Sync, ""),
                (78.0, 81.0, Operator, ""),
                (98.0, 100.0, Annotation, ""),
            ],
        ),
    ];
    let first = DrawnGap {
        work: work(3, "stream 7", "gemm bf16 (cutlass sm80)", Compute, (41.01, 72.0)),
        call: work(1, "thread 1234", launch, Launch, (41.0, 41.006)),
        ..gap((2.0, 41.01), &[(Data, 38.0), (Operator, 1.01)], "enumerate(DataLoader), train.py:38")
    };
    let second = DrawnGap {
        work: work(4, "stream 20", "gemm bf16", Compute, (81.0, 98.0)),
        call: work(2, "thread 1240", "cudaLaunchKernel in MmBackward0", Launch, (80.0, 80.2)),
        ..gap((72.0, 81.0), &[(Sync, 6.0), (Operator, 3.0)], sync)
    };
    let last = DrawnGap { goes_on: true, ..gap((98.0, 100.0), &[(Annotation, 2.0)], "in no operator") };
    let gaps = vec![first, second, last];
    DrawnStep { step: Some((3, 6)), length_ms: 100.0, lanes, left_out: 1, gaps }
}

/// The page with this step.
fn page(theme: Theme, size: (u16, u16), step: DrawnStep) -> App {
    let mut app = fresh(theme, size);
    let mut verdict = judged();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).drawn = Some(step);
    tell(&mut app, frame(1, Job::default()), verdict);
    press(&mut app, KeyCode::Char(PROFILE));
    app
}

/// Column and row of a text on the screen.
fn at(app: &App, size: (u16, u16), what: &str) -> (u16, u16) {
    let rows = rows(&draw(app, size));
    let y = rows.iter().position(|row| row.contains(what)).unwrap_or_else(|| panic!("{what}\n{}", rows.join("\n")));
    let x = rows[y].find(what).map(|byte| rows[y][..byte].chars().count()).unwrap();
    (x as u16, y as u16)
}

const FIRST: &str = "GPU 0 idle 39 ms: the loop waits for data, train.py:38";
const SECOND: &str = "GPU 0 idle 9 ms: a call waits for the GPU, cudaStreamSynchronize in aten::item, train.py:52";
const LAST: &str = "GPU 0 idle 2 ms: the host is in no operator";

#[test]
fn the_longest_gap_comes_first_and_is_told_in_words() {
    let screen = text(&page(PLAIN, SIZE, step()), SIZE);
    for said in [
        "Step 3 of 6 · 100 ms",
        "gap 1 of 3 by length",
        FIRST,
        "ended by gemm bf16 (cutlass sm80) on stream 7, launched 10 µs before by cudaLaunchKernel in aten::mm, train.py:41",
    ] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    let narrow = text(&page(PLAIN, (80, 24), step()), (80, 24));
    assert!(narrow.contains(FIRST) && narrow.contains("loop 1234") && narrow.contains("stream 7"), "{narrow}");
    let narrow = text(&page(PLAIN, (80, 28), step()), (80, 28));
    assert!(
        narrow.contains("ended by gemm bf16 (cutlass sm…, launched 10 µs before by aten::mm, train.py:41"),
        "{narrow}"
    );
}

#[test]
fn keys_move_the_cursor_in_time_and_by_length() {
    let mut app = page(PLAIN, SIZE, step());
    let says = |app: &App, what: &str| {
        let screen = text(app, SIZE);
        assert!(screen.contains(what), "{what}\n{screen}");
    };
    for (key, said) in [
        (KeyCode::Right, SECOND),
        (KeyCode::Right, LAST),
        (KeyCode::Right, "goes on after the end of the step"),
        (KeyCode::Left, "gap 2 of 3 by length"),
        (KeyCode::Left, FIRST),
        (KeyCode::Left, FIRST),
        (KeyCode::Char(']'), SECOND),
        (KeyCode::Char(']'), LAST),
        (KeyCode::Char(']'), LAST),
        (KeyCode::Char('['), SECOND),
        (KeyCode::Char('['), FIRST),
        (KeyCode::Char('['), FIRST),
    ] {
        press(&mut app, key);
        says(&app, said);
    }
    // A new verdict with the same profile keeps the gap; another profile begins at its longest.
    press(&mut app, KeyCode::Right);
    let mut verdict = judged();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).drawn = Some(step());
    tell(&mut app, frame(2, Job::default()), verdict.clone());
    says(&app, SECOND);
    let mut other = step();
    other.gaps.pop();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).drawn = Some(other);
    tell(&mut app, frame(3, Job::default()), verdict);
    says(&app, FIRST);
    says(&app, "gap 1 of 2 by length");
}

#[test]
fn the_keys_do_as_everywhere_on_other_pages_and_without_a_step() {
    let mut app = page(PLAIN, SIZE, step());
    tell(&mut app, frame(2, Job::default()), judged());
    press(&mut app, KeyCode::Char('1'));
    press(&mut app, KeyCode::Left);
    assert!(!app.job().is_live(), "back by one sample");
    press(&mut app, KeyCode::Char('}'));
    let mut verdict = judged();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).drawn = None;
    tell(&mut app, frame(3, Job::default()), verdict);
    press(&mut app, KeyCode::Char(PROFILE));
    assert!(!text(&app, (200, 60)).contains("next gap"), "{}", text(&app, (200, 60)));
    press(&mut app, KeyCode::Left);
    assert!(!app.job().is_live(), "back by one sample");
    assert!(text(&page(PLAIN, (200, 60), step()), (200, 60)).contains("Right next gap"));
    let mut app = page(PLAIN, SIZE, step());
    press(&mut app, KeyCode::Left);
    assert!(app.job().is_live());
}

#[test]
fn the_zoom_goes_to_the_gap_until_launch_and_kernel_are_apart_and_back() {
    let mut app = page(PLAIN, SIZE, step());
    let shown = |app: &App| {
        let screen = text(app, SIZE);
        screen.lines().find_map(|row| row.split_once(" shown")?.0.rsplit(" · ").next().map(str::to_owned))
    };
    assert_eq!(shown(&app), None);
    let mut spans = Vec::new();
    for _ in 0..8 {
        press(&mut app, KeyCode::Char('+'));
        spans.extend(shown(&app));
    }
    assert_eq!(spans, ["65 ms", "8.13 ms", "1.02 ms", "127 µs", "25 µs", "25 µs", "25 µs", "25 µs"]);
    let screen = text(&app, SIZE);
    let (_, call) = at(&app, SIZE, "loop, thread 1234");
    let (tip, kernel) = at(&app, SIZE, "▼");
    let rows = rows(&draw(&app, SIZE));
    let (from, _) = at(&app, SIZE, "╰─");
    assert!(kernel > call && tip > from + 15, "from the call along the axis to the kernel:\n{screen}");
    assert!(rows[usize::from(kernel) + 1].contains("gemm bf16"), "{screen}");
    // Another gap at the same zoom.
    press(&mut app, KeyCode::Right);
    assert!(shown(&app).is_some() && text(&app, SIZE).contains(SECOND));
    press(&mut app, KeyCode::Left);
    for _ in 0..8 {
        press(&mut app, KeyCode::Char('-'));
    }
    assert_eq!(shown(&app), None);
}

#[test]
fn the_arrow_goes_from_the_call_through_the_lanes_between_to_the_kernel() {
    let mut app = page(PLAIN, SIZE, step());
    press(&mut app, KeyCode::Right);
    let (x, tip) = at(&app, SIZE, "▼");
    let row = |name: &str| at(&app, SIZE, name).1;
    assert_eq!(tip + 1, row("stream 20"), "{}", text(&app, SIZE));
    assert_eq!(tip, row("stream 7"));
    let buf = draw(&app, SIZE);
    let axis = row("backward, thread 1240") + 1;
    assert!(["│", "╮"].contains(&buf[(x, axis)].symbol()), "{}", text(&app, SIZE));
    // Between the loop's thread and the axis lies autograd's.
    press(&mut app, KeyCode::Left);
    let (x, tip) = at(&app, SIZE, "▼");
    assert_eq!((tip, draw(&app, SIZE)[(x, axis - 1)].symbol()), (axis, "│"), "{}", text(&app, SIZE));
}

#[test]
fn a_click_on_a_gap_puts_the_cursor_there() {
    let mut app = page(PLAIN, SIZE, step());
    let (x, y) = at(&app, SIZE, " 9 ms ");
    click(&mut app, x + 1, y);
    assert!(text(&app, SIZE).contains(SECOND), "{}", text(&app, SIZE));
    let (x, y) = at(&app, SIZE, " 39 ms ");
    click(&mut app, x + 1, y - 3);
    assert!(text(&app, SIZE).contains(FIRST), "on any lane:\n{}", text(&app, SIZE));
    // A table below takes clicks as before.
    let (x, y) = at(&app, SIZE, "Kernels");
    click(&mut app, x, y);
    assert!(text(&app, SIZE).contains(FIRST));
}

#[test]
fn the_gap_under_the_cursor_is_reversed_and_no_other() {
    let app = page(*COLOR, SIZE, step());
    let (_, y) = at(&app, SIZE, "GPU 0 idle ");
    let buf = draw(&app, SIZE);
    let reversed: Vec<u16> =
        (30..SIZE.0 - 2).filter(|x| buf[(*x, y)].modifier.contains(Modifier::REVERSED)).collect();
    assert!(!reversed.is_empty() && reversed.windows(2).all(|pair| pair[1] == pair[0] + 1), "{reversed:?}");
    assert!(buf[(SIZE.0 - 4, y)].symbol() != " " && !reversed.contains(&(SIZE.0 - 4)));
}

#[test]
fn without_a_gpu_the_waits_of_the_loop_have_a_lane() {
    let mut step = step();
    step.lanes.truncate(3);
    step.gaps.truncate(1);
    step.gaps[0] = DrawnGap { gpu: None, work: None, call: None, ..step.gaps[0].clone() };
    step.gaps[0].by.truncate(1);
    for size in [(80, 24), SIZE, (200, 60)] {
        let screen = text(&page(PLAIN, size, step.clone()), size);
        assert!(screen.contains("wait 1 of 1 by length") && screen.contains("loop waits"), "{screen}");
        assert!(screen.contains("the loop waits 39 ms for data, train.py:38"), "{screen}");
    }
}

#[test]
fn on_a_small_screen_the_step_gives_way_before_the_table() {
    let shown = |height| {
        let size = (80, height);
        let screen = text(&page(PLAIN, size, step()), size);
        let selected = screen.contains("train.py:38");
        (screen.contains("Step 3 of 6"), selected)
    };
    assert_eq!(shown(24), (true, true));
    assert_eq!(shown(17), (false, true));
}

#[test]
fn the_words_of_a_step_are_in_ascii_where_only_that_is_allowed() {
    let screen = text(&page(ASCII, SIZE, step()), SIZE);
    assert!(screen.is_ascii(), "{screen}");
    assert!(!screen.lines().any(|row| row.contains("stream 7") && row.contains('?')), "{screen}");
    insta::assert_snapshot!("profile_step_ascii", screen);
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        -2.0..3.0_f64,
        0.0..1.0_f64,
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(1e308),
        Just(0.0)
    ]
}

prop_compose! {
    fn any_work()(
        lane in proptest::option::of(0_usize..9), begin in any_number(), end in any_number(), name in ".{0,20}",
    ) -> DrawnWork {
        DrawnWork { lane, place: name.clone(), name, kind: None, begin, end }
    }
}

prop_compose! {
    fn any_gap()(
        gpu in proptest::option::of(0_i64..3), begin in any_number(), end in any_number(), ms in any_number(),
        goes_on in any::<bool>(), host in ".{0,30}", part in any_number(), kind in 0..SliceKind::COUNT,
        work in proptest::option::of(any_work()), call in proptest::option::of(any_work()),
    ) -> DrawnGap {
        let by = vec![(SliceKind::ALL[kind], part); 2];
        DrawnGap { gpu, begin, end, ms, goes_on, by, host, host_lane: Some(1), work, call }
    }
}

prop_compose! {
    fn any_lane()(
        kind in 0..LaneKind::COUNT, gpu in proptest::option::of(0_i64..3), of_loop in any::<bool>(), name in ".{0,30}",
        slices in proptest::collection::vec((any_number(), any_number(), 0..SliceKind::COUNT, any_number(), ".{0,9}"), 0..30),
    ) -> DrawnLane {
        let slice = |(begin, end, kind, filled, name)| DrawnSlice {
            begin, end, kind: SliceKind::ALL[kind], filled, count: 1, name,
        };
        DrawnLane { kind: LaneKind::ALL[kind], gpu, of_loop, name, slices: slices.into_iter().map(slice).collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_step_is_drawn_at_any_size_with_any_key(
        lanes in proptest::collection::vec(any_lane(), 0..9),
        gaps in proptest::collection::vec(any_gap(), 0..70),
        length_ms in any_number(),
        size in (1_u16..220, 1_u16..70),
        keys in proptest::collection::vec(0_usize..8, 0..12),
        clicks in proptest::collection::vec((0_u16..220, 0_u16..70), 0..4),
    ) {
        let drawn = DrawnStep { step: Some((1, 1)), length_ms, lanes, left_out: 0, gaps };
        for theme in [PLAIN, ASCII, *COLOR] {
            let mut app = page(theme, size, drawn.clone());
            for key in &keys {
                let code = [KeyCode::Left, KeyCode::Right, KeyCode::Char('['), KeyCode::Char(']'), KeyCode::Char('+'),
                    KeyCode::Char('-'), KeyCode::Enter, KeyCode::Down][*key];
                press(&mut app, code);
            }
            for (x, y) in &clicks {
                click(&mut app, *x, *y);
            }
            for cell in &draw(&app, size).content {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{:?}", cell.symbol());
            }
        }
    }
}

#[test]
fn the_step_fits_every_size() {
    for width in (20..=220).step_by(17) {
        for height in (5..=64).step_by(3) {
            let size = (width, height);
            let mut app = page(PLAIN, size, step());
            for key in ["", "+", "+++", "]"] {
                type_text(&mut app, key);
                let screen = text(&app, size);
                // Where its frame is there, what it says is as well.
                if screen.contains("Step 3 of 6") && width >= 60 {
                    assert!(screen.contains("GPU 0 idle"), "{width}×{height}\n{screen}");
                    assert!(screen.contains("1234") || screen.contains("loop"), "{width}×{height}\n{screen}");
                }
            }
        }
    }
}
