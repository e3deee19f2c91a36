//! The page of a profile at every size, what its keys do, and a trace in place of a recording.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::KeyCode;
use ratatui::style::Modifier;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Advice, Class};
use trainmon::profiles::account::{
    Bound, CollectiveRow, CopyDirection, CopyRow, EfficiencyAccount, EfficiencyRow, GpuAccount, IdleBy, IdleReason,
    IdleRow, KernelRow, LoopAccount, ModuleRow, OperatorRow, ProfileAccount, StepMark, SyncRow,
};
use trainmon::tui::pages::Page;
use trainmon::tui::{App, AppOptions, Theme};
use trainmon::waits::Frame;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const SMALL: (u16, u16) = (80, 24);
/// Its key.
const PROFILE: char = '0';
const RAW: &str = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8>(Params)";

fn device(index: i64) -> GpuAccount {
    let idle_by = IdleBy { input_wait: 0.2, sync: 0.11, launch: 0.02, operator: 0.08, python: 0.05 };
    GpuAccount {
        index,
        name: Some("NVIDIA H100 80GB HBM3".into()),
        multiprocessors: Some(132),
        busy: 0.54,
        compute: 0.41,
        communication: 0.15,
        exposed: 0.1,
        copy: 0.05,
        copy_alone: 0.03,
        idle_by,
        kernels: 5120,
        median_kernel_us: Some(6.0),
        streams: 2,
        few_blocks: Some(0.3),
        ..GpuAccount::default()
    }
}

fn kernel(name: &str, raw: &str, count: u64, total_ms: f64) -> KernelRow {
    let (name, raw, median_us) = (name.into(), raw.into(), total_ms * 1000.0 / count as f64);
    KernelRow { name, raw, count, total_ms, median_us, blocks: Some(120), occupancy_pct: Some(41.0) }
}

fn idle(reason: IdleReason, name: &str, line: u32, idle_ms: f64) -> IdleRow {
    IdleRow {
        reason: Some(reason),
        name: name.into(),
        at: Some(format!("train.py:{line}")),
        function: Some("train_step".into()),
        idle_ms,
        count: 40,
        longest_ms: idle_ms / 8.0,
        ..IdleRow::default()
    }
}

fn sync(operator: &str, line: u32, per_step: f64, idle_ms: f64) -> SyncRow {
    SyncRow {
        call: "cudaStreamSynchronize".into(),
        operator: Some(operator.into()),
        at: Some(format!("train.py:{line}")),
        function: Some("train_step".into()),
        count: (per_step * 8.0) as u64,
        per_step: Some(per_step),
        wait_ms: idle_ms * 2.0,
        idle_ms,
        idle_inside_ms: idle_ms / 2.0,
        ..SyncRow::default()
    }
}

fn copy(direction: CopyDirection, pageable: bool, ms: f64) -> CopyRow {
    CopyRow {
        direction: Some(direction),
        pageable: Some(pageable),
        count: 16,
        bytes: 154_140_672,
        ms,
        overlapped_ms: ms / 4.0,
        blocked_ms: ms,
    }
}

/// A profile with some of everything.
pub fn account() -> ProfileAccount {
    let operator = |name: &str, device_ms: f64| OperatorRow {
        name: name.into(),
        count: 318,
        device_ms,
        host_ms: device_ms / 3.0,
        idle_ms: device_ms / 9.0,
    };
    let module =
        |name: &str, device_ms: f64| ModuleRow { name: name.into(), count: 8, device_ms, host_ms: device_ms / 4.0 };
    let efficiency = EfficiencyRow {
        name: "aten::mm".into(),
        shape: "[4096,4096]×[4096,4096] bf16".into(),
        count: 96,
        device_ms: 160.0,
        tflop_per_s: 312.4,
        tb_per_s: 0.61,
        bound: Some(Bound::Compute),
        of_peak: Some(0.32),
    };
    ProfileAccount {
        file: Some("step.json.gz".into()),
        rank: Some(0),
        world_size: Some(2),
        window_ms: 1049.3,
        steps: 8,
        steps_by: Some(StepMark::ProfilerStep),
        step_ms: Some(131.2),
        longest_step_ms: Some(140.9),
        devices: vec![device(0)],
        of_loop: Some(LoopAccount {
            input_wait: 0.3,
            sync: 0.1,
            operator: 0.4,
            python: 0.2,
            ..LoopAccount::default()
        }),
        kernels: (0..34)
            .map(|n| match n {
                0 => kernel("gemm bf16 (cutlass sm80)", RAW, 768, 160.2),
                1 => kernel("elementwise add f32", "void at::native::vectorized_elementwise_kernel<4>", 3210, 74.0),
                n => kernel(&format!("reduce mean bf16 {n}"), "reduce_kernel", 40, 34.0 - f64::from(n)),
            })
            .collect(),
        syncs: vec![sync("aten::item", 41, 6.0, 88.2), sync("aten::nonzero", 57, 1.0, 9.5)],
        copies: vec![copy(CopyDirection::HostToDevice, true, 41.0), copy(CopyDirection::DeviceToHost, false, 3.2)],
        operators: vec![operator("aten::linear", 190.0), operator("aten::layer_norm", 40.0)],
        modules: vec![module("Attention_0", 52.0), module("Mlp_0", 44.1)],
        idle_at: vec![
            idle(IdleReason::InputWait, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 38, 209.8),
            idle(IdleReason::Sync, "cudaStreamSynchronize", 41, 88.2),
            idle(IdleReason::Operator, "aten::linear", 63, 60.0),
            idle(IdleReason::Python, "train.py(70): log_metrics", 70, 52.0),
            idle(IdleReason::Launch, "cudaLaunchKernel", 63, 21.0),
        ],
        collectives: vec![CollectiveRow {
            name: "nccl all-reduce ring bf16".into(),
            count: 24,
            total_ms: 157.0,
            exposed_ms: 104.9,
            bytes: Some(3_221_225_472),
            group_size: Some(2),
        }],
        efficiency: Some(EfficiencyAccount {
            tflop: 50.1,
            tflop_per_s: 47.7,
            peak_tflop_per_s: Some(989.0),
            number: Some("bf16".into()),
            of_peak: Some(0.048),
            peak_tb_per_s: Some(3.35),
            known: 0.91,
            operators: vec![efficiency],
        }),
        overhead: 0.02,
        with_stack: true,
        with_shapes: true,
        drawn: Some(crate::profile_step::step()),
        notes: vec!["The trace ends within step 9, which is not counted.".into()],
        ..ProfileAccount::default()
    }
}

/// The verdict on it.
pub fn judged() -> Verdict {
    let advice = Advice {
        title: "Raise num_workers while CPUs are free".into(),
        speedup_at_most: Some(1.25),
        ..Advice::default()
    };
    Verdict {
        command: "step.json.gz".into(),
        cause: None,
        summary: "The GPU sits idle 20% of the time, waiting for data: the workers are late.".into(),
        advice: vec![advice],
        other_findings: Vec::new(),
        evidence: Vec::new(),
        workers: Vec::new(),
        profile: Some(account().into()),
        ..other(Class::DataLoader, None, "")
    }
}

fn page_of(theme: Theme, size: (u16, u16), verdict: Verdict) -> App {
    let mut app = fresh(theme, size);
    tell(&mut app, frame(1, Job::default()), verdict);
    press(&mut app, KeyCode::Char(PROFILE));
    app
}

/// A trace in place of a recording, as `trainmon replay trace.json.gz` opens it.
fn trace(size: (u16, u16), verdict: Verdict) -> App {
    let mut options = AppOptions { theme: PLAIN, ..AppOptions::default() };
    options.layout.page = Some(Page::Profile);
    let mut app = App::new(job().recording(), options, size);
    tell(&mut app, Frame { alive: true, ..Frame::default() }, verdict);
    tell_loaded(&mut app);
    app
}

/// The row that is selected: it alone is reversed from end to end.
fn selected(app: &App, size: (u16, u16)) -> String {
    let buf = draw(app, size);
    let reversed = |y: u16| {
        let cells = (4..size.0 / 2 - 4).map(|x| &buf[(x, y)]);
        cells.into_iter().all(|cell| cell.modifier.contains(Modifier::REVERSED))
    };
    let y = (0..size.1).find(|y| reversed(*y)).unwrap_or_else(|| panic!("no selected row:\n{}", text(app, size)));
    rows(&buf)[usize::from(y)].clone()
}

#[test]
fn the_page_fits_every_size() {
    for size in SIZES {
        let app = page_of(PLAIN, size, judged());
        insta::assert_snapshot!(format!("profile_{}x{}", size.0, size.1), text(&app, size));
        assert!(
            same_words(&text(&page_of(*COLOR, size, judged()), size), &text(&app, size)),
            "color changes no word"
        );
    }
    let screen = text(&page_of(ASCII, SMALL, judged()), SMALL);
    assert!(screen.is_ascii(), "{screen}");
    insta::assert_snapshot!("profile_ascii", screen);
}

#[test]
fn many_gpus_share_their_words_and_leave_room_for_tables() {
    let mut verdict = judged();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).devices = (0..16).map(device).collect();
    let screen = text(&page_of(PLAIN, SMALL, verdict), SMALL);
    assert_eq!(screen.matches("% busy").count(), 4, "{screen}");
    assert_eq!(screen.matches("waiting for data").count(), 2, "the card and the words of all bars:\n{screen}");
    assert!(screen.contains("and 12 more GPUs") && screen.contains("what the host did"), "{screen}");
}

#[test]
fn without_a_profile_the_page_says_how_to_get_one() {
    let screen = text(&page_of(PLAIN, SMALL, data_loader()), SMALL);
    insta::assert_snapshot!("profile_none", screen);
    assert!(screen.contains("No profile yet: p asks the job for a profile of half a second."), "{screen}");
    let mut app = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, SMALL);
    tell(&mut app, frame(1, Job::default()), data_loader());
    press(&mut app, KeyCode::Char(PROFILE));
    let screen = text(&app, SMALL);
    assert!(screen.contains("trainmon replay trace.json.gz") && !screen.contains(" p asks"), "{screen}");
}

#[test]
fn without_a_gpu_the_bar_is_of_the_loop() {
    let mut verdict = judged();
    Arc::make_mut(verdict.profile.as_mut().unwrap()).devices.clear();
    let screen = text(&page_of(PLAIN, SMALL, verdict), SMALL);
    assert!(screen.contains("training loop") && screen.contains("waiting for data 30%"), "{screen}");
}

#[test]
fn the_table_that_explains_the_verdict_comes_first() {
    for (class, cause, heading) in [
        (Class::DataLoader, None, "Where the host was while the GPU was idle"),
        (Class::Cpu, Some(Cause::HostDeviceSync), "Calls that wait for the GPU"),
        (Class::Gpu, Some(Cause::CopyBound), "Copies"),
        (Class::Gpu, Some(Cause::Communication), "Collectives"),
        (Class::Gpu, Some(Cause::ComputeBound), "Kernels"),
    ] {
        let screen = text(&page_of(PLAIN, SMALL, Verdict { class, cause, ..judged() }), SMALL);
        assert!(screen.contains(&format!("── {heading} ──")), "{heading}\n{screen}");
    }
}

#[test]
fn keys_go_through_tables_and_rows() {
    let mut app = page_of(PLAIN, SMALL, judged());
    assert!(selected(&app, SMALL).contains("enumerate(DataLoader), train.py:38"), "{}", selected(&app, SMALL));
    type_text(&mut app, "l");
    assert!(selected(&app, SMALL).contains("gemm bf16 (cutlass sm80)"));
    type_text(&mut app, "jG");
    assert!(text(&app, SMALL).contains("── 30/34 ·"), "the rows that there are:\n{}", text(&app, SMALL));
    // One row further is the next table, and one back the last row again.
    type_text(&mut app, "j");
    assert!(selected(&app, SMALL).contains("nccl all-reduce"));
    type_text(&mut app, "k");
    assert!(text(&app, SMALL).contains("── 30/34 ·"));
    type_text(&mut app, "LLl");
    assert!(selected(&app, SMALL).contains("train.py:38"), "a table keeps its row");
    // A new verdict of the same job keeps table and row.
    type_text(&mut app, "lg");
    tell(&mut app, frame(2, Job::default()), judged());
    assert!(selected(&app, SMALL).contains("gemm bf16 (cutlass sm80)"));
    // From any page.
    type_text(&mut app, "1l");
    assert_eq!(app.page(), Page::Profile);
}

#[test]
fn enter_shows_the_selected_row_in_full() {
    let mut app = page_of(PLAIN, SMALL, judged());
    type_text(&mut app, "l");
    press(&mut app, KeyCode::Enter);
    let screen = text(&app, SMALL);
    insta::assert_snapshot!("profile_row", screen);
    let inside = screen.lines().filter_map(|row| row.split('│').nth(1));
    let unbroken: String = inside.flat_map(str::chars).filter(char::is_ascii_graphic).collect();
    let raw: String = RAW.chars().filter(|c| c.is_ascii_graphic()).collect();
    assert!(unbroken.contains(&raw), "{screen}");
    press(&mut app, KeyCode::Esc);
    assert!(!text(&app, SMALL).contains("In the profile"));
    // Without a profile there is nothing to open.
    let mut app = page_of(PLAIN, SMALL, data_loader());
    press(&mut app, KeyCode::Enter);
    assert!(!text(&app, SMALL).contains("Esc closes"));
}

#[test]
fn a_click_selects_a_table_and_a_row_and_opens_it() {
    let size = (200, 60);
    let mut app = page_of(PLAIN, size, judged());
    let at = |app: &App, what: &str| {
        let rows = rows(&draw(app, size));
        let y = rows.iter().position(|row| row.contains(what)).unwrap();
        let x = rows[y].find(what).map(|byte| rows[y][..byte].chars().count()).unwrap();
        (x as u16, y as u16)
    };
    let (x, y) = at(&app, "reduce mean bf16 4");
    click(&mut app, x, y);
    assert!(selected(&app, size).contains("gemm bf16 (cutlass sm80)"), "the table first");
    click(&mut app, x, y);
    assert!(selected(&app, size).contains("reduce mean bf16 4"));
    click(&mut app, x, y);
    assert!(text(&app, size).contains("reduce_kernel"));
}

#[test]
fn a_trace_is_one_moment_that_has_no_samples() {
    for size in SIZES {
        let mut app = trace(size, judged());
        let screen = text(&app, size);
        assert!(screen.contains(" TRACE") && !screen.contains("REPLAY") && !screen.contains("PID"), "{screen}");
        assert!(screen.contains("20% of the time, waiting for data"), "{screen}");
        assert!(screen.contains("93% sure") && !screen.contains("for 0 s"), "{screen}");
        for page in ['1', '2', '3', '4', '5', '6', '7', '9'] {
            type_text(&mut app, &page.to_string());
            let screen = text(&app, size);
            assert!(
                screen.contains("A trace has no samples over time: press 0 for its profile."),
                "{page}\n{screen}"
            );
        }
        type_text(&mut app, "o");
        assert!(!text(&app, size).contains("no GPU use"), "not measured is no claim:\n{}", text(&app, size));
        press(&mut app, KeyCode::Esc);
        type_text(&mut app, "8");
        assert!(text(&app, size).contains("Raise num_workers while CPUs are free"));
    }
    let unknown = trace(SMALL, Verdict { class: Class::Unknown, phase: Default::default(), ..judged() });
    assert!(!text(&unknown, SMALL).contains("No verdict yet"), "{}", text(&unknown, SMALL));
}
