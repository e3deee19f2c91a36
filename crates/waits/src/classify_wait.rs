//! What one sample of the loop's thread means: the rules that turn a kind of wait into one of five activities.
//!
//! `/proc` shows in which call a thread is blocked, not why. The rules below choose the likeliest reason; if two are
//! likely, other signals of the same moment decide (the pin-memory thread, compute threads, the GPU's use, what the
//! workers do). Facts about torch's loader are from torch/utils/data/dataloader.py and _utils/{worker,pin_memory}.py.

use super::sampled::SampledPoint;
use super::time_split::LoopActivity;
use super::wait::Wait;
use trainmon_rates::levels::WORKING_SHARE;

/// What is known besides the sample itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct WaitContext {
    /// Whether the system call's arguments are readable: they tell torch's data poll from other polls.
    pub exact: bool,
    /// The training process has workers.
    pub workers: bool,
    /// In this tick every worker had nothing to do: batches are ready, the loader is ahead.
    pub loader_ahead: bool,
    /// There is evidence that the process trains at all: a machine-learning library, or a GPU in use.
    pub training: bool,
    /// Utilization of the training process's GPU around the sample, 0–1. `None`: no GPU, or unknown.
    pub gpu: Option<f64>,
    /// The loop's thread was writing a lot of data around the sample.
    pub writing: bool,
}

impl WaitContext {
    /// Whether a blocked thread may be waiting for the GPU: the GPU is busy.
    fn gpu_busy(&self) -> bool {
        self.gpu.is_some_and(|busy| busy >= WORKING_SHARE)
    }
}

/// What the loop's thread spent its time on at one sample.
///
/// | the loop's thread in | kind |
/// |---|---|
/// | Running | own work; saving while it writes a lot |
/// | LoaderPoll | waiting for data, whatever else happens: the call's arguments identify it |
/// | Futex, with a pin-memory thread that is not itself in a futex, if system calls cannot be read | the queue of pinned batches may be empty, see below |
/// | Poll, with workers and without a pin-memory thread | the loader may be polled, see below |
/// | Pipe, Socket | with workers: waiting for data (other loaders hand over batches this way). Without: waiting for data in a training process (it reads its data itself), else other |
/// | DiskRead, Memory | without workers: waiting for data (loading in process); with workers: other |
/// | DiskWrite | saving |
/// | Other | saving while it writes a lot, else like any blocked thread |
/// | Child, Stopped, Unknown | other |
/// | any other blocked state | own work if compute threads of the process run, unless it sleeps. Else waiting for the GPU if the GPU is busy. Else other |
///
/// *Futex with a pin-memory thread.* If system calls can be read, a wait for a pinned batch already shows as LoaderPoll
/// by its timeout. If not: the pin-memory thread (`pt_data_pin`) polls for the next batch nearly all the time, because
/// its outgoing queue has no bound. So "loop in futex, pin-memory thread in poll" is a wait for a batch unless
/// something else explains the futex. `backward()` does: the caller sleeps in a futex while an autograd thread works,
/// so a running compute thread means own work. And if every worker has nothing to do while the GPU is busy, the wait is
/// for the GPU. If the pin-memory thread runs, copies or is in a driver call, it is processing the batch: waiting for
/// data (moving a batch). If it is in a futex, it waits itself (mostly for the interpreter lock), and the rules for blocked
/// threads apply.
///
/// *Poll with workers.* If system calls cannot be read, a poll is attributed to the loader. If they can, torch's own
/// poll would show as LoaderPoll, so this is another loader's, or torch's with `timeout=`, or a blocking wait of the
/// GPU driver on its descriptor: running compute threads mean own work, a busy GPU means waiting for the GPU. Without
/// system calls the GPU explains the poll only if every worker had nothing to do.
pub(super) fn classify(point: &SampledPoint, context: &WaitContext) -> LoopActivity {
    let helper = point.helper_running;
    match point.main {
        Wait::Running | Wait::Other if context.writing => LoopActivity::Checkpoint,
        Wait::Running => LoopActivity::HostBusy,
        Wait::LoaderPoll => LoopActivity::InputWait,
        Wait::DiskWrite => LoopActivity::Checkpoint,
        Wait::DiskRead | Wait::Memory if context.workers => LoopActivity::Other,
        Wait::DiskRead | Wait::Memory => LoopActivity::InputWait,
        Wait::Pipe | Wait::Socket if context.workers || context.training => LoopActivity::InputWait,
        Wait::Pipe | Wait::Socket | Wait::Child | Wait::Stopped | Wait::Unknown => LoopActivity::Other,
        Wait::Futex if !context.exact && point.pin.is_some_and(fetching) => match () {
            () if helper => LoopActivity::HostBusy,
            () if context.loader_ahead && context.gpu_busy() => LoopActivity::DeviceSync,
            () => LoopActivity::InputWait,
        },
        Wait::Poll if context.workers && point.pin.is_none() => match () {
            () if context.exact && helper => LoopActivity::HostBusy,
            () if context.gpu_busy() && (context.exact || context.loader_ahead) => LoopActivity::DeviceSync,
            () => LoopActivity::InputWait,
        },
        Wait::Futex | Wait::Poll | Wait::Sleep | Wait::Gpu | Wait::Other => match () {
            // A sleeping thread waits for no other thread.
            () if helper && point.main != Wait::Sleep => LoopActivity::HostBusy,
            () if context.gpu_busy() => LoopActivity::DeviceSync,
            () => LoopActivity::Other,
        },
    }
}

/// Whether the pin-memory thread waits for a batch or is processing one.
fn fetching(pin: Wait) -> bool {
    !matches!(pin, Wait::Futex | Wait::Stopped | Wait::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(main: Wait) -> SampledPoint {
        SampledPoint { main, ..SampledPoint::default() }
    }

    const NOTHING: WaitContext =
        WaitContext { exact: true, workers: false, loader_ahead: false, training: false, gpu: None, writing: false };
    const WORKERS: WaitContext = WaitContext { workers: true, ..NOTHING };
    const DEVICE: WaitContext = WaitContext { gpu: Some(0.4), training: true, ..NOTHING };

    #[test]
    fn signature_of_the_loader() {
        assert_eq!(classify(&at(Wait::LoaderPoll), &NOTHING), LoopActivity::InputWait);
        let helper = SampledPoint { helper_running: true, ..at(Wait::LoaderPoll) };
        assert_eq!(classify(&helper, &WaitContext { workers: true, ..DEVICE }), LoopActivity::InputWait);
    }

    #[test]
    fn pin_thread_fetching_means_a_wait_for_a_batch_where_calls_are_hidden() {
        let hidden = WaitContext { exact: false, ..WORKERS };
        for pin in [Wait::LoaderPoll, Wait::Poll, Wait::Running, Wait::Pipe, Wait::Socket, Wait::Gpu] {
            let point = SampledPoint { pin: Some(pin), ..at(Wait::Futex) };
            assert_eq!(classify(&point, &hidden), LoopActivity::InputWait, "{pin:?}");
            // Where they are not, a wait for a pinned batch is a LoaderPoll, so this futex is for something else.
            assert_eq!(classify(&point, &WORKERS), LoopActivity::Other, "{pin:?}");
            assert_eq!(
                classify(&point, &WaitContext { workers: true, ..DEVICE }),
                LoopActivity::DeviceSync,
                "{pin:?}"
            );
            let point = SampledPoint { main: Wait::LoaderPoll, ..point };
            assert_eq!(
                classify(&point, &WaitContext { workers: true, ..DEVICE }),
                LoopActivity::InputWait,
                "{pin:?}"
            );
        }
        for pin in [Wait::Futex, Wait::Stopped, Wait::Unknown] {
            let point = SampledPoint { pin: Some(pin), ..at(Wait::Futex) };
            for exact in [true, false] {
                assert_eq!(classify(&point, &WaitContext { exact, ..WORKERS }), LoopActivity::Other, "{pin:?}");
                let gpu = WaitContext { workers: true, exact, ..DEVICE };
                assert_eq!(classify(&point, &gpu), LoopActivity::DeviceSync, "{pin:?}");
            }
        }
    }

    #[test]
    fn backward_with_a_pin_thread_is_host_work() {
        let point = SampledPoint { pin: Some(Wait::LoaderPoll), helper_running: true, ..at(Wait::Futex) };
        for exact in [true, false] {
            assert_eq!(classify(&point, &WaitContext { workers: true, exact, ..DEVICE }), LoopActivity::HostBusy);
        }
    }

    #[test]
    fn loader_ahead_and_device_busy_is_a_sync() {
        let point = SampledPoint { pin: Some(Wait::LoaderPoll), ..at(Wait::Futex) };
        let ahead = WaitContext { workers: true, loader_ahead: true, exact: false, ..DEVICE };
        let behind = WaitContext { loader_ahead: false, ..ahead };
        assert_eq!(classify(&point, &ahead), LoopActivity::DeviceSync);
        assert_eq!(classify(&point, &behind), LoopActivity::InputWait);
        assert_eq!(classify(&point, &WaitContext { gpu: Some(0.04), ..ahead }), LoopActivity::InputWait);
        assert_eq!(classify(&at(Wait::Poll), &ahead), LoopActivity::DeviceSync);
        assert_eq!(classify(&at(Wait::Poll), &behind), LoopActivity::InputWait);
        for context in [ahead, behind] {
            assert_eq!(classify(&point, &WaitContext { exact: true, ..context }), LoopActivity::DeviceSync);
        }
    }

    #[test]
    fn polls_of_other_loaders() {
        assert_eq!(classify(&at(Wait::Poll), &WORKERS), LoopActivity::InputWait);
        assert_eq!(classify(&at(Wait::Poll), &WaitContext { exact: false, ..WORKERS }), LoopActivity::InputWait);
        assert_eq!(classify(&at(Wait::Poll), &NOTHING), LoopActivity::Other);
        assert_eq!(classify(&at(Wait::Poll), &WaitContext { workers: true, ..DEVICE }), LoopActivity::DeviceSync);
        let helper = SampledPoint { helper_running: true, ..at(Wait::Poll) };
        assert_eq!(classify(&helper, &WORKERS), LoopActivity::HostBusy);
        for wait in [Wait::Pipe, Wait::Socket] {
            assert_eq!(classify(&at(wait), &WORKERS), LoopActivity::InputWait);
            assert_eq!(classify(&at(wait), &NOTHING), LoopActivity::Other, "a server is no training");
            assert_eq!(classify(&at(wait), &WaitContext { training: true, ..NOTHING }), LoopActivity::InputWait);
        }
    }

    #[test]
    fn poll_with_a_pin_thread_is_not_the_loaders() {
        let point = SampledPoint { pin: Some(Wait::LoaderPoll), ..at(Wait::Poll) };
        assert_eq!(classify(&point, &WORKERS), LoopActivity::Other);
        assert_eq!(classify(&point, &WaitContext { exact: false, ..WORKERS }), LoopActivity::Other);
    }

    #[test]
    fn disks() {
        for wait in [Wait::DiskRead, Wait::Memory] {
            assert_eq!(classify(&at(wait), &NOTHING), LoopActivity::InputWait);
            assert_eq!(classify(&at(wait), &WORKERS), LoopActivity::Other);
        }
        assert_eq!(classify(&at(Wait::DiskWrite), &WORKERS), LoopActivity::Checkpoint);
        let writing = WaitContext { writing: true, ..DEVICE };
        assert_eq!(classify(&at(Wait::Running), &writing), LoopActivity::Checkpoint);
        assert_eq!(classify(&at(Wait::Other), &writing), LoopActivity::Checkpoint);
        assert_eq!(classify(&at(Wait::Sleep), &writing), LoopActivity::DeviceSync);
        assert_eq!(classify(&at(Wait::Running), &DEVICE), LoopActivity::HostBusy);
    }

    #[test]
    fn blocked_threads() {
        for wait in [Wait::Futex, Wait::Poll, Wait::Sleep, Wait::Gpu, Wait::Other] {
            assert_eq!(classify(&at(wait), &NOTHING), LoopActivity::Other);
            assert_eq!(classify(&at(wait), &DEVICE), LoopActivity::DeviceSync);
            assert_eq!(classify(&at(wait), &WaitContext { gpu: Some(0.04), ..DEVICE }), LoopActivity::Other);
            let helper = SampledPoint { helper_running: true, ..at(wait) };
            let of_helper = if wait == Wait::Sleep { LoopActivity::DeviceSync } else { LoopActivity::HostBusy };
            assert_eq!(classify(&helper, &DEVICE), of_helper);
        }
        for wait in [Wait::Child, Wait::Stopped, Wait::Unknown] {
            assert_eq!(classify(&at(wait), &WaitContext { workers: true, ..DEVICE }), LoopActivity::Other);
        }
    }
}
