use super::super::account::{
    CopyDirection, CopyRow, GpuAccount, IdleBy, KernelRow, LoopAccount, OperatorRow, SyncRow,
};
use super::*;

/// An account of so many steps of so many milliseconds, on a GPU that waits for data for this share.
fn account(steps: u64, step_ms: f64, waits: f64) -> ProfileAccount {
    let gpu = GpuAccount {
        busy: 0.9 - waits,
        compute: 0.7 - waits,
        communication: 0.3,
        exposed: 0.15,
        copy: 0.2,
        copy_alone: 0.05,
        idle_by: IdleBy { input_wait: waits, sync: 0.01, launch: 0.02, operator: 0.03, python: 0.04 },
        ..GpuAccount::default()
    };
    ProfileAccount {
        steps,
        step_ms: (steps > 0).then_some(step_ms),
        window_ms: step_ms * steps.max(1) as f64,
        devices: vec![gpu],
        ..ProfileAccount::default()
    }
}

fn kernel(name: &str, count: u64, total_ms: f64) -> KernelRow {
    KernelRow {
        name: name.into(),
        raw: format!("void {name}"),
        count,
        total_ms,
        median_us: total_ms,
        ..KernelRow::default()
    }
}

#[test]
fn what_the_parts_contribute_adds_up_to_the_change() {
    for (before, after, per) in [
        (account(6, 200.0, 0.4), account(4, 130.0, 0.01), Per::Step),
        (account(6, 200.0, 0.4), account(0, 900.0, 0.2), Per::Window),
    ] {
        let change = ProfileChange::between([&before, &after], 10);
        assert_eq!((change.per, change.parts_of, change.parts.len()), (per, Some(PartsOf::Gpu), 8));
        let sums: [f64; 2] = [0, 1].map(|side| change.parts.iter().map(|part| part.ms.values()[side]).sum());
        let contributed: f64 = change.parts.iter().map(|part| part.change_ms).sum();
        for (sum, length) in sums.into_iter().zip(change.length_ms.values()) {
            assert!((sum - length).abs() < 1e-9, "{sum} of {length}");
        }
        assert!((contributed - change.length_ms.change()).abs() < 1e-9, "{contributed}");
    }
    let change = ProfileChange::between([&account(6, 200.0, 0.4), &account(4, 130.0, 0.01)], 10);
    let waits = change.parts.iter().find(|part| part.part == StepPart::InputWait).unwrap();
    assert!((waits.change_ms - (1.3 - 80.0)).abs() < 1e-9, "{waits:?}");
}

#[test]
fn without_a_gpu_the_loop_is_divided() {
    let of_loop = |input_wait: f64| LoopAccount {
        input_wait,
        operator: 0.9 - input_wait,
        nothing: 0.1,
        ..LoopAccount::default()
    };
    let host = |input_wait| ProfileAccount {
        devices: Vec::new(),
        of_loop: Some(of_loop(input_wait)),
        ..account(5, 100.0, 0.0)
    };
    let change = ProfileChange::between([&host(0.5), &host(0.2)], 10);
    assert_eq!(change.parts_of, Some(PartsOf::Loop));
    assert!(change.parts.iter().map(|part| part.change_ms).sum::<f64>().abs() < 1e-9);
    // Nothing is divided that only one of them has.
    let change = ProfileChange::between([&account(5, 100.0, 0.1), &host(0.2)], 10);
    assert_eq!((change.parts_of, change.parts.len()), (None, 0));
}

#[test]
fn kernels_of_one_name_are_one_and_those_that_changed_most_come_first() {
    let before = ProfileAccount {
        kernels: vec![
            kernel("gemm f16", 60, 60.0),
            kernel("gemm f16", 60, 30.0),
            kernel("softmax", 6, 6.0),
            kernel("copy", 6, 1.0),
        ],
        ..account(6, 100.0, 0.1)
    };
    let after = ProfileAccount {
        kernels: vec![kernel("gemm f16", 30, 45.0), kernel("flash attention", 3, 3.0), kernel("copy", 3, 0.5)],
        ..account(3, 100.0, 0.1)
    };
    let change = ProfileChange::between([&before, &after], 2);
    let names: Vec<&str> = change.kernels.rows.iter().map(|row| row.key.name.as_str()).collect();
    // The copies are as many and take as long.
    assert_eq!((names, change.kernels.left_out), (vec!["softmax", "flash attention"], 1));
    let all = ProfileChange::between([&before, &after], 10).kernels.rows;
    let gemm = all.iter().find(|row| row.key.name == "gemm f16").unwrap();
    assert_eq!(
        (gemm.number(RowNumber::Ms), gemm.number(RowNumber::Count)),
        (BeforeAfter::new([15.0; 2]), BeforeAfter::new([20.0, 10.0]))
    );
    // Of 120 runs, the 61st is one of the longer ones.
    assert_eq!(gemm.number(RowNumber::MedianUs), BeforeAfter::new([60.0, 45.0]));
    assert_eq!(
        (all[0].number(RowNumber::Ms).before, all[0].number(RowNumber::Ms).after, all[0].change_ms),
        (Some(1.0), None, -1.0)
    );
    assert_eq!(
        (all[1].number(RowNumber::Ms).before, all[1].number(RowNumber::Ms).after, all[1].change_ms),
        (None, Some(1.0), 1.0)
    );
}

#[test]
fn calls_copies_and_operators_are_counted_per_step() {
    let sync = |count, idle_ms| SyncRow {
        call: "cudaStreamSynchronize".into(),
        operator: Some("aten::item".into()),
        count,
        idle_ms,
        ..SyncRow::default()
    };
    let copy = |pageable, bytes| CopyRow {
        direction: Some(CopyDirection::HostToDevice),
        pageable: Some(pageable),
        count: 4,
        bytes,
        ms: 8.0,
        ..CopyRow::default()
    };
    let operator = |device_ms, idle_ms| OperatorRow {
        name: "aten::mm".into(),
        count: 8,
        device_ms,
        idle_ms,
        ..OperatorRow::default()
    };
    let before = ProfileAccount {
        syncs: vec![sync(20, 4.0), sync(4, 4.0)],
        copies: vec![copy(true, 400)],
        operators: vec![operator(8.0, 8.0)],
        ..account(4, 50.0, 0.1)
    };
    let after = ProfileAccount {
        copies: vec![copy(false, 400)],
        operators: vec![operator(4.0, 4.0)],
        ..account(4, 40.0, 0.1)
    };
    let change = ProfileChange::between([&before, &after], 10);
    let [sync] = &change.syncs.rows[..] else { panic!("{:?}", change.syncs) };
    assert_eq!(
        (sync.number(RowNumber::Count), sync.change_ms),
        (BeforeAfter { before: Some(6.0), after: None }, -2.0)
    );
    assert_eq!(change.copies.rows.len(), 2);
    assert_eq!(change.copies.rows[0].number(RowNumber::Bytes).values(), [100.0, 0.0]);
    assert_eq!(change.operators.rows[0].change_ms, -2.0);
}
