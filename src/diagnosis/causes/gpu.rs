//! Causes in the device: it is busy, and this is with what.

use super::signals::{
    CLOCK_REASONS, DEVICE, DEVICE_MEMORY, DEVICE_PROCESSES, MAIN_STACKS, MAIN_WAIT, PCIE, POWER, SM,
};
use super::{Cause, Confirmed};
use crate::diagnosis::thresholds as limit;
use crate::diagnosis::verdict::Class;

/// What nearly every rule of this class begins with.
const BUSY: &str = "the device is busy with the job's work at least `device_busy` of the time";

pub(super) const CAUSES: &[Cause] = &[
    Cause {
        class: Class::Gpu,
        name: "compute-bound",
        headline: "busy computing, which is healthy",
        meaning: "the device computes all the time: healthy",
        rule: &[BUSY, "no other cause of this class fits"],
        thresholds: &[&limit::DEVICE_BUSY],
        signals: &[DEVICE, POWER, MAIN_WAIT],
        source: "NVML: utilisation is the share of the last sample period in which a kernel ran; high power with it \
                 says that the kernels fill the device",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "without power readings a device that is busy with small kernels looks the same (under-filled); a \
                 host that waits spinning for the device looks busy, and is not the limit",
        advice: &[
            (
                "Use mixed precision (torch.autocast) and torch.compile",
                "the device is busy: only cheaper or fused work helps",
            ),
            ("Use a faster or a second GPU", "nothing on the host holds it back"),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "memory-bandwidth",
        headline: "device memory is at its limit",
        meaning: "the device's memory is the limit",
        rule: &[
            BUSY,
            "its memory controller (or DRAM, where GPM tells) is in use at least `memory_busy` of the time",
        ],
        thresholds: &[&limit::DEVICE_BUSY, &limit::MEMORY_BUSY],
        signals: &[DEVICE, DEVICE_MEMORY],
        source: "nvmlUtilization_t.memory: share of time in which device memory was read or written; GPM's DRAM \
                 activity measures the bandwidth itself",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "without GPM the number counts time with any access, not bandwidth: it overstates",
        advice: &[
            ("Fuse elementwise operations (torch.compile), use bf16 and channels_last", "fewer bytes per step"),
            (
                "Use scaled_dot_product_attention and fused optimizers",
                "they read and write intermediate results once instead of several times",
            ),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "under-filled",
        headline: "busy, but barely filled",
        meaning: "the device is busy but draws little power: its kernels do not fill it",
        rule: &[
            BUSY,
            "it draws less than `low_power`, or, where GPM tells, less than `sm_active` of its multiprocessors work",
        ],
        thresholds: &[&limit::DEVICE_BUSY, &limit::LOW_POWER, &limit::SM_ACTIVE],
        signals: &[DEVICE, POWER, SM],
        source: "NVML utilisation counts time with at least one kernel, however small: power or SM activity tells how \
                 much of the device it used",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "work bound by memory draws less power too; a host that does nothing but launch tiny kernels looks the \
                 same (cpu/launch-bound); so does a device that waits in a collective",
        advice: &[
            ("Raise the batch size as far as memory and accuracy allow", "larger kernels fill the device"),
            ("Use torch.compile or CUDA graphs", "fewer, larger kernels"),
            (
                "Use mixed precision (torch.autocast)",
                "the tensor cores do more with each kernel, and batches can grow",
            ),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "host-device-sync",
        headline: "the host waits for the device again and again",
        meaning: "the host waits for the device over and over",
        rule: &[
            BUSY,
            "with stacks: one line of the user's code in the middle of the step holds at least `sync` of the main \
             thread's time",
        ],
        thresholds: &[&limit::DEVICE_BUSY, &limit::SYNC],
        signals: &[MAIN_STACKS, MAIN_WAIT, DEVICE],
        source: "a wait at the end of a step that is bound by the device is healthy; waits within it keep the host from \
                 running ahead, so that the device runs dry as soon as it gets faster",
        confirmed: Confirmed::Unconfirmed,
        limits: "needs stacks; little can be gained while the device is busy, so it is mostly a finding beside another",
        advice: &[
            ("Remove .item(), .cpu() and nonzero() from the step", "each of them waits for the device"),
            ("Read the loss every N steps only", "the host can then run ahead"),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "copy-bound",
        headline: "copies to the device",
        meaning: "copies over PCIe keep the device busy",
        rule: &[
            "the PCIe link is in use at least `pcie_busy`",
            "the device is busy less than `device_busy` of the time, for copies are no kernels; or it is busy and draws \
             less than `low_power`",
        ],
        thresholds: &[&limit::PCIE_BUSY, &limit::DEVICE_BUSY, &limit::LOW_POWER],
        signals: &[PCIE, DEVICE, POWER],
        source: "nvmlDeviceGetPcieThroughput samples 20 ms for each query; the link carries generation x width, less \
                 10 to 20 percent for its protocol",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "a short sample now and then: bursts are missed or overstated; copies that wait for pageable memory \
                 leave the link idle and are not found",
        advice: &[
            (
                "Copy less: uint8 batches, augment on the device; pin_memory=True and non_blocking=True",
                "the link is full",
            ),
            (
                "Copy the next batch on a stream of its own while the step computes",
                "copies from pinned memory overlap with kernels",
            ),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "throttled",
        headline: "the device's clocks are held down",
        meaning: "heat or power makes the device lower its clocks",
        rule: &[
            BUSY,
            "a clock event reason for heat, slowdown or power brake is active in at least `gpu_throttled`",
            "the software power cap alone is only a finding beside another: a well-used device ends up there",
        ],
        thresholds: &[&limit::DEVICE_BUSY, &limit::GPU_THROTTLED],
        signals: &[CLOCK_REASONS, DEVICE],
        source: "nvml.h, nvmlClocksEventReason*: HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, power brake 0x80; \
                 SW power cap 0x4, idle 0x1 and applied clocks 0x2 do not count",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "says that the clocks are held down, not by how much: compare the SM clock with the device's maximum",
        advice: &[
            (
                "Check cooling and power supply (`nvidia-smi -q -d PERFORMANCE`)",
                "the clocks are held down while it works",
            ),
            (
                "Check the power limit (`nvidia-smi -q -d POWER`) and raise it with `nvidia-smi -pl` where it was lowered",
                "a limit below the default holds the clocks down as well",
            ),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "shared-gpu",
        headline: "another process uses the device",
        meaning: "another process uses the same device",
        rule: &[
            "another process computes on the device",
            "its use that is not the job's is at least `shared_gpu`, and the device is busy in all",
        ],
        thresholds: &[&limit::SHARED_GPU],
        signals: &[DEVICE, DEVICE_PROCESSES],
        source: "processes without MPS take turns on a device: none runs while another does",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "inside a container the other process may be invisible, and NVML's PIDs are the host's; a display or a \
                 service that only holds memory costs nothing",
        advice: &[
            ("Move one of the jobs to another GPU", "they take turns on the device"),
            (
                "Where both must stay, use MIG instances or the MPS server",
                "they then run side by side instead of in turns",
            ),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "communication",
        headline: "waiting for other ranks",
        meaning: "the ranks spend their time in collectives",
        rule: &[
            "several ranks train together",
            "their main threads spend at least `collectives` in collectives, evenly over the ranks; or their devices are \
             busy at less than `low_power`, as they are while a collective waits",
            "where ranks differ by `straggler` and more, the one that does not wait holds up the others: the verdict is \
             that rank's own cause",
        ],
        thresholds: &[&limit::COLLECTIVES, &limit::LOW_POWER, &limit::STRAGGLER],
        signals: &[MAIN_STACKS, MAIN_WAIT, DEVICE, POWER],
        source: "frames of torch/distributed/distributed_c10d.py; a rank that waits in a collective kernel reads close \
                 to full utilisation at low power",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "needs stacks; with NCCL the host launches a collective and goes on, and the wait shows up at the next \
                 synchronisation or as a busy device at low power; ranks on other machines are not seen",
        advice: &[
            (
                "Communicate less often: accumulate gradients under no_sync(), or larger batches per rank",
                "each step then exchanges gradients once for more work",
            ),
            (
                "Let DDP overlap: bucket_cap_mb, gradient_as_bucket_view=True, static_graph=True; compress with bf16 hooks",
                "exchange that runs during the backward pass is hidden behind it",
            ),
            (
                "Check the transport with NCCL_DEBUG=INFO (NVLink or InfiniBand, not sockets)",
                "a fall-back to TCP is many times slower",
            ),
        ],
    },
];
