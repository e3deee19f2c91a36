use proptest::prelude::*;

use super::*;
use crate::diagnosis::verdict::Class;
use trainmon_waits::Frame;

/// Start of the oldest time that is kept and end of the newest.
fn range(t: &Timeline) -> (u64, u64) {
    let oldest = t.levels.iter().filter_map(Level::first).chain(t.points.front());
    (oldest.map(|p| p.start_ns).min().unwrap(), t.latest().unwrap().end_ns)
}

fn timeline(points: &[(f64, f64)]) -> Timeline {
    let mut t = Timeline::default();
    for (end_s, seconds) in points {
        t.add(TimelinePoint::new(
            &Frame { monotonic_ns: (end_s * 1e9) as u64, seconds: *seconds, ..Frame::default() },
            Class::Unknown,
            None,
            None,
        ));
    }
    t
}

#[test]
fn a_point_covers_its_whole_interval() {
    let t = timeline(&[(1000.0, 2.0)]);
    let window = TimelineWindow::of_cells(1_000_000_000_000, 10.0, 10);
    let mut seen = Vec::new();
    t.spread(window, |c, s, _| seen.push((c, s)));
    assert_eq!(seen, [(8, 1.0), (9, 1.0)]);
}

#[test]
fn uncovered_time_is_left_out() {
    let t = timeline(&[(995.0, 1.0), (1000.0, 1.0)]);
    let mut seen = Vec::new();
    t.spread(TimelineWindow::of_cells(1_000_000_000_000, 10.0, 10), |c, _, _| seen.push(c));
    seen.sort_unstable();
    assert_eq!(seen, [4, 9]);
}

#[test]
fn the_edge_stays_while_time_runs_inside_one_cell() {
    let a = TimelineWindow::of_cells(1_000_100_000_000, 60.0, 60);
    let b = TimelineWindow::of_cells(1_000_900_000_000, 60.0, 60);
    assert_eq!(a.edge_ns, b.edge_ns);
}

proptest! {
    #[test]
    fn spreading_never_leaves_the_window(
        points in prop::collection::vec((0u64..2_000_000_000_000, 0.0f64..100.0), 0..40),
        now in any::<u64>(), span in 0.0f64..1000.0, cells in 0u16..500,
    ) {
        let mut t = Timeline::default();
        for (end_ns, seconds) in points {
            t.add(TimelinePoint::new(&Frame { monotonic_ns: end_ns, seconds, ..Frame::default() }, Class::Unknown, None, None));
        }
        for now in [now, now % 2_000_000_000_000] {
            let window = TimelineWindow::of_cells(now, span, cells);
            let mut visits = 0u32;
            t.spread(window.halved(), |c, s, _| {
                assert!(c < window.columns * 2 && s >= 0.0);
                visits += 1;
            });
            prop_assert!(visits <= 40 * 1000);
        }
    }

    #[test]
    fn runs_cover_the_time_of_their_points_and_no_gap(
        ticks in prop::collection::vec((1u64..3000, 0u64..4, 0usize..3, prop::option::of(0.0f64..100.0)), 1..400),
        span_s in 1.0f64..4000.0, cells in 1u16..60, back_ms in 0u64..200_000,
    ) {
        let mut t = Timeline::default();
        let mut pushed: Vec<Frame> = Vec::new();
        let mut now = 5_000_000_000_000u64;
        for (length_ms, kind, class, cpu) in ticks {
            // Now and then nobody watched for a while, or a value is missing.
            now += length_ms * 1_000_000 + if kind == 0 { 700_000_000 } else { 0 };
            let mut frame = Frame { monotonic_ns: now, seconds: length_ms as f64 / 1e3, ..Frame::default() };
            frame.host.allowed_cpu_pct = cpu;
            frame.gpus = vec![trainmon_rates::frame::GpuRates { utilization_pct: cpu, ..Default::default() }];
            t.add(TimelinePoint::new(&frame, Class::ALL[class], None, frame.loop_shares()));
            frame.sequence = class as u64;
            pushed.push(frame);
        }
        let window = TimelineWindow::of_cells(now - back_ms * 1_000_000, span_s, cells);
        // Seconds per column, and over the window by class and times the values.
        let mut seen = vec![0.0f64; window.columns];
        let mut sums = [0.0f64; 5];
        t.spread(window, |column, seconds, point| {
            let seconds = f64::from(seconds);
            seen[column] += seconds;
            sums[Class::ALL.iter().position(|c| *c == point.class).unwrap()] += seconds;
            sums[3] += f64::from(point.cpu.get().unwrap_or(0.0)) * seconds;
            sums[4] += f64::from(point.gpus[0].get().unwrap_or(0.0)) * seconds;
            assert_eq!(point.cpu.get().is_some(), point.gpus[0].get().is_some());
        });
        let mut expected = vec![0.0f64; window.columns];
        let mut totals = [0.0f64; 5];
        for frame in &pushed {
            let end = i128::from(frame.monotonic_ns);
            let start = end - (frame.seconds * 1e9) as i128;
            for (column, sum) in expected.iter_mut().enumerate() {
                let left = window.start_ns() + i128::from(window.column_ns) * column as i128;
                let right = (left + i128::from(window.column_ns)).min(i128::from(window.end_ns));
                let seconds = (end.min(right) - start.max(left)).max(0) as f64 / 1e9;
                *sum += seconds;
                let value = frame.host.allowed_cpu_pct.unwrap_or(0.0);
                totals[frame.sequence as usize] += seconds;
                totals[3] += value * seconds;
                totals[4] += value * seconds;
            }
        }
        for (seen, expected) in seen.iter().zip(&expected) {
            prop_assert!((seen - expected).abs() < 1e-3, "{} s covered instead of {}", seen, expected);
        }
        for (sum, total) in sums.iter().zip(&totals).take(3) {
            prop_assert!((sum - total).abs() < 0.01, "{} s of a class instead of {}", sum, total);
        }
        // A run that reaches over the window's edge brings its mean with it, and devices have whole percents.
        let seconds: f64 = expected.iter().sum();
        let column_s = window.column_ns as f64 / 1e9;
        for sum in 3..5 {
            let slack = 100.0 * column_s.min(seconds) + seconds * 2.0 + 1.0;
            prop_assert!((sums[sum] - totals[sum]).abs() <= slack, "{} instead of {}", sums[sum], totals[sum]);
        }
    }

    #[test]
    fn a_column_holds_the_times_it_stands_for(now in any::<u64>(), span in 1.0f64..4000.0, cells in 1u16..500) {
        let window = TimelineWindow::of_cells(now, span, cells);
        for cell in [0, cells / 2, cells - 1] {
            let (start, end) = window.ns_of(cell);
            // At the ends of the clock there is no room for a whole column.
            if end - start == window.column_ns {
                prop_assert_eq!(window.cell_of(end), Some(cell));
                prop_assert_eq!(window.cell_of(start + 1), Some(cell));
            }
        }
        if window.edge_ns < u64::MAX {
            prop_assert_eq!(window.cell_of(window.edge_ns + 1), None);
        }
    }
}

const HOUR: u64 = 36_000;

/// An hour at ten a second that ends at `END_NS`.
fn hour() -> Timeline {
    let mut t = Timeline::default();
    for n in 1..=HOUR {
        let end_ns = END_NS - (HOUR - n) * 100_000_000;
        let class = if n < HOUR / 2 { Class::Gpu } else { Class::Cpu };
        t.add(TimelinePoint::new(
            &Frame { sequence: n, monotonic_ns: end_ns, seconds: 0.1, ..Frame::default() },
            class,
            None,
            None,
        ));
    }
    t
}

const END_NS: u64 = 9_000_000_000_000;

#[test]
fn a_draw_of_an_hour_at_ten_a_second_walks_few_points() {
    let t = hour();
    for (span_s, cells) in [(3600.0, 60), (3600.0, 170), (1800.0, 170), (600.0, 170), (60.0, 60)] {
        let window = TimelineWindow::of_cells(END_NS, span_s, cells).halved();
        let mut walked = 0;
        let mut covered = vec![0.0; window.columns];
        t.spread(window, |column, seconds, _| {
            walked += 1;
            covered[column] += seconds;
        });
        assert!(walked <= 2500, "{walked} visits for {span_s} s in {cells} cells");
        let column_s = window.column_ns as f32 / 1e9;
        // The first may begin before the hour does, the last end after it.
        let inside = &covered[1..window.columns - 2];
        assert!(inside.iter().all(|s| (s / column_s - 1.0).abs() < 0.01), "{span_s} s in {cells} cells");
    }
}

#[test]
fn what_the_points_do_not_reach_any_more_is_drawn_from_runs() {
    let t = hour();
    let points_s = POINTS as f64 / 10.0;
    let (from, to) = range(&t);
    assert_eq!((from, to), (END_NS - HOUR * 100_000_000, END_NS));
    for back_s in [points_s - 5.0, points_s + 5.0, 3500.0] {
        let window = TimelineWindow::of_cells(END_NS - (back_s * 1e9) as u64, 10.0, 100);
        let mut seconds = 0.0;
        t.spread(window, |_, s, _| seconds += s);
        assert!((seconds - 10.0).abs() < 0.11, "{seconds} s seen {back_s} s ago");
    }
}

#[test]
fn time_before_a_break_of_the_series_is_not_covered() {
    let mut t = timeline(&[(995.0, 1.0)]);
    let after = Frame { monotonic_ns: 1_000_000_000_000, seconds: 5.0, gap: true, ..Frame::default() };
    t.add(TimelinePoint::new(&after, Class::Unknown, None, None));
    let mut seen = Vec::new();
    t.spread(TimelineWindow::of_cells(1_000_000_000_000, 10.0, 10), |c, _, _| seen.push(c));
    assert_eq!(seen, [4]);
}

#[test]
fn a_clock_that_goes_backwards_begins_anew() {
    let t = timeline(&[(995.0, 1.0), (996.0, 1.0), (7.0, 1.0), (8.0, 1.0)]);
    assert_eq!(range(&t), (6_000_000_000, 8_000_000_000));
}

#[test]
fn what_is_kept_whole_can_be_drawn() {
    let limits = Limits { span: std::time::Duration::from_secs(4 * 3600), ..Limits::default() };
    let (mut short, mut long) = (Timeline::default(), Timeline::new(limits));
    let start = 1_000u64;
    for second in start..start + 3 * 3600 {
        let frame = Frame { monotonic_ns: second * 1_000_000_000, seconds: 1.0, ..Frame::default() };
        short.add(TimelinePoint::new(&frame, Class::Gpu, None, None));
        long.add(TimelinePoint::new(&frame, Class::Gpu, None, None));
    }
    let columns = |timeline: &Timeline| {
        let mut columns = 0;
        timeline.spread(TimelineWindow::of_cells((start + 60) * 1_000_000_000, 60.0, 60), |_, _, _| columns += 1);
        columns
    };
    // By runs of some seconds, which cover more than one column each, since points do not go back as far.
    assert!(columns(&short) == 0 && columns(&long) >= 60, "{} {}", columns(&short), columns(&long));
}
