//! The page of `trainmon fleet`.

use std::sync::Arc;

use crossterm::event::{KeyCode, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::Class;
use trainmon::fleet::{
    DownExporter, Fleet, FleetGpu, FleetRank, FleetRun, FleetTotals, GpuCount, LateKind, LateRanks, Mark, UnusedGpus,
};
use trainmon::tui::{self, App, AppOptions, Effect, Message, Theme};

use crate::app::{assert_harmless, key, mouse, rows};

/// A run of so many ranks, one of which is late, and what else there can be.
fn fleet(ranks: u32) -> Fleet {
    let late = ranks / 2;
    let rank = |number: u32| FleetRank {
        rank: Some(number),
        machine: format!("node-{number:02}.cluster.example"),
        pid: Some(7),
        gpus: vec![FleetGpu { index: "0".to_owned(), utilization: Some(0.5), ..FleetGpu::default() }],
        class: Some(if number == late { Class::Io } else { Class::Gpu }),
        cause: Some(if number == late { Cause::NetworkStorage } else { Cause::Communication }),
        step_ms: Some(210.0),
        waits: Some(if number == late { 0.12 } else { 0.62 }),
        gpu_utilization: (number != 1).then_some(0.5),
        marks: match number {
            _ if number == late => vec![Mark::Late],
            2 => vec![Mark::Throttled, Mark::LowClock],
            3 => vec![Mark::Down],
            _ => Vec::new(),
        },
    };
    let gpus = GpuCount { count: ranks as usize, idle: 0, idle_time: f64::from(ranks) / 2.0 };
    let run = FleetRun {
        training_job: Some("llama-70b".to_owned()),
        slurm_job_id: Some("4711".to_owned()),
        world_size: Some(ranks),
        late: LateRanks {
            kind: LateKind::One,
            ranks: vec![late],
            machine: Some(format!("node-{late:02}.cluster.example")),
            waits: Some(0.12),
            others_wait: Some(0.62),
        },
        class: Some(Class::Io),
        cause: Some(Cause::NetworkStorage),
        gpus,
        ranks: (0..ranks).map(rank).collect(),
        ..FleetRun::default()
    };
    let unused = UnusedGpus { machine: "node-98".to_owned(), gpus: GpuCount { count: 8, idle: 8, idle_time: 7.9 } };
    let down = DownExporter { machine: "node-03".to_owned(), last_seen_s: Some(192.0), unreachable: true };
    Fleet {
        unix_s: Some(1_700_000_000.0),
        totals: FleetTotals { ranks: ranks as usize, late_ranks: 1, machines: ranks as usize + 1, gpus },
        runs: vec![run],
        unused: vec![unused],
        down: vec![down],
        ..Fleet::default()
    }
}

fn options(theme: Theme) -> AppOptions {
    AppOptions { theme, zone: TimeZone::UTC, price: "$2".parse().ok(), ..AppOptions::default() }
}

fn view(theme: Theme, ranks: u32) -> App {
    let mut view = App::fleet(options(theme), (80, 24));
    assert_eq!(view.update(Message::Fleet(Ok(Arc::new(fleet(ranks))))), [Effect::Redraw]);
    view
}

fn drawn(view: &mut App, size: (u16, u16)) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let drawn = tui::draw(&mut buf, view);
    view.set_drawn(drawn);
    buf
}

fn text(view: &mut App, size: (u16, u16)) -> String {
    rows(&drawn(view, size)).join("\n")
}

#[test]
fn it_fits_every_size() {
    for (name, size, theme) in [
        ("80x24", (80, 24), Theme::default()),
        ("120x40", (120, 40), Theme::default()),
        ("200x60", (200, 60), Theme::default()),
        ("ascii", (80, 24), Theme::plain(true)),
    ] {
        let mut view = view(theme, 12);
        insta::assert_snapshot!(format!("fleet_{name}"), text(&mut view, size));
        assert_harmless(&drawn(&mut view, size), theme);
    }
    for size in [(1, 1), (3, 4), (20, 5), (40, 3)] {
        let _ = drawn(&mut view(Theme::default(), 12), size);
    }
}

#[test]
fn keys_and_the_wheel_scroll_sort_refresh_and_leave() {
    let mut view = view(Theme::default(), 200);
    let top = |view: &mut App| text(view, (100, 30)).lines().nth(2).unwrap().to_owned();
    assert!(top(&mut view).contains("llama-70b"));
    view.update(key(KeyCode::End));
    assert!(
        text(&mut view, (100, 30))
            .contains("node-03: Prometheus cannot scrape trainmon, last scraped about 3m12s ago")
    );
    view.update(key(KeyCode::PageUp));
    view.update(mouse(MouseEventKind::ScrollUp, 5, 5));
    assert!(!text(&mut view, (100, 30)).contains("llama-70b"));
    view.update(key(KeyCode::Home));
    assert!(top(&mut view).contains("llama-70b"));
    let first = |view: &mut App| {
        let screen = text(view, (100, 30));
        screen.lines().find(|line| line.contains("node-") && !line.contains("Rank ")).unwrap().to_owned()
    };
    assert!(first(&mut view).contains("LATE"), "{}", first(&mut view));
    view.update(key(KeyCode::Char('s')));
    assert!(first(&mut view).contains("node-00"), "{}", first(&mut view));
    assert_eq!(view.update(key(KeyCode::Char('r'))), [Effect::Refresh]);
    assert_eq!(view.update(key(KeyCode::Char('q'))), [Effect::Quit]);
    assert_eq!(view.update(Message::Quit), [Effect::Quit]);
}

#[test]
fn the_last_table_stays_below_an_error() {
    let mut view = view(Theme::default(), 4);
    view.update(Message::Fleet(Err(
        "cannot ask Prometheus at http://prom: cannot connect; the table is 45 s old".to_owned()
    )));
    let screen = text(&mut view, (100, 30));
    assert!(screen.contains("cannot connect; the table is 45 s old") && screen.contains("llama-70b"), "{screen}");
    view.update(Message::Fleet(Ok(Arc::new(fleet(4)))));
    assert!(!text(&mut view, (100, 30)).contains("cannot connect"));
    let mut first = App::fleet(options(Theme::default()), (80, 24));
    assert!(text(&mut first, (80, 24)).contains("asking Prometheus"));
}
