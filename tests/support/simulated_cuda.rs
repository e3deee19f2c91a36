//! The calls of a training program to a simulated device that does not sleep, as native code.
//!
//! CUDA's own calls leave no Python frame, release the interpreter lock, make no system calls, and wait for the device by
//! spinning in user mode over the clock and a flag that the device writes. So do these: `tests/workloads/simulated_gpu.py` loads
//! them by ctypes in place of its own, which sleep.
#![allow(unsafe_code, reason = "exports C functions")]
#![allow(
    clippy::missing_safety_doc,
    clippy::unwrap_used,
    reason = "called through simulated_gpu.py only; a test library may die of a poisoned lock"
)]

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trainmon::sources::simulated_gpu::{Queue, monotonic_ns};

/// Launches that may be outstanding before the next one waits; CUDA's launch queue holds about as many.
const MOST_QUEUED: usize = 1024;
/// Words of a record that are written here.
const SEQUENCE: usize = 0;
const ENQUEUED: usize = 1;
const FREE_AT: usize = 2;

/// A device's queue and the mapped record that shows it.
pub struct Gpu {
    record: *const AtomicU64,
    queue: Mutex<(Queue, VecDeque<u64>)>,
    waited_ns: AtomicU64,
}

impl Gpu {
    fn store(&self, word: usize, value: u64) {
        // SAFETY: the record of a mapped file, 32 words long, outlives the queue (simulated_gpu.py keeps both).
        unsafe { &*self.record.add(word) }.store(value, Ordering::Release);
    }

    fn spin_until(&self, moment_ns: u64) {
        let begun = monotonic_ns();
        let mut now = begun;
        while now < moment_ns {
            (0..50).for_each(|_| spin_loop());
            now = monotonic_ns();
        }
        self.waited_ns.fetch_add(now - begun, Ordering::Relaxed);
    }

    fn free_at(&self) -> u64 {
        self.queue.lock().unwrap().0.free_at_ns
    }
}

/// A queue over the record at `record`.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_new(record: *const AtomicU64) -> *mut Gpu {
    let gpu = Gpu { record, queue: Mutex::default(), waited_ns: AtomicU64::new(0) };
    Box::into_raw(Box::new(gpu))
}

/// Queues work; returns at once unless the launch queue is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_launch(gpu: *const Gpu, seconds: f64) {
    // SAFETY: from `simulated_new`, never freed.
    let gpu = unsafe { &*gpu };
    let length = Duration::from_secs_f64(seconds.max(0.0)).as_nanos() as u64;
    loop {
        let now = monotonic_ns();
        let mut locked = gpu.queue.lock().unwrap();
        let (queue, ends) = &mut *locked;
        while ends.front().is_some_and(|end| *end <= now) {
            ends.pop_front();
        }
        match ends.front().filter(|_| ends.len() >= MOST_QUEUED).copied() {
            Some(first) => {
                drop(locked);
                gpu.spin_until(first);
            }
            None => {
                queue.launch(now, length);
                ends.push_back(queue.free_at_ns);
                // SAFETY: as in `store`.
                let sequence = unsafe { &*gpu.record.add(SEQUENCE) }.load(Ordering::Acquire);
                gpu.store(SEQUENCE, sequence + 1);
                gpu.store(ENQUEUED, queue.enqueued_ns);
                gpu.store(FREE_AT, queue.free_at_ns);
                gpu.store(SEQUENCE, sequence + 2);
                return;
            }
        }
    }
}

/// Waits until the queue is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_synchronize(gpu: *const Gpu) {
    // SAFETY: from `simulated_new`, never freed.
    let gpu = unsafe { &*gpu };
    gpu.spin_until(gpu.free_at());
}

/// Waits until at most this much work is queued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_wait_until_ahead(gpu: *const Gpu, seconds: f64) {
    // SAFETY: from `simulated_new`, never freed.
    let gpu = unsafe { &*gpu };
    gpu.spin_until(gpu.free_at().saturating_sub(Duration::from_secs_f64(seconds.max(0.0)).as_nanos() as u64));
}

/// Waits until a moment of CLOCK_MONOTONIC, in nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_wait_until(gpu: *const Gpu, moment_ns: u64) {
    // SAFETY: from `simulated_new`, never freed.
    unsafe { &*gpu }.spin_until(moment_ns);
}

/// Seconds that were spent waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_waited(gpu: *const Gpu) -> f64 {
    // SAFETY: from `simulated_new`, never freed.
    unsafe { &*gpu }.waited_ns.load(Ordering::Relaxed) as f64 / 1e9
}
