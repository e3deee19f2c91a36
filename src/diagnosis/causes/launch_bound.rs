//! The host cannot launch the many small kernels fast enough.

use super::*;

thresholds! {
    SOMEWHAT_BUSY = 0.35, "share", "launches keep the device busy in between; with none of them it would idle more";
    ALWAYS_RUNNING = 0.80, "share", "launching is work on a CPU, without waits";
    MOSTLY_MODEL = 0.60, "of the time outside of the loader", "the larger part of the loop is the model's own calls";
    HELPED = 0.50, "of the host's work", "who launches does so in one thread; kernels of the CPU share their work among several";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the host cannot launch fast enough",
    brief: "many tiny kernels to launch",
    meaning: "the host cannot launch the many small kernels fast enough",
    rule: &[
        RUNS_DRY,
        "the main thread works on the host `host_work` and more, on a CPU `always_running`, and waits for the device \
         less than `sync`",
        "the device is busy `somewhat_busy` and more, at less than `low_power`",
        "with stacks, instead: the model's own calls are `mostly_model` and more, and it waits for the device as little: \
         who waits for the queue to run empty does not launch meanwhile, whatever the host does then",
        "no other thread of the process that is not torch's own works `helped` as long",
    ],
    judge: |case| {
        let gpu = case.device_idle_by_host()?;
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
        // An optimizer that runs on the CPU counts as one of the model's own calls too.
        let alone = case.main.other_threads.busiest < HELPED.value * host;
        let holds = launches && alone && host >= HOST_WORK;
        holds.then(|| main_thread::or_loading(case, case.found(Cause::LaunchBound, INFERRED)))
    },
    signals: &[MAIN_TIME, MAIN_WAIT, DEVICE, POWER, MAIN_STACKS],
    source: "a launch costs the host several microseconds, whatever the kernel does; kernels shorter than that leave \
             gaps that utilisation counts as busy, but power does not",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "Python work between launches looks the same where the device still draws little (cpu/main-thread); one \
             tiny kernel after the other can also be called gpu/under-filled",
    advice: advice![
        "Use torch.compile or CUDA graphs" => "they launch many kernels at once";
        "Raise the batch size" => "fewer, larger kernels";
        "Use the fused optimizers (torch.optim.AdamW(…, fused=True))"
            => "one kernel instead of several for each parameter";
    ],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Loop,
    ..CauseSpec::in_class(Class::Cpu)
};
