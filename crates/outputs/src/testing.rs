//! Verdicts with something in every section, for the tests of what is written of it.

use crate::testing_views::verdict;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_profiles::account::{
    Bound, CollectiveRow, CopyDirection, CopyRow, EfficiencyAccount, EfficiencyRow, GpuAccount, IdleBy, IdleReason,
    IdleRow, KernelRow, LaunchAccount, LoopAccount, ModuleRow, OperatorRow, ProfileAccount, RequestAccount, StepMark,
    SyncRow,
};
use trainmon_profiles::drawn::{DrawnLane, DrawnSlice, DrawnStep, SliceKind};

/// The verdict on a profile with something in every table.
pub(super) fn profiled() -> Verdict {
    let busy_and_idle = |index| GpuAccount {
        index,
        name: Some("NVIDIA H100 80GB HBM3".to_owned()),
        multiprocessors: Some(132),
        busy: 0.5,
        compute: 0.42,
        communication: 0.1,
        exposed: 0.06,
        copy: 0.05,
        copy_alone: 0.02,
        idle_by: IdleBy { input_wait: 0.2, sync: 0.12, launch: 0.08, operator: 0.06, python: 0.04 },
        kernels: 4200,
        median_kernel_us: Some(9.4),
        streams: 2,
        few_blocks: Some(0.31),
        ..GpuAccount::default()
    };
    let account = ProfileAccount {
        file: Some("trace.json.gz".to_owned()),
        rank: Some(1),
        world_size: Some(8),
        window_ms: 1049.3,
        steps: 6,
        steps_by: Some(StepMark::ProfilerStep),
        step_ms: Some(174.88),
        longest_step_ms: Some(181.2),
        devices: vec![busy_and_idle(0), busy_and_idle(1)],
        of_loop: Some(LoopAccount {
            input_wait: 0.25,
            operator: 0.5,
            python: 0.25,
            backward: 0.3,
            ..LoopAccount::default()
        }),
        launches: Some(LaunchAccount {
            kernels_per_step: 700.0,
            calls_per_step: 690.0,
            call_us: Some(4.0),
            queue_us: Some(1250.0),
            graph_launches: 6,
            graph_kernels: 60,
        }),
        kernels: (0..40).map(kernel).collect(),
        syncs: vec![
            SyncRow {
                call: "cudaStreamSynchronize".to_owned(),
                operator: Some("aten::item".to_owned()),
                at: Some("train.py:41".to_owned()),
                function: Some("train_step".to_owned()),
                count: 6,
                per_step: Some(1.0),
                wait_ms: 150.2,
                idle_ms: 125.9,
                ..SyncRow::default()
            },
            SyncRow {
                call: "cudaMemcpyAsync".to_owned(),
                count: 12,
                per_step: Some(2.0),
                wait_ms: 1.5,
                idle_ms: 0.25,
                copies: Some(CopyDirection::HostToDevice),
                bytes: Some(12 << 20),
                ..SyncRow::default()
            },
        ],
        copies: vec![CopyRow {
            direction: Some(CopyDirection::HostToDevice),
            pageable: Some(true),
            count: 12,
            bytes: 12 << 20,
            ms: 1.25,
            overlapped_ms: 0.5,
            blocked_ms: 1.5,
        }],
        operators: vec![OperatorRow {
            name: "aten::conv2d".to_owned(),
            count: 318,
            device_ms: 301.0,
            host_ms: 88.0,
            idle_ms: 12.0,
        }],
        modules: vec![ModuleRow { name: "Linear_3".to_owned(), count: 6, device_ms: 0.5, host_ms: 0.25 }],
        idle_at: vec![
            idle(
                IdleReason::InputWait,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                Some("aten::to"),
                209.9,
            ),
            idle(IdleReason::Python, "/home/me/train.py(41): train_step", None, 42.0),
            idle(IdleReason::Python, "nothing recorded", None, 1.0),
        ],
        collectives: vec![CollectiveRow {
            name: "nccl all-reduce f32".to_owned(),
            count: 12,
            total_ms: 104.9,
            exposed_ms: 63.0,
            bytes: Some(1 << 30),
            group_size: Some(8),
        }],
        efficiency: Some(EfficiencyAccount {
            tflop: 42.0,
            tflop_per_s: 40.0,
            peak_tflop_per_s: Some(989.0),
            number: Some("bf16".to_owned()),
            of_peak: Some(0.04),
            peak_tb_per_s: Some(3.35),
            known: 0.8,
            operators: vec![EfficiencyRow {
                name: "aten::mm".to_owned(),
                shape: "4096×4096 × 4096×512 bf16".to_owned(),
                count: 6,
                device_ms: 12.5,
                tflop_per_s: 412.0,
                tb_per_s: 0.61,
                bound: Some(Bound::Compute),
                of_peak: Some(0.42),
            }],
        }),
        notes: vec!["The file ends early: the account covers what was written.".to_owned()],
        drawn: Some(drawn()),
        ..ProfileAccount::default()
    };
    Verdict { profile: Some(account.into()), workers: Vec::new(), chain: Vec::new(), pid: 0, ..verdict() }
}

fn kernel(nth: u64) -> KernelRow {
    let raw = format!("void cutlass::Kernel2<gemm_{nth}>(Params)");
    let total_ms = 100.0 / (nth + 1) as f64;
    KernelRow {
        name: format!("gemm bf16 {nth}"),
        raw,
        count: 318,
        total_ms,
        median_us: 9.5,
        blocks: Some(120),
        occupancy_pct: Some(12.5),
    }
}

fn idle(reason: IdleReason, name: &str, operator: Option<&str>, idle_ms: f64) -> IdleRow {
    IdleRow {
        reason: Some(reason),
        name: name.to_owned(),
        operator: operator.map(str::to_owned),
        at: (name != "nothing recorded").then(|| "train.py:41".to_owned()),
        function: (name != "nothing recorded").then(|| "train_step".to_owned()),
        idle_ms,
        count: 6,
        longest_ms: idle_ms / 6.0,
        ..IdleRow::default()
    }
}

/// A step with a slice of each kind: those of the host on a lane, those of the GPU on another.
fn drawn() -> DrawnStep {
    let slice = |nth: usize, kind: SliceKind| DrawnSlice {
        begin: nth as f64 / 10.0,
        end: (nth as f64 + 0.9) / 10.0,
        kind,
        filled: 1.0,
        count: 1,
        name: format!("slice of {}", kind.word()),
    };
    let lane = |name: &str, kinds: &[SliceKind]| DrawnLane {
        name: name.to_owned(),
        slices: kinds.iter().enumerate().map(|(nth, kind)| slice(nth, *kind)).collect(),
        ..DrawnLane::default()
    };
    let (host, gpu) = SliceKind::ALL.split_at(5);
    DrawnStep {
        step: Some((5, 6)),
        length_ms: 175.0,
        lanes: vec![lane("loop, thread 7", host), lane("GPU 0, stream 7", gpu)],
        left_out: 3,
        gaps: Vec::new(),
    }
}

/// A verdict on a profile every text of which is `text` and every number of which is `number`.
pub(super) fn profiled_with(text: &str, number: f64) -> Verdict {
    let mut verdict = profiled();
    let Some(account) = verdict.profile.as_mut().map(std::sync::Arc::make_mut) else { return verdict };
    let name = || Some(text.to_owned());
    (account.file, account.window_ms, account.step_ms, account.longest_step_ms) =
        (name(), number, Some(number), Some(number));
    (account.compiling, account.overhead) = (number, number);
    account.requests = Some(RequestAccount { name: text.to_owned(), count: 3, median_ms: number });
    for gpu in &mut account.devices {
        let idle_by = IdleBy { input_wait: number, sync: number, launch: number, operator: number, python: number };
        *gpu = GpuAccount {
            name: name(),
            busy: number,
            compute: number,
            communication: number,
            exposed: number,
            copy: number,
            copy_alone: number,
            idle_by,
            median_kernel_us: Some(number),
            few_blocks: Some(number),
            ..gpu.clone()
        };
    }
    account.launches = Some(LaunchAccount {
        kernels_per_step: number,
        calls_per_step: number,
        call_us: Some(number),
        queue_us: Some(number),
        ..LaunchAccount::default()
    });
    account.of_loop = Some(LoopAccount {
        input_wait: number,
        blocked: number,
        backward: number,
        optimizer: number,
        makes_batches: true,
        ..LoopAccount::default()
    });
    for row in &mut account.kernels {
        *row = KernelRow {
            name: text.to_owned(),
            raw: text.to_owned(),
            total_ms: number,
            median_us: number,
            occupancy_pct: Some(number),
            ..row.clone()
        };
    }
    for row in &mut account.syncs {
        *row = SyncRow {
            call: text.to_owned(),
            operator: name(),
            at: name(),
            function: name(),
            per_step: Some(number),
            wait_ms: number,
            idle_ms: number,
            ..row.clone()
        };
    }
    for row in &mut account.idle_at {
        *row = IdleRow {
            name: text.to_owned(),
            operator: name(),
            at: name(),
            function: name(),
            idle_ms: number,
            longest_ms: number,
            ..row.clone()
        };
    }
    for row in &mut account.copies {
        *row = CopyRow { ms: number, overlapped_ms: number, blocked_ms: number, bytes: u64::MAX, ..row.clone() };
    }
    account
        .operators
        .iter_mut()
        .for_each(|row| (row.name, row.device_ms, row.idle_ms) = (text.to_owned(), number, number));
    account.modules.iter_mut().for_each(|row| (row.name, row.device_ms) = (text.to_owned(), number));
    account
        .collectives
        .iter_mut()
        .for_each(|row| (row.name, row.total_ms, row.exposed_ms) = (text.to_owned(), number, number));
    if let Some(efficiency) = &mut account.efficiency {
        (efficiency.tflop_per_s, efficiency.peak_tflop_per_s, efficiency.of_peak) =
            (number, Some(number), Some(number));
        (efficiency.number, efficiency.known) = (name(), number);
        for row in &mut efficiency.operators {
            *row = EfficiencyRow {
                name: text.to_owned(),
                shape: text.to_owned(),
                device_ms: number,
                tflop_per_s: number,
                tb_per_s: number,
                of_peak: Some(number),
                ..row.clone()
            };
        }
    }
    account.notes = vec![text.to_owned()];
    for lane in account.drawn.iter_mut().flat_map(|drawn| &mut drawn.lanes) {
        lane.name = text.to_owned();
        lane.slices
            .iter_mut()
            .for_each(|slice| (slice.name, slice.end, slice.filled) = (text.to_owned(), number, number));
    }
    verdict
}
