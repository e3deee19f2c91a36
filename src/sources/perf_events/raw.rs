//! One event of the kernel's performance monitor: opened on a thread, with the ring into which its samples go. Beside
//! `nvml_raw`, the only file of trainmon that talks to C.
//!
//! The standard library and rustix have no `perf_event_open`; its structures and numbers are those of perf-event-open-sys.
//! The ring is memory that the kernel writes to at the same time, so it is never lent out: what is new is copied.
#![allow(
    unsafe_code,
    reason = "a system call that nobody wraps, and memory shared with the kernel; each use says why it is sound"
)]

use std::ffi::c_ulong;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_TYPE_SOFTWARE,
    perf_event_attr, perf_event_mmap_page,
};
use perf_event_open_sys::perf_event_open;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::ring::pieces;

/// Pages of the ring, a power of two: at 24 bytes a sample two hold 341, some 7 s of a thread that always runs.
const PAGES: usize = 2;

/// An open event. Closing it ends the sampling.
#[derive(Debug)]
pub struct Event {
    _descriptor: OwnedFd,
    /// The control page, then the ring.
    map: NonNull<u8>,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread.
unsafe impl Send for Event {}

impl Event {
    /// Samples the instruction pointer of a thread, `rate_hz` times for each second that it runs outside of the kernel;
    /// of our own where `tid` is 0.
    ///
    /// # Errors
    /// What the kernel answered: EACCES and EPERM without the right to, ESRCH without the thread, ENOSYS without the call.
    pub fn open(tid: u32, rate_hz: u32) -> io::Result<Self> {
        let mut wanted = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
            config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
            sample_type: u64::from(PERF_SAMPLE_IP | PERF_SAMPLE_TID),
            ..perf_event_attr::default()
        };
        wanted.__bindgen_anon_1.sample_freq = u64::from(rate_hz);
        wanted.set_freq(1);
        wanted.set_exclude_kernel(1);
        wanted.set_exclude_hv(1);
        let pid = i32::try_from(tid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `wanted` is initialised, says its own size, and outlives the call; the kernel only reads it, but for
        // `size`, which it may correct.
        let answer = unsafe { perf_event_open(&mut wanted, pid, -1, -1, c_ulong::from(PERF_FLAG_FD_CLOEXEC)) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us, and nobody else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(answer) };
        let page = rustix::param::page_size();
        // SAFETY: the kernel chooses a place where nothing of ours lies.
        let map = unsafe {
            mmap(null_mut(), page * (1 + PAGES), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &descriptor, 0)
        }?;
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { _descriptor: descriptor, map, page })
    }

    /// Appends what is new in the ring to `to`, and gives its room back to the kernel.
    pub fn drain(&mut self, to: &mut Vec<u8>) {
        let control = self.map.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the control page is mapped for as long as this value lives, is aligned, and both words are shared with
        // the kernel, which reads and writes them whole (perf_event_open(2), "MMAP layout").
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*control).data_head), AtomicU64::from_ptr(&raw mut (*control).data_tail))
        };
        // What was written before the head moved is seen after it.
        let until = head.load(Ordering::Acquire);
        let size = self.page * PAGES;
        for piece in pieces(tail.load(Ordering::Relaxed), until, size).into_iter().flatten() {
            to.reserve(piece.len());
            // SAFETY: `pieces` lie within the ring, which follows the control page; the kernel writes nothing between tail
            // and head; `to` has room for as many bytes as are copied, and they are initialised when its length grows.
            unsafe {
                let from = self.map.as_ptr().add(self.page + piece.start);
                from.copy_to_nonoverlapping(to.as_mut_ptr().add(to.len()), piece.len());
                to.set_len(to.len() + piece.len());
            }
        }
        // What was read has been read before the kernel may write there again.
        tail.store(until, Ordering::Release);
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this length; nothing points into it.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.page * (1 + PAGES)) };
    }
}
