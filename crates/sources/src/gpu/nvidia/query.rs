//! Calls to one GPU's functions, remembering which ones it refuses.

use std::collections::{HashMap, HashSet};

use nvml_wrapper::error::NvmlError;

/// A refused reading is tried again after this long, nanoseconds.
const REFUSED_FOR_NS: u64 = 60_000_000_000;

/// Calls a GPU's functions, each under the name of its reading, and remembers which ones it refused.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) now_ns: u64,
    refused_until_ns: HashMap<&'static str, u64>,
    /// What this GPU does not have.
    unsupported: HashSet<&'static str>,
    pub(super) lost: bool,
    pub(super) driver_gone: Option<NvmlError>,
}

impl Query {
    /// Whether the GPU has said that it does not have this reading.
    pub(super) fn is_unsupported(&self, name: &str) -> bool {
        self.unsupported.contains(name)
    }

    fn refuse(&mut self, name: &'static str) {
        self.refused_until_ns.insert(name, self.now_ns.saturating_add(REFUSED_FOR_NS));
    }

    pub(super) fn get<T>(&mut self, name: &'static str, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        let refused = self.refused_until_ns.get(name).is_some_and(|&until_ns| until_ns > self.now_ns);
        if self.lost || self.driver_gone.is_some() || refused {
            return None;
        }
        match call() {
            Ok(value) => return Some(value),
            // A GPU that needs a reset answers nothing else either.
            Err(NvmlError::GpuLost | NvmlError::ResetRequired) => self.lost = true,
            Err(
                error @ (NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch),
            ) => {
                self.driver_gone = Some(error);
            }
            Err(NvmlError::NotSupported) => {
                self.unsupported.insert(name);
                self.refuse(name);
            }
            Err(
                NvmlError::FailedToLoadSymbol(_)
                | NvmlError::FunctionNotFound
                | NvmlError::NoPermission
                | NvmlError::OperatingSystem
                | NvmlError::InvalidArg
                | NvmlError::UnexpectedVariant(_),
            ) => self.refuse(name),
            // Idle (NotFound, NoData), in use, timed out: the next tick may succeed.
            Err(_) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reading_is_left_alone_for_a_minute() {
        let mut query = Query::default();
        let mut calls = 0;
        for second in 0..120 {
            query.now_ns = second * 1_000_000_000;
            query.get("encoder", || {
                calls += 1;
                Err::<(), _>(NvmlError::NotSupported)
            });
        }
        assert_eq!(calls, 2);
        assert_eq!(query.get("decoder", || Ok(1)), Some(1));
    }

    #[test]
    fn nothing_more_is_called_on_a_lost_device() {
        let mut query = Query::default();
        assert_eq!(query.get("power", || Err::<u32, _>(NvmlError::GpuLost)), None);
        assert!(query.lost);
        assert_eq!(query.get("memory", || Ok(1)), None);
    }
}
