//! The host cannot launch the many small kernels fast enough.

use super::*;

thresholds! {
    SOMEWHAT_BUSY = 0.35, "share", "launches keep the GPU busy in between; without them it would be idle more";
    ALWAYS_RUNNING = 0.80, "share", "launching is work on a CPU, without waits";
    MOSTLY_MODEL = 0.60, "of the time outside of the loader", "the larger part of the loop is the model's own calls";
    HELPED = 0.50, "of the host's work", "kernels are launched from one thread; kernels of the CPU share their work among several";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "kernel launches too slow",
    brief: "many tiny kernels to launch",
    meaning: "the host cannot launch the many small kernels fast enough",
    rule: &[
        RUNS_DRY,
        "the loop works on the host at least `host_work` of the time",
        "without stacks: it is on a CPU at least `always_running` of the time, and the GPU is busy at least \
         `somewhat_busy` of the time but draws less than `low_power`",
        "with stacks: the model's own calls take at least `mostly_model`, and the loop waits for the GPU less than \
         `sync` of the time. A thread that waits for the queue to run empty launches nothing meanwhile",
        "no other thread of the process, except torch's own, works as long as `helped`",
    ],
    judge: |case| {
        let gpu = case.gpu_idle_by_host()?;
        let launches = match &case.main.stacks {
            Some(stacks) => {
                let waits = case.main.shares.device_sync;
                stacks.shares.of_model() >= MOSTLY_MODEL.value * stacks.shares.outside() && waits < SYNC.value
            }
            None => {
                let low_power = gpu.power.is_none_or(|power| power < LOW_POWER);
                gpu.job_busy >= SOMEWHAT_BUSY && low_power && case.main.running > ALWAYS_RUNNING
            }
        };
        let host = case.main.shares.host_busy;
        // An optimizer on the CPU also counts as one of the model's own calls.
        let alone = case.main.other_threads.busiest < HELPED.value * host;
        let holds = launches && alone && host >= HOST_WORK;
        holds.then(|| main_thread::or_loading(case, case.found(Cause::LaunchBound, INFERRED)))
    },
    signals: &[MAIN_TIME, MAIN_WAIT, DEVICE, POWER, MAIN_STACKS],
    source: "a launch costs the host several microseconds, whatever the kernel does. Shorter kernels leave gaps \
        that utilization counts as busy, but power does not",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "Python work between launches looks the same if the GPU still draws little (cpu/main-thread). A series \
        of tiny kernels may also be called gpu/under-filled",
    advice: advice![
        "Use torch.compile or CUDA graphs"
            => "they launch many kernels at once";
        "Raise the batch size"
            => "fewer, larger kernels then do the same work";
        "Use the fused optimizers: AdamW(…, fused=True)"
            => "one kernel then replaces several for each parameter";
    ],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Loop,
    ..CauseSpec::in_class(Class::Cpu)
};
