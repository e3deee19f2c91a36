use crate::comparison::StepResult;
use crate::section::SectionBody;
use trainmon_diagnosis::diagnosis::profiled;
use trainmon_diagnosis::diagnosis::verdict::Context;
use trainmon_profiles::account::{GpuAccount, IdleBy, KernelRow, LoopAccount, SyncRow};

use super::*;

/// A verdict on so many steps of so many milliseconds each, of which the GPU waits for data for some.
fn judged(lengths_ms: &[f64], waits_ms: f64) -> Verdict {
    let step_ms = lengths_ms.iter().sum::<f64>() / lengths_ms.len() as f64;
    let waits = waits_ms / step_ms;
    let gpu = GpuAccount {
        name: Some("Tesla V100".into()),
        busy: 1.0 - waits,
        compute: 1.0 - waits,
        idle_by: IdleBy { input_wait: waits, ..IdleBy::default() },
        kernels: 600,
        ..GpuAccount::default()
    };
    let account = ProfileAccount {
        steps: lengths_ms.len() as u64,
        step_ms: Some(step_ms),
        step_lengths_ms: lengths_ms.to_vec(),
        window_ms: lengths_ms.iter().sum(),
        devices: vec![gpu],
        of_loop: Some(LoopAccount { input_wait: waits, operator: 1.0 - waits, ..LoopAccount::default() }),
        ..ProfileAccount::default()
    };
    profiled::verdict(account, &Context::default())
}

fn changed(mut verdict: Verdict, change: impl FnOnce(&mut ProfileAccount)) -> Verdict {
    change(std::sync::Arc::make_mut(verdict.profile.as_mut().unwrap()));
    verdict
}

fn compared<'v>(before: &'v Verdict, after: &'v Verdict, limit: Option<f64>) -> TraceComparison<'v> {
    let side = |name: &str, verdict: &'v Verdict| ComparedTrace {
        name: name.into(),
        verdict,
        account: verdict.profile.as_deref().unwrap(),
    };
    TraceComparison::new(side("a.json", before), side("b.json", after), limit, 50)
}

const SLOW: [f64; 6] = [214.0, 216.0, 213.0, 215.0, 212.0, 214.0];
const FAST: [f64; 6] = [153.0, 154.0, 152.0, 155.0, 153.0, 151.0];

#[test]
fn the_answer_is_one_sentence_with_what_contributes_most() {
    let (slow, fast) = (judged(&SLOW, 62.0), judged(&FAST, 1.0));
    let said = compared(&slow, &fast, None).summary();
    assert!(
        said.starts_with("A step takes 153 ms instead of 214 ms (29% less; 27% to 30%, 99% sure): the GPU no longer waits for data (−61 ms)."),
        "{said}"
    );
    let said = compared(&fast, &slow, None).summary();
    assert!(
        said.contains("214 ms instead of 153 ms (40% more;") && said.contains("the GPU now waits for data (+61 ms)."),
        "{said}"
    );
    // What works against the change is said too.
    let slower_kernels = judged(&FAST.map(|ms| ms + 20.0), 1.0);
    let said = compared(&slow, &slower_kernels, None).summary();
    assert!(said.contains("no longer waits for data (−61 ms), but kernels take more time (+20 ms)."), "{said}");
    let said = compared(&slow, &slow, None).summary();
    assert!(said.starts_with("A step takes the same time: 214 ms before and 214 ms after"), "{said}");
}

#[test]
fn a_limit_is_reached_not_reached_or_not_certain() {
    let (slow, fast) = (judged(&SLOW, 62.0), judged(&FAST, 1.0));
    let slower = |before, after, limit| compared(before, after, Some(limit)).is_slower_by(limit);
    assert_eq!(slower(&fast, &slow, 0.05), Ok(Some(true)));
    assert_eq!(slower(&fast, &slow, 0.5), Ok(Some(false)));
    assert_eq!(slower(&slow, &fast, 0.05), Ok(Some(false)));
    // The limit is within the interval.
    assert_eq!(slower(&fast, &slow, 0.4), Ok(None));
    let varies = judged(&[140.0, 165.0, 150.0, 170.0, 145.0, 148.0], 1.0);
    let comparison = compared(&fast, &varies, Some(0.05));
    assert_eq!((comparison.is_slower_by(0.05), comparison.result()), (Ok(None), StepResult::Unclear));
    assert!(comparison.doubt().unwrap().contains("by how much the steps vary. Profile "), "{}", comparison.summary());
}

#[test]
fn one_step_each_is_noise() {
    let (one, other) = (judged(&[214.0], 60.0), judged(&[153.0], 1.0));
    let comparison = compared(&one, &other, Some(0.05));
    assert_eq!((comparison.result(), comparison.is_slower_by(0.05)), (StepResult::Unclear, Ok(None)));
    let said = comparison.summary();
    assert!(
        said.starts_with(
            "A step takes about 153 ms instead of 214 ms (29% less): the GPU no longer waits for data (−59 ms)."
        ),
        "{said}"
    );
    assert!(said.contains("One step each cannot be distinguished from noise."), "{said}");
    let said = compared(&judged(&SLOW, 60.0), &judged(&FAST[..2], 1.0), None).summary();
    assert!(said.contains("6 and 2 steps cannot be distinguished from noise."), "{said}");
}

#[test]
fn without_steps_windows_are_compared_and_nothing_is_certain() {
    let without = |verdict| changed(verdict, |account| (account.steps, account.step_ms) = (0, None));
    let (steps, window) = (judged(&SLOW, 60.0), without(judged(&[90.0], 1.0)));
    let comparison = compared(&steps, &window, Some(0.05));
    assert_eq!(comparison.is_slower_by(0.05), Ok(None));
    let said = comparison.summary();
    assert!(
        said.starts_with("The window lasts about 90 ms instead of 1.3 s")
            && said.contains("No steps are known of b.json"),
        "{said}"
    );
    assert!(
        comparison
            .cautions()
            .iter()
            .any(|caution| caution.starts_with("The windows cover other work: 600 kernels in 1.3 s before"))
    );
}

#[test]
fn what_else_differs_is_said() {
    let other = changed(judged(&FAST, 1.0), |account| {
        account.devices[0].name = Some("A100".into());
        (account.with_stack, account.world_size, account.compiling) = (true, Some(8), 0.3);
        account.notes.push("The file ends early.".into());
    });
    let one = changed(judged(&SLOW, 62.0), |account| account.world_size = Some(4));
    assert_eq!(
        compared(&one, &other, None).cautions(),
        [
            "The GPUs differ: Tesla V100 before, A100 after.",
            "The numbers of ranks differ: 4 before, 8 after.",
            "Python functions were recorded (with_stack=True) in b.json alone, which slows the loop there.",
            "Compiling took 0% of the time before, 30% after.",
            "b.json: The file ends early.",
        ]
    );
    assert!(compared(&one, &one, None).cautions().is_empty());
    let far = changed(judged(&[214.0, 216.0, 490.0], 62.0), |account| account.longest_step_ms = Some(490.0));
    assert_eq!(
        compared(&far, &far, None).cautions()[0],
        "a.json: the longest step takes 490 ms, a median one 216 ms."
    );
}

#[test]
fn tables_show_what_changed_most_and_fit_into_80_columns() {
    let kernel = |name: &str, count, total_ms| KernelRow {
        name: name.into(),
        count,
        total_ms,
        median_us: 1000.0 * total_ms / count as f64,
        ..KernelRow::default()
    };
    let sync = SyncRow {
        call: "cudaStreamSynchronize".into(),
        operator: Some("aten::item".into()),
        count: 36,
        wait_ms: 12.0,
        idle_ms: 6.0,
        ..SyncRow::default()
    };
    let before = changed(judged(&SLOW, 62.0), |account| {
        account.kernels = (0..30)
            .map(|nth| {
                kernel(&format!("elementwise kernel {nth} that has a long name bf16"), 60, 6.0 * (31 - nth) as f64)
            })
            .collect();
        account.syncs.push(sync);
    });
    let after = changed(judged(&FAST, 1.0), |account| account.kernels.push(kernel("flash attention fwd", 6, 600.0)));
    let comparison = compared(&before, &after, None);
    let page = comparison.page();
    let said = page.sections.iter().flat_map(|section| {
        let cells = match &section.body {
            SectionBody::Table(_, rows) => rows.concat(),
            _ => Vec::new(),
        };
        [section.title.clone()].into_iter().chain(cells).chain(section.below(section.brief))
    });
    let said = said.collect::<Vec<_>>().join(" ");
    for part in [
        "Where the time of a step goes",
        "idle: waiting for data 62 ms (29%) 1.0 ms (1%) −61 ms",
        "and 21 more",
        "flash attention fwd",
        "6 → 0",
        "aten::item (cudaStreamSynchronize)",
        "The GPU",
        "before DATA LOADER (95% sure) ▶ See what",
        "GPU Tesla V100 the same",
    ] {
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(words.join(" ").contains(part), "{part}: {said}");
    }
    let json = serde_json::to_value(comparison.json()).unwrap();
    assert_eq!((json["result"].as_str(), json["profile"]["per"].as_str()), (Some("faster"), Some("step")));
    assert_eq!(json["profile"]["kernels"]["rows"].as_array().unwrap().len(), 31);
    assert_eq!(json["profile"]["syncs"]["rows"][0]["count"], serde_json::json!({ "before": 6.0, "after": null }));
}
