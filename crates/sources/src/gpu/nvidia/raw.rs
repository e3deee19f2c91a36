//! The NVML calls that nvml-wrapper lacks, or implements with too much trust in the library.
//!
//! nvml-wrapper lacks `nvmlDeviceGetCurrentClocksEventReasons`. Its list calls ask the library for a count and allocate
//! that many elements, whatever it says, and its strings must be UTF-8. Here buffers are kept between calls and grow
//! only up to [`MOST_ELEMENTS`], and text is read lossily. The wrapper looks up every function; a missing one is an
//! error of that call. Results are unchecked.
#![allow(unsafe_code, reason = "calls C functions of a library loaded at run time; each call says why it is sound")]

use std::ffi::{OsStr, c_char, c_uint, c_ulonglong};

use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::event::EventSet;
use nvml_wrapper::struct_wrappers::event::EventData;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

/// Initial elements of a list buffer: more than the driver's sample ring (about 120) and the usual processes.
const FIRST: usize = 128;
/// Most elements of a list buffer: a library that claims more is not believed.
const MOST_ELEMENTS: usize = 4096;
/// Bytes for a name or UUID (`NVML_DEVICE_UUID_V2_BUFFER_SIZE` and `NVML_DEVICE_NAME_V2_BUFFER_SIZE` are 96).
const TEXT_BYTES: usize = 96;

/// A loaded and initialized NVML. Lives as long as the program, so that GPU handles can be kept beside it; dropping it
/// shuts NVML down and must happen after its handles are dropped.
#[derive(Debug)]
pub struct NvmlLibrary {
    pub nvml: &'static Nvml,
}

impl NvmlLibrary {
    /// Loads the library `path` (a path, or a name for the loader to find) and initializes it.
    ///
    /// # Errors
    /// If it cannot be loaded, is not NVML, or `nvmlInit_v2` fails.
    pub fn open(path: &OsStr) -> Result<Self, NvmlError> {
        // Leaked on purpose, a few kilobytes per successful open: the library stays loaded (driver threads may still
        // run in it), and a missing nvmlShutdown cannot make the wrapper's destructor panic.
        let nvml = Nvml::builder().lib_path(path).init()?;
        Ok(Self { nvml: Box::leak(Box::new(nvml)) })
    }
}

/// Whether a library can be loaded. It then stays loaded.
pub fn loads(path: &OsStr) -> bool {
    // SAFETY: this runs the library's code, which is the point: the process exists only for this.
    let loaded = unsafe { libloading::Library::new(path) };
    loaded.map(std::mem::forget).is_ok()
}

impl Drop for NvmlLibrary {
    fn drop(&mut self) {
        if let Ok(shutdown) = &self.nvml.lib().nvmlShutdown {
            // SAFETY: `open` initialized it; `NvmlReader` drops its GPU handles first, and nothing else holds any.
            unsafe { shutdown() };
        }
    }
}

/// Buffers for list calls, kept so that a tick does not allocate.
#[derive(Default)]
pub struct Buffers {
    processes: Vec<sys::nvmlProcessInfo_t>,
    samples: Vec<sys::nvmlSample_t>,
    utilization: Vec<sys::nvmlProcessUtilizationSample_t>,
}

/// Which list of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessList {
    /// With a compute context.
    Compute,
    /// With a graphics context.
    Graphics,
    /// With a compute context through the multi-process service.
    Mps,
}

/// Current clock event reasons, under the function's newer or older name.
///
/// # Errors
/// The driver's, or that it has neither function.
pub fn clock_event_reasons(device: &Device<'_>) -> Result<u64, NvmlError> {
    let lib = device.nvml().lib();
    let function = nvml_sym(lib.nvmlDeviceGetCurrentClocksEventReasons.as_ref())
        .or_else(|_| nvml_sym(lib.nvmlDeviceGetCurrentClocksThrottleReasons.as_ref()))?;
    let mut reasons: c_ulonglong = 0;
    // SAFETY: the handle is the wrapper's, valid until shutdown; the out parameter outlives the call.
    nvml_try(unsafe { function(device.handle(), &mut reasons) })?;
    Ok(reasons)
}

/// Memory as (used, total) bytes from the older call, which counts the driver's reserve as used.
pub(crate) fn memory_v1(device: &Device<'_>) -> Result<(u64, u64), NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    let mut memory = sys::nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: as in `clock_event_reasons`.
    nvml_try(unsafe { function(device.handle(), &mut memory) })?;
    Ok((memory.used, memory.total))
}

/// Whether confidential computing is on: 1 if so.
pub(crate) fn confidential(device: &Device<'_>) -> Result<u32, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlSystemGetConfComputeState.as_ref())?;
    let mut state = sys::nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 };
    // SAFETY: the out parameter outlives the call.
    nvml_try(unsafe { function(&mut state) })?;
    Ok(state.ccFeature)
}

/// Data sent and received over all NVLinks, counters, KiB; `None` for one that is no whole number.
///
/// # Errors
/// The driver's; `NotSupported` without NVLink.
pub(crate) fn nvlink_kib(device: &Device<'_>) -> Result<[Option<u64>; 2], NvmlError> {
    use sys::field_id::{NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX};
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    // nvml.h: scope `UINT_MAX` is the sum of all links.
    let field = |id| sys::nvmlFieldValue_t {
        fieldId: id,
        scopeId: c_uint::MAX,
        timestamp: 0,
        latencyUsec: 0,
        valueType: sys::nvmlValueType_enum_NVML_VALUE_TYPE_COUNT,
        nvmlReturn: sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN,
        value: sys::nvmlValue_t { ullVal: 0 },
    };
    let mut fields = [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX].map(field);
    // SAFETY: as in `clock_event_reasons`; there are two fields.
    nvml_try(unsafe { function(device.handle(), 2, fields.as_mut_ptr()) })?;
    for field in &fields {
        nvml_try(field.nvmlReturn)?;
    }
    Ok(fields.map(|field| number(field.valueType, field.value)))
}

/// Has the errors of a GPU reported to a set of events.
pub(crate) fn register_xids(device: &Device<'_>, set: &EventSet<'_>) -> Result<(), NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceRegisterEvents.as_ref())?;
    let wanted = c_ulonglong::from(sys::nvmlEventTypeXidCriticalError);
    // SAFETY: as in `clock_event_reasons`; the set's handle is the wrapper's, which alone frees it.
    nvml_try(unsafe { function(device.handle(), wanted, set.handle()) })
}

/// Whether both are the same GPU: NVML has one handle for each. The handles are compared, not used.
pub(crate) fn is_same(device: &Device<'_>, other: &Device<'_>) -> bool {
    // SAFETY: nothing is done with the handles.
    unsafe { device.handle() == other.handle() }
}

/// The number of an error.
pub(crate) fn xid(event: &EventData<'_>) -> Option<u64> {
    match event.event_data.as_ref()? {
        XidError::Value(number) => Some(*number),
        XidError::Unknown => None,
    }
}

/// Product name.
pub fn name(device: &Device<'_>) -> Result<String, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetName.as_ref())?;
    // SAFETY: as in `clock_event_reasons`; the length given is the buffer's.
    text(|buffer, length| unsafe { function(device.handle(), buffer, length) })
}

/// UUID.
pub fn uuid(device: &Device<'_>) -> Result<String, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetUUID.as_ref())?;
    // SAFETY: as in `name`.
    text(|buffer, length| unsafe { function(device.handle(), buffer, length) })
}

/// Driver version.
pub(crate) fn driver_version(nvml: &Nvml) -> Result<String, NvmlError> {
    let function = nvml_sym(nvml.lib().nvmlSystemGetDriverVersion.as_ref())?;
    // SAFETY: as in `name`.
    text(|buffer, length| unsafe { function(buffer, length) })
}

/// The processes on a GPU.
///
/// # Errors
/// The driver's, or that the list is longer than [`MOST_ELEMENTS`].
pub fn processes<'b>(
    device: &Device<'_>,
    list: ProcessList,
    buffers: &'b mut Buffers,
) -> Result<&'b [sys::nvmlProcessInfo_t], NvmlError> {
    let lib = device.nvml().lib();
    let function = match list {
        ProcessList::Compute => nvml_sym(lib.nvmlDeviceGetComputeRunningProcesses_v3.as_ref()),
        ProcessList::Graphics => nvml_sym(lib.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref()),
        ProcessList::Mps => nvml_sym(lib.nvmlDeviceGetMPSComputeRunningProcesses_v3.as_ref()),
    }?;
    let zero = sys::nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
    // SAFETY: as in `clock_event_reasons`; `fill` gives the count of elements that the pointer has room for.
    fill(&mut buffers.processes, zero, |count, first| unsafe { function(device.handle(), count, first) })
}

/// Points of the utilization buffer newer than `since_us`: (wall clock in microseconds, value).
///
/// # Errors
/// The driver's; `NotFound` if there are no such points.
pub(crate) fn utilization_samples<'b>(
    device: &Device<'_>,
    since_us: u64,
    buffers: &'b mut Buffers,
) -> Result<impl Iterator<Item = (u64, u64)> + 'b, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetSamples.as_ref())?;
    let kind = sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES;
    let zero = sys::nvmlSample_t { timeStamp: 0, sampleValue: sys::nvmlValue_t { ullVal: 0 } };
    let mut value_type = sys::nvmlValueType_enum_NVML_VALUE_TYPE_COUNT;
    let points = fill(&mut buffers.samples, zero, |count, first| {
        // SAFETY: as in `processes`.
        unsafe { function(device.handle(), kind, since_us, &mut value_type, count, first) }
    })?;
    let value = move |point: &sys::nvmlSample_t| number(value_type, point.sampleValue).unwrap_or(u64::MAX);
    Ok(points.iter().map(move |point| (point.timeStamp, value(point))))
}

/// SM utilization of the processes that ran since `since_us`.
///
/// # Errors
/// The driver's; `NotFound` if no process ran.
pub(crate) fn process_utilization<'b>(
    device: &Device<'_>,
    since_us: u64,
    buffers: &'b mut Buffers,
) -> Result<&'b [sys::nvmlProcessUtilizationSample_t], NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetProcessUtilization.as_ref())?;
    let zero =
        sys::nvmlProcessUtilizationSample_t { pid: 0, timeStamp: 0, smUtil: 0, memUtil: 0, encUtil: 0, decUtil: 0 };
    // SAFETY: as in `processes`.
    fill(&mut buffers.utilization, zero, |count, first| unsafe { function(device.handle(), first, count, since_us) })
}

/// Calls a list function with room for as many elements as `buffer` has, and again with more room if it asks for more.
/// Returns the filled elements, never more than the buffer holds, whatever the library claims.
fn fill<T: Copy>(
    buffer: &mut Vec<T>,
    zero: T,
    mut call: impl FnMut(*mut c_uint, *mut T) -> sys::nvmlReturn_t,
) -> Result<&[T], NvmlError> {
    if buffer.is_empty() {
        buffer.resize(FIRST, zero);
    }
    loop {
        let room = buffer.len();
        let mut count = c_uint::try_from(room).unwrap_or(c_uint::MAX);
        let answer = call(&mut count, buffer.as_mut_ptr());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if answer != sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE {
            nvml_try(answer)?;
            return Ok(buffer.get(..count.min(room)).unwrap_or_default());
        }
        if room >= MOST_ELEMENTS {
            return Err(NvmlError::InsufficientSize(Some(count)));
        }
        // A few extra: processes may start meanwhile.
        buffer.resize(count.saturating_add(16).max(room * 2).min(MOST_ELEMENTS), zero);
    }
}

/// Calls a text function. Invalid UTF-8 is read lossily; the text ends at the end of the buffer at the latest.
fn text(call: impl FnOnce(*mut c_char, c_uint) -> sys::nvmlReturn_t) -> Result<String, NvmlError> {
    let mut buffer = [0_u8; TEXT_BYTES];
    nvml_try(call(buffer.as_mut_ptr().cast(), TEXT_BYTES as c_uint))?;
    let bytes = buffer.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// A sample's value as a whole number; `None` for an unknown type, a negative value, or NaN.
fn number(value_type: sys::nvmlValueType_t, value: sys::nvmlValue_t) -> Option<u64> {
    // SAFETY: every member of the union is plain old data for which any bits are a value, and its buffer was zeroed, so
    // all eight bytes are initialized.
    unsafe {
        match value_type {
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => Some(u64::from(value.uiVal)),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG
            | sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => Some(value.ullVal),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => u64::try_from(value.sllVal).ok(),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => u64::try_from(value.siVal).ok(),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => Some(u64::from(value.usVal)),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => {
                Some(value.dVal).filter(|value| value.is_finite() && *value >= 0.0).map(|value| value.round() as u64)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_as_asked_and_no_further_than_believed() {
        let mut buffer: Vec<u32> = Vec::new();
        let mut calls = 0;
        let filled = fill(&mut buffer, 0, |count, _| {
            calls += 1;
            // SAFETY: the pointer is to `fill`'s own count.
            let count = unsafe { &mut *count };
            let room = *count;
            *count = 300;
            if room < 300 {
                sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE
            } else {
                sys::nvmlReturn_enum_NVML_SUCCESS
            }
        });
        assert_eq!((filled.unwrap().len(), calls), (300, 2));

        for claim in [0, 1, 1_000_000, u32::MAX] {
            let mut calls = 0;
            let full = fill(&mut buffer, 0, |count, _| {
                calls += 1;
                // SAFETY: as above.
                unsafe { *count = claim };
                sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE
            });
            assert!(matches!(full, Err(NvmlError::InsufficientSize(_))));
            assert!(calls < 8 && buffer.len() <= MOST_ELEMENTS);
        }
        let all = fill(&mut buffer, 0, |count, _| {
            // SAFETY: as above.
            unsafe { *count = u32::MAX };
            sys::nvmlReturn_enum_NVML_SUCCESS
        });
        let all = all.unwrap().len();
        assert_eq!(all, buffer.len());
    }

    #[test]
    fn text_without_an_end_ends_with_its_buffer() {
        let text = text(|buffer, length| {
            // SAFETY: writes `length` bytes to a buffer of that length.
            unsafe { std::ptr::write_bytes(buffer.cast::<u8>(), 0xff, length as usize) };
            sys::nvmlReturn_enum_NVML_SUCCESS
        })
        .unwrap();
        assert_eq!(text.chars().count(), TEXT_BYTES);
    }

    #[test]
    fn sample_values_of_all_types() {
        let value = sys::nvmlValue_t { ullVal: 0 };
        assert_eq!(number(99, value), None);
        assert_eq!(number(sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT, sys::nvmlValue_t { siVal: -1 }), None);
        assert_eq!(number(sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE, sys::nvmlValue_t { dVal: f64::NAN }), None);
        assert_eq!(number(sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE, sys::nvmlValue_t { dVal: 41.6 }), Some(42));
        assert_eq!(
            number(sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT, sys::nvmlValue_t { uiVal: 7 }),
            Some(7)
        );
    }
}
