//! Errors that the driver reports of GPUs (Xid), since trainmon attached.
//!
//! NVML queues them for a set of events ("Event Handling Methods" of its documentation; Linux only). One set serves all GPUs. A wait
//! takes a millisecond at most: whether one of zero returns at once is not documented.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use super::super::plausible::{XID, within};
use super::device::DeviceReader;
use super::raw;
use trainmon_sample::gpu::GpuXids;

/// Longest wait for an event, milliseconds.
const WAIT_MS: u32 = 1;
/// Most events that are taken in a tick.
const MOST_EVENTS: usize = 16;
/// While a GPU is lost the set is left alone for so long; GPUs that refused are asked again as seldom. Nanoseconds.
const REFUSED_FOR_NS: u64 = 60_000_000_000;

/// The errors of all GPUs.
pub(super) struct XidWatch {
    set: Option<EventSet<'static>>,
    /// Of each GPU; `None` while its errors are not reported.
    seen: Vec<Option<GpuXids>>,
    register_next_ns: u64,
    wait_next_ns: u64,
}

impl XidWatch {
    pub(super) fn new(nvml: &'static Nvml, gpus: usize) -> Self {
        // The wrapper frees the set with a function that it assumes to exist.
        let lib = nvml.lib();
        let can_wait = lib.nvmlEventSetFree.is_ok() && lib.nvmlEventSetWait_v2.is_ok();
        let set = if can_wait { nvml.create_event_set().ok() } else { None };
        Self { set, seen: vec![None; gpus], register_next_ns: 0, wait_next_ns: 0 }
    }

    /// The errors of the GPU at this position.
    pub(super) fn reported(&self, position: usize) -> Option<GpuXids> {
        self.seen.get(position).copied().flatten()
    }

    /// Takes what has been reported since the last tick.
    pub(super) fn read(&mut self, devices: &[DeviceReader], now_ns: u64) {
        let Some(set) = &self.set else { return };
        if now_ns >= self.register_next_ns {
            self.register_next_ns = now_ns.saturating_add(REFUSED_FOR_NS);
            for (device, seen) in devices.iter().zip(&mut self.seen).filter(|(_, seen)| seen.is_none()) {
                let registered = device.with_errors().is_some_and(|device| raw::register_xids(device, set).is_ok());
                *seen = registered.then(GpuXids::default);
            }
        }
        if now_ns < self.wait_next_ns || self.seen.iter().all(Option::is_none) {
            return;
        }
        for _ in 0..MOST_EVENTS {
            match set.wait(WAIT_MS) {
                Ok(event) if event.event_type.contains(EventTypes::CRITICAL_XID_ERROR) => {
                    let number = raw::xid(&event).and_then(|number| u32::try_from(number).ok()).and_then(within(XID));
                    let position = devices.iter().position(|device| device.has_handle_of(&event.device));
                    let seen = position.and_then(|position| self.seen.get_mut(position)?.as_mut());
                    if let Some((seen, number)) = seen.zip(number) {
                        seen.add(number, now_ns);
                    }
                }
                Ok(_) => {}
                Err(NvmlError::Timeout) => return,
                // The other GPUs' errors cannot be read meanwhile either.
                Err(NvmlError::GpuLost | NvmlError::ResetRequired) => {
                    self.wait_next_ns = now_ns.saturating_add(REFUSED_FOR_NS);
                    return;
                }
                Err(_) => {
                    self.give_up();
                    return;
                }
            }
        }
    }

    /// Reads nothing more: where no error was seen, it is unknown whether there is one.
    fn give_up(&mut self) {
        self.set = None;
        self.seen.iter_mut().for_each(|seen| *seen = seen.filter(|xids| xids.count > 0));
    }
}
