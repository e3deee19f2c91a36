//! The loop's time where another tool recorded all of it: its stacks are its time, so nothing is estimated.

use super::frame::RankRates;
use super::overlap::Overlap;
use super::stacks::{self, ProcessStacks};
use super::taxonomy::Activity;
use super::time_split::{LoopActivity, TimeSplit};
use super::wait::Wait;
use trainmon_rates::device::GpuUse;
use trainmon_rates::frame::GpuRates;
use trainmon_sample::loop_profile::TRACE_FILE;
use trainmon_sample::{ProfileSample, Sample};

/// The loop's time in the interval, and its stacks.
pub(super) fn fold(profile: &ProfileSample, gpus: &[GpuRates], sample: &Sample) -> (RankRates, ProcessStacks) {
    let stacks = stacks::of_profile(&profile.stacks);
    let total = stacks.main.total() as f64;
    let seconds = if profile.seconds.is_finite() { profile.seconds.max(0.0) } else { 0.0 };
    let mut rates = RankRates {
        id: profile.stacks.process,
        profiled: true,
        exact: true,
        samples: u32::try_from(stacks.main.total()).unwrap_or(u32::MAX),
        steps: profile.steps,
        step_lengths_s: profile.step_lengths_s.clone(),
        ..RankRates::default()
    };
    if total > 0.0 {
        rates.seconds_seen = seconds;
        for (activity, samples) in stacks.main.iter() {
            let part = f64::from(samples) / total * seconds;
            let (kind, wait) = meaning(activity);
            rates.split_s[kind] += part;
            if let Some(waited) = rates.by_wait_s.get_mut(wait.index()) {
                *waited += part as f32;
            }
        }
        rates.running_s = rates.split_s.host_busy;
        rates.gpu_idle_s = idle(&rates.split_s, gpus, sample);
    }
    (rates, stacks)
}

/// The kind of time that an activity is, and the kind of wait that `/proc` would have shown.
fn meaning(activity: Activity) -> (LoopActivity, Wait) {
    match activity {
        Activity::Waiting => (LoopActivity::InputWait, Wait::LoaderPoll),
        Activity::QueueWait => (LoopActivity::InputWait, Wait::Futex),
        Activity::LoaderStart => (LoopActivity::HostBusy, Wait::Running),
        activity if activity.is_input() => (LoopActivity::InputWait, Wait::Running),
        Activity::Sync => (LoopActivity::DeviceSync, Wait::Gpu),
        Activity::Checkpoint => (LoopActivity::Checkpoint, Wait::DiskWrite),
        Activity::Collective | Activity::OtherWait => (LoopActivity::Other, Wait::Other),
        _ => (LoopActivity::HostBusy, Wait::Running),
    }
}

/// The GPUs' idle seconds by what the loop did, a mean over them.
fn idle(split: &TimeSplit, gpus: &[GpuRates], sample: &Sample) -> Option<TimeSplit> {
    let busy: Vec<f64> = gpus.iter().filter(|gpu| gpu.attached).filter_map(|gpu| gpu.utilization_pct).collect();
    let mut sum = TimeSplit::default();
    for pct in &busy {
        let device = GpuUse::new(Vec::new(), true, pct / 100.0, 1.0, &[], sample, sample.monotonic_ns);
        let mut overlap = Overlap::new(&device);
        for (activity, seconds) in split.iter() {
            overlap.add(sample.monotonic_ns, activity, seconds);
        }
        sum += overlap.idle_s(1.0).map(|seconds| seconds / busy.len() as f64);
    }
    (!busy.is_empty()).then_some(sum)
}

/// The library that the stacks show, if any: a trace is one of torch's profiler.
pub(super) fn library(profile: &ProfileSample) -> Option<&'static str> {
    let of_torch = |file: &str| file == TRACE_FILE || file.starts_with("torch/") || file.contains("/torch/");
    profile.stacks.frames.iter().any(|frame| of_torch(&frame.file)).then_some("torch")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::loop_profile::{
        BLOCKED, COLLECTIVE, DATA_LOADER, MAKE_BATCH, NEXT_BATCH, NOTHING_RECORDED, OWN_WORK, SYNCHRONIZE,
    };
    use trainmon_sample::{StackCount, StackFrame, StackWindow, ThreadStacks};

    fn profile(stacks: &[(&[(&str, &str)], u32)]) -> ProfileSample {
        let (mut frames, mut counts) = (Vec::new(), Vec::new());
        for (stack, samples) in stacks {
            let first = u32::try_from(frames.len()).unwrap();
            frames.extend(stack.iter().map(|(function, file)| StackFrame {
                function: (*function).into(),
                file: (*file).into(),
                ..StackFrame::default()
            }));
            let last = u32::try_from(frames.len()).unwrap();
            counts.push(StackCount { frames: (first..last).collect(), samples: *samples });
        }
        let thread = ThreadStacks { name: "MainThread".into(), tid: None, stacks: counts };
        let stacks = StackWindow { frames, threads: vec![thread], ..StackWindow::default() };
        ProfileSample { stacks, seconds: 2.0, steps: Some(3), step_lengths_s: vec![0.5; 3] }
    }

    #[test]
    fn all_of_the_recorded_time_is_divided() {
        // Names beside these words change nothing, whatever they are like.
        let own = ("save_checkpoint", "/home/me/train.py");
        let profile = profile(&[
            (&[(NEXT_BATCH, TRACE_FILE), (DATA_LOADER, TRACE_FILE), own], 400),
            (&[(MAKE_BATCH, TRACE_FILE)], 100),
            (&[(OWN_WORK, TRACE_FILE), ("synchronize", TRACE_FILE), own], 200),
            (&[(SYNCHRONIZE, TRACE_FILE), ("aten::item", TRACE_FILE)], 100),
            (&[(NOTHING_RECORDED, TRACE_FILE)], 50),
            (&[(COLLECTIVE, TRACE_FILE)], 50),
            (&[(BLOCKED, TRACE_FILE), ("get_batch", "/home/me/train.py")], 100),
        ]);
        let gpu = GpuRates { attached: true, utilization_pct: Some(25.0), ..GpuRates::default() };
        let (rates, _) = fold(&profile, &[gpu], &Sample::default());
        let seconds = [1.0, 0.2, 0.4, 0.0, 0.4];
        assert!(rates.split_s.values().into_iter().zip(seconds).all(|(a, b)| (a - b).abs() < 1e-9), "{rates:?}");
        assert!((rates.gpu_idle_s.unwrap().total() - 1.5).abs() < 1e-9);
        assert!((rates.polled_s() - 0.8).abs() < 1e-6 && rates.steps == Some(3) && rates.seconds_seen == 2.0);
        assert_eq!(library(&profile), Some("torch"));
    }

    #[test]
    fn a_profile_without_stacks_says_nothing_of_the_time() {
        let (rates, stacks) = fold(&profile(&[]), &[], &Sample::default());
        assert_eq!((rates.seconds_seen, rates.split_s.total(), stacks.main.total()), (0.0, 0.0, 0));
        assert_eq!(rates.gpu_idle_s, None);
        let wild = ProfileSample { seconds: f64::NAN, ..profile(&[(&[("x", "y")], u32::MAX)]) };
        assert_eq!(fold(&wild, &[], &Sample::default()).0.split_s.total(), 0.0);
    }
}
