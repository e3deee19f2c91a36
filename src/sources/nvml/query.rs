//! Querying a device, and remembering what it does not offer.

use nvml_wrapper::error::NvmlError;

/// A reading that the device refused is queried again after this long, nanoseconds.
const REFUSED_FOR_NS: u64 = 60_000_000_000;

/// Queries a device, and remembers what it refused.
#[derive(Debug, Default)]
pub(super) struct Queries {
    pub(super) now_ns: u64,
    /// Readings by name, with the time until which they are not asked for.
    refused: Vec<(&'static str, u64)>,
    pub(super) lost: bool,
    pub(super) driver_gone: Option<NvmlError>,
}

impl Queries {
    /// A reading, where the device gives it.
    pub(super) fn get<T>(&mut self, reading: &'static str, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        let refused = |(name, until_ns): &(&str, u64)| *name == reading && *until_ns > self.now_ns;
        if self.lost || self.driver_gone.is_some() || self.refused.iter().any(refused) {
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
            ) => {
                self.refused.retain(|(name, _)| *name != reading);
                self.refused.push((reading, self.now_ns.saturating_add(REFUSED_FOR_NS)));
            }
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
    fn a_refused_reading_is_not_queried_again_for_a_minute() {
        let mut queries = Queries::default();
        let mut calls = 0;
        for second in 0..120 {
            queries.now_ns = second * 1_000_000_000;
            queries.get("encoder", || {
                calls += 1;
                Err::<(), _>(NvmlError::NotSupported)
            });
        }
        assert_eq!(calls, 2);
        assert_eq!(queries.get("decoder", || Ok(1)), Some(1));
    }

    #[test]
    fn a_lost_device_is_asked_nothing_more() {
        let mut queries = Queries::default();
        assert_eq!(queries.get("power", || Err::<u32, _>(NvmlError::GpuLost)), None);
        assert!(queries.lost);
        assert_eq!(queries.get("memory", || Ok(1)), None);
    }
}
