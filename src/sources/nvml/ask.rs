//! Asking a device, and remembering what it does not offer.

use nvml_wrapper::error::NvmlError;

/// A reading that the device refused is asked for again after this long, nanoseconds.
const REFUSED_FOR_NS: u64 = 60_000_000_000;
/// What can be asked. The order has no meaning.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    Name,
    Uuid,
    Minor,
    SmClockMax,
    MemoryClockMax,
    PcieGenerationMax,
    PcieWidthMax,
    Mig,
    Utilization,
    Samples,
    Memory,
    MemoryV1,
    Power,
    PowerLimit,
    Energy,
    Temperature,
    SmClock,
    MemoryClock,
    ClockEventReasons,
    PcieReceived,
    PcieSent,
    PcieGeneration,
    PcieWidth,
    Encoder,
    Decoder,
    Compute,
    Graphics,
    Mps,
    ProcessUtilization,
    Gpm,
    Ecc,
}

const READINGS: usize = Reading::Ecc as usize + 1;

/// Asks a device, and remembers what it refused.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) now_ns: u64,
    refused_until_ns: [u64; READINGS],
    pub(super) lost: bool,
    pub(super) driver_gone: Option<NvmlError>,
}

impl Ask {
    pub(super) fn new() -> Self {
        Self { now_ns: 0, refused_until_ns: [0; READINGS], lost: false, driver_gone: None }
    }

    pub(super) fn ask<T>(&mut self, reading: Reading, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        let refused_until_ns = self.refused_until_ns.get_mut(reading as usize)?;
        if self.lost || self.driver_gone.is_some() || *refused_until_ns > self.now_ns {
            return None;
        }
        match call() {
            Ok(value) => return Some(value),
            // A device that needs a reset answers nothing else either.
            Err(NvmlError::GpuLost | NvmlError::ResetRequired) => self.lost = true,
            Err(
                error @ (NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch),
            ) => {
                self.driver_gone = Some(error);
            }
            Err(
                NvmlError::NotSupported
                | NvmlError::FailedToLoadSymbol(_)
                | NvmlError::FunctionNotFound
                | NvmlError::NoPermission
                | NvmlError::OperatingSystem
                | NvmlError::InvalidArg
                | NvmlError::UnexpectedVariant(_),
            ) => *refused_until_ns = self.now_ns.saturating_add(REFUSED_FOR_NS),
            // Idle (NotFound, NoData), in use, timed out: the next tick may fare better.
            Err(_) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reading_is_not_asked_again_for_a_minute() {
        let mut ask = Ask::new();
        let mut calls = 0;
        for second in 0..120 {
            ask.now_ns = second * 1_000_000_000;
            ask.ask(Reading::Encoder, || {
                calls += 1;
                Err::<(), _>(NvmlError::NotSupported)
            });
        }
        assert_eq!(calls, 2);
        assert_eq!(ask.ask(Reading::Decoder, || Ok(1)), Some(1));
    }

    #[test]
    fn a_lost_device_is_asked_nothing_more() {
        let mut ask = Ask::new();
        assert_eq!(ask.ask(Reading::Power, || Err::<u32, _>(NvmlError::GpuLost)), None);
        assert!(ask.lost);
        assert_eq!(ask.ask(Reading::Memory, || Ok(1)), None);
    }
}
