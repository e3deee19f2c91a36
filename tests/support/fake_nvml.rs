//! A made-up NVML library: the C functions that trainmon calls, answered from the state file of a simulated device.
//! Long because it exports every function that trainmon calls, each a few lines.
//!
//! Tests load it by dlopen in the driver library's place. The environment of the loading process steers it:
//! `TRAINMON_SIMULATED_DEVICE` names the state file (unset or absent: no devices), `FAKE_NVML_SLOW_PCIE=1` makes each PCIe
//! rate take 20 ms as on real devices, and `FAKE_NVML_FAIL` is a comma list of failures, read at initialization:
//! - `init_fails`, `no_driver`, `no_permission`, `version_mismatch`: what `nvmlInit_v2` answers;
//! - `no_devices`; `lost`: every device call answers that the GPU is lost (one device: the state file's own flag);
//! - `unsupported:FUNCTION`, `fail:FUNCTION_CODE` (an nvmlReturn_t), `hang:FUNCTION_MS` (sleeps first);
//! - `gone`: device calls answer as after an unload of the driver;
//! - `loading_hangs`, `loading_crashes`: its constructor, which runs under the loader's lock;
//! - `garbage`: all ones, impossible numbers, text that is no UTF-8, counts that are lies.
//!
//! and how the device is as unkind as real ones are:
//! - `lock:FUNCTION_MS`: sleeps while it holds the driver's lock, for which every other device call of the process waits;
//! - `mig`: MIG is on, and what is refused then is not supported: utilisation, its samples, that of processes, codecs;
//! - `coarse`: one utilisation point a second, of the last 167 ms of that second; `late:MS`: points are seen that much later;
//! - `average_power`: power is the mean of the last second, as on Ampere and newer (`nvmlDeviceGetPowerUsage`);
//! - `maxima`: a process's utilisation is the highest of its points, not their mean;
//! - `vgpu`: the virtualization mode is that of a vGPU; `confidential`: confidential computing is on;
//! - `mps`: what is seen through the multi-process service: the owner and the other process are its clients, and `FAKE_NVML_MPS_SERVER`
//!   is the PID of the server, in whose name all work counts;
//! - `nvlink`: the GPU has NVLink, which receives 1 GiB/s while it works, and sends half of that;
//! - `other_pids`: processes are named by PIDs of another namespace, which match nobody here.
//!
//! `FAKE_NVML_XIDS` names a file: each line that is added to it, `POSITION NUMBER`, is an error (Xid) of the GPU at that position.
//!
//! `FAKE_NVML_CRASH` names a file: once it is there the next device call crashes in the way that it says.
//!
//! Like a driver it takes a utilisation point of each device about every 167 ms into a ring of 120, from a thread that runs
//! between initialization and shutdown; `nvmlDeviceGetUtilizationRates` is the last completed point.
#![allow(unsafe_code, missing_docs, non_snake_case, reason = "exports C functions under NVML's names")]
#![allow(
    clippy::missing_safety_doc,
    clippy::unwrap_used,
    reason = "called through NVML's contract only: out parameters are null or valid; a test library may die of a poisoned lock"
)]

use std::collections::VecDeque;
use std::ffi::{c_char, c_uint, c_ulonglong, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nvml_wrapper_sys::bindings as sys;
use trainmon::sources::simulated_gpu::{
    Meter, MeterActivity, Reading, SimulatedGpuState, StateFile, activity, monotonic_ns,
};

type Handle = *mut c_void;
type Return = sys::nvmlReturn_t;

const SUCCESS: Return = sys::nvmlReturn_enum_NVML_SUCCESS;
const UNINITIALIZED: Return = sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED;
const INVALID_ARGUMENT: Return = sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
const NOT_SUPPORTED: Return = sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
const NOT_FOUND: Return = sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND;
const INSUFFICIENT_SIZE: Return = sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE;
const GPU_IS_LOST: Return = sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST;
const UNKNOWN: Return = sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN;

/// Time between two utilisation points, and points kept.
const PERIOD: Duration = Duration::from_millis(167);
const RING: usize = 120;
/// Points in a second.
const A_SECOND: usize = 6;
/// What a device answers under MIG with "not supported" (nvml.h: "MIG-enabled GPUs: not supported").
const REFUSED_UNDER_MIG: [&str; 5] = [
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
];
/// Of another namespace: this bit of a PID is another one.
const OTHER_PIDS: u32 = 1 << 21;

static LIBRARY: Mutex<Option<Library>> = Mutex::new(None);
/// The driver's own lock: whoever has it keeps all other calls waiting.
static DRIVER: Mutex<()> = Mutex::new(());

struct Library {
    users: u32,
    failures: Vec<String>,
    path: Option<PathBuf>,
    file: Option<(StateFile, u64)>,
    devices: Vec<Device>,
    stop: Sender<()>,
    sampler: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Device {
    meter: Meter,
    ring: VecDeque<Point>,
    /// MeterActivity over the last periods, newest first, whatever becomes a point of the ring.
    recent: VecDeque<MeterActivity>,
    /// How long it has worked, seconds.
    worked_s: f64,
    periods: usize,
}

impl Device {
    /// Share of the last second in which the device worked.
    fn last_second(&self) -> f64 {
        self.recent.iter().map(|seen| seen.device).sum::<f64>() / self.recent.len().max(1) as f64
    }
}

#[derive(Clone, Copy)]
struct Point {
    unix_us: u64,
    seen: MeterActivity,
    owner: Option<u32>,
    other_process: Option<u32>,
}

impl Library {
    fn fails(&self, name: &str) -> bool {
        self.failures.iter().any(|failure| failure == name)
    }

    /// The number after `late:`; 0 without.
    fn late_us(&self) -> u64 {
        let late = self.failures.iter().find_map(|failure| failure.strip_prefix("late:")?.parse::<u64>().ok());
        late.map_or(0, |ms| ms * 1000)
    }

    /// The points of a device that can be seen by now, newest first.
    fn visible(&self, index: usize) -> impl Iterator<Item = &Point> {
        let until_us = unix_us().saturating_sub(self.late_us());
        let ring = self.devices.get(index).into_iter().flat_map(|device| &device.ring);
        ring.filter(move |point| point.unix_us <= until_us)
    }

    /// The number after `kind:FUNCTION_` in the list of failures.
    fn failure(&self, kind: &str, function: &str) -> Option<u64> {
        self.failures.iter().find_map(|failure| {
            let (named, number) = failure.strip_prefix(kind)?.strip_prefix(':')?.rsplit_once('_')?;
            if named == function { number.parse().ok() } else { None }
        })
    }

    /// Opens the state file, again when another one has taken its place.
    fn refresh(&mut self) {
        let Some(path) = &self.path else { return };
        let inode = std::fs::metadata(path).map(|facts| facts.ino()).ok();
        if inode.is_none() || self.file.as_ref().map(|(_, opened)| *opened) == inode {
            return;
        }
        self.file = StateFile::open(path).ok().zip(inode);
        let count = self.file.as_ref().map_or(0, |(file, _)| file.device_count);
        self.devices = (0..count).map(|_| Device::default()).collect();
    }

    fn state(&self, index: usize) -> Option<SimulatedGpuState> {
        let (file, _) = self.file.as_ref()?;
        let state = file.read(u32::try_from(index).ok()?).ok().flatten()?;
        Some(state.without_the_dead(|pid| Path::new("/proc").join(pid.to_string()).exists()))
    }

    fn sample(&mut self) {
        self.refresh();
        let (now_ns, unix_us, coarse) = (monotonic_ns(), unix_us(), self.fails("coarse"));
        for index in 0..self.devices.len() {
            let state = self.state(index);
            let Some((state, device)) = state.zip(self.devices.get_mut(index)) else { continue };
            if let Some(seen) = device.meter.read(state, now_ns) {
                device.worked_s += seen.device * PERIOD.as_secs_f64();
                device.recent.truncate(A_SECOND - 1);
                device.recent.push_front(seen);
                device.periods += 1;
                if coarse && device.periods % A_SECOND != 1 {
                    continue;
                }
                device.ring.truncate(RING - 1);
                device.ring.push_front(Point {
                    unix_us,
                    seen,
                    owner: state.owner(),
                    other_process: state.other_process(),
                });
            }
        }
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

fn pct(share: f64) -> c_uint {
    (share * 100.0).round() as c_uint
}

/// What a device call begins with: failures asked for, then the device's position, its record and its last point.
struct Call {
    index: usize,
    state: SimulatedGpuState,
    last: MeterActivity,
    /// Share of the time that the power reading covers in which the device worked.
    powered: f64,
    garbage: bool,
    mig: bool,
    maxima: bool,
    other_pids: bool,
    /// The server's PID, if its clients share the GPU.
    mps: Option<u32>,
    vgpu: bool,
    nvlink: bool,
}

impl Call {
    /// How a process is named.
    fn name(&self, pid: u32) -> u32 {
        if self.other_pids { pid ^ OTHER_PIDS } else { pid }
    }
}

fn enter(function: &str, device: Handle) -> Result<Call, Return> {
    let index = device.addr().checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    let (call, lost, sleep_ms, lock_ms) = {
        let mut library = LIBRARY.lock().unwrap();
        let library = library.as_mut().ok_or(UNINITIALIZED)?;
        if library.fails("gone") {
            return Err(UNINITIALIZED);
        }
        let mig = library.fails("mig");
        let refused = library.failures.iter().any(|failure| failure.strip_prefix("unsupported:") == Some(function));
        if refused || mig && REFUSED_UNDER_MIG.contains(&function) {
            return Err(NOT_SUPPORTED);
        }
        if let Some(code) = library.failure("fail", function) {
            return Err(code as Return);
        }
        let state = library.state(index).ok_or(UNKNOWN)?;
        // A real driver has looked for long when somebody loads the library: before the first late point, the first there is.
        let device = library.devices.get(index);
        let newest = library.visible(index).next().or_else(|| device?.ring.back());
        let last = newest.map(|point| point.seen).unwrap_or_default();
        let average = device.filter(|_| library.fails("average_power")).map(Device::last_second);
        let (garbage, maxima, other_pids) =
            (library.fails("garbage"), library.fails("maxima"), library.fails("other_pids"));
        let (vgpu, nvlink, by_mps) = (library.fails("vgpu"), library.fails("nvlink"), library.fails("mps"));
        let server = std::env::var("FAKE_NVML_MPS_SERVER").ok().and_then(|pid| pid.parse().ok());
        let mps = if by_mps { server } else { None };
        let powered = average.unwrap_or(last.device);
        let sleep_ms = state.hang_ms.max(library.failure("hang", function).unwrap_or(0));
        let lock_ms = library.failure("lock", function).unwrap_or(0);
        let lost = library.fails("lost") || state.lost != 0;
        (
            Call { index, state, last, powered, garbage, mig, maxima, other_pids, mps, vgpu, nvlink },
            lost,
            sleep_ms,
            lock_ms,
        )
    };
    crash_if_asked();
    // Outside the library's lock: one slow call does not hold up the sampler. The driver's holds up whoever calls.
    let held = DRIVER.lock().unwrap();
    std::thread::sleep(Duration::from_millis(lock_ms));
    drop(held);
    if sleep_ms > 0 {
        std::thread::sleep(Duration::from_millis(sleep_ms));
    }
    if lost { Err(GPU_IS_LOST) } else { Ok(call) }
}

fn crash_if_asked() {
    let asked = std::env::var_os("FAKE_NVML_CRASH").and_then(|path| std::fs::read_to_string(path).ok());
    match asked.as_deref() {
        // On a thread of the library's own.
        Some("fault") => {
            // SAFETY: none: it is meant to crash.
            let crash = || unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
            let _ = std::thread::spawn(crash).join();
        }
        Some("abort") => std::process::abort(),
        Some("overflow") => {
            std::hint::black_box(overflow(1));
        }
        _ => {}
    }
}

/// Overflows the stack.
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 512]);
    if depth == 0 { room[0] } else { overflow(depth + 1) + room[511] }
}

/// A device call with one out parameter, all ones when garbage is asked for.
unsafe fn answer<T>(
    function: &str,
    device: Handle,
    out: *mut T,
    garbage: T,
    value: impl FnOnce(&Call) -> T,
) -> Return {
    match enter(function, device) {
        Ok(call) => {
            // SAFETY: NVML's callers pass a valid out parameter.
            unsafe { *out = if call.garbage { garbage } else { value(&call) } };
            SUCCESS
        }
        Err(code) => code,
    }
}

unsafe fn number(function: &str, device: Handle, out: *mut c_uint, value: impl FnOnce(&Call) -> u64) -> Return {
    // SAFETY: as in `answer`.
    unsafe { answer(function, device, out, c_uint::MAX, |call| value(call).try_into().unwrap_or(c_uint::MAX)) }
}

unsafe fn text(out: *mut c_char, length: c_uint, value: &str, garbage: bool) -> Return {
    if garbage {
        // No end, no UTF-8.
        // SAFETY: the caller's buffer has `length` bytes.
        unsafe { std::ptr::write_bytes(out.cast::<u8>(), 0xff, length as usize) };
    } else {
        if value.len() >= length as usize {
            return INSUFFICIENT_SIZE;
        }
        // SAFETY: the text and its end fit into the caller's buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(value.as_ptr(), out.cast(), value.len());
            *out.add(value.len()) = 0;
        }
    }
    SUCCESS
}

/// A device call that fills a buffer with text.
unsafe fn answer_text(
    function: &str,
    device: Handle,
    out: *mut c_char,
    length: c_uint,
    value: impl FnOnce(&Call) -> String,
) -> Return {
    match enter(function, device) {
        // SAFETY: as in `text`.
        Ok(call) => unsafe { text(out, length, &value(&call), call.garbage) },
        Err(code) => code,
    }
}

/// Fills a list as NVML does: too little room (or none) is answered with the number needed.
unsafe fn list<T: Copy>(items: &[T], count: *mut c_uint, out: *mut T) -> Return {
    // SAFETY: NVML's callers pass a valid count, and room for as many elements unless the pointer is null.
    unsafe {
        let room = *count as usize;
        *count = items.len() as c_uint;
        if items.is_empty() {
            return SUCCESS;
        }
        if out.is_null() || room < items.len() {
            return INSUFFICIENT_SIZE;
        }
        std::ptr::copy_nonoverlapping(items.as_ptr(), out, items.len());
    }
    SUCCESS
}

/// Fills all the room with ones and claims a million elements.
unsafe fn garbage_list<T>(count: *mut c_uint, out: *mut T) -> Return {
    // SAFETY: as in `list`.
    unsafe {
        if !out.is_null() {
            std::ptr::write_bytes(out, 0xff, *count as usize);
        }
        *count = 1_000_000;
    }
    SUCCESS
}

/// A device call that fills a list.
unsafe fn answer_list<T: Copy>(
    function: &str,
    device: Handle,
    count: *mut c_uint,
    out: *mut T,
    items: impl FnOnce(&Call) -> Result<Vec<T>, Return>,
) -> Return {
    match enter(function, device) {
        // SAFETY: as in `list`.
        Ok(call) if call.garbage => unsafe { garbage_list(count, out) },
        // SAFETY: as in `list`.
        Ok(call) => items(&call).map_or_else(|code| code, |items| unsafe { list(&items, count, out) }),
        Err(code) => code,
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    match std::env::var("FAKE_NVML_FAIL").as_deref() {
        Ok("loading_hangs") => loop {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        },
        Ok("loading_crashes") => std::process::abort(),
        _ => {}
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    let failures: Vec<String> = std::env::var("FAKE_NVML_FAIL")
        .unwrap_or_default()
        .split(',')
        .map(|failure| failure.trim().to_owned())
        .collect();
    if failures.iter().any(|failure| failure == "init_hangs") {
        loop {
            std::thread::park();
        }
    }
    let slow = failures.iter().find_map(|failure| failure.strip_prefix("hang:nvmlInit_v2_")?.parse().ok());
    std::thread::sleep(std::time::Duration::from_millis(slow.unwrap_or(0)));
    for (failure, code) in [
        ("init_fails", UNKNOWN),
        ("no_driver", sys::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED),
        ("no_permission", sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION),
        ("version_mismatch", sys::nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH),
    ] {
        if failures.iter().any(|asked| asked == failure) {
            return code;
        }
    }
    let mut library = LIBRARY.lock().unwrap();
    if let Some(library) = library.as_mut() {
        library.users += 1;
        return SUCCESS;
    }
    let (stop, stopped) = channel();
    let sampler = std::thread::Builder::new().name("fake-nvml".into()).spawn(move || {
        while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            if let Some(library) = LIBRARY.lock().unwrap().as_mut() {
                library.sample();
            }
        }
    });
    let mut opened = Library {
        users: 1,
        failures,
        path: std::env::var_os("TRAINMON_SIMULATED_DEVICE").filter(|path| !path.is_empty()).map(PathBuf::from),
        file: None,
        devices: Vec::new(),
        stop,
        sampler: sampler.ok(),
    };
    opened.sample();
    *library = Some(opened);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    let ended = {
        let mut library = LIBRARY.lock().unwrap();
        let Some(opened) = library.as_mut() else {
            return UNINITIALIZED;
        };
        opened.users -= 1;
        if opened.users > 0 {
            return SUCCESS;
        }
        library.take()
    };
    if let Some(Library { stop, sampler, .. }) = ended {
        drop(stop);
        if let Some(sampler) = sampler {
            let _ = sampler.join();
        }
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_code: Return) -> *const c_char {
    c"a made-up error".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Return {
    let garbage = LIBRARY.lock().unwrap().as_ref().is_some_and(|library| library.fails("garbage"));
    // SAFETY: as in `text`. The end stays: nvml-wrapper reads this one as a C string.
    let done = unsafe { text(out, length - 1, "580.95.05", garbage) };
    if garbage {
        // SAFETY: the last byte of the caller's buffer.
        unsafe { *out.add(length as usize - 1) = 0 };
    }
    done
}

/// For the monitors that trainmon is measured beside, as the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_uint) -> Return {
    // SAFETY: NVML's callers pass a place for the number.
    unsafe { *version = 13_000 };
    SUCCESS
}

/// A card of a data centre has no fan of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFanSpeed(_device: Handle, _percent: *mut c_uint) -> Return {
    NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Return {
    let mut library = LIBRARY.lock().unwrap();
    let Some(library) = library.as_mut() else {
        return UNINITIALIZED;
    };
    library.refresh();
    if let Some(code) = library.failure("fail", "nvmlDeviceGetCount_v2") {
        return code as Return;
    }
    // SAFETY: NVML's callers pass a valid count.
    unsafe { *count = if library.fails("no_devices") { 0 } else { library.devices.len() as c_uint } };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> Return {
    let library = LIBRARY.lock().unwrap();
    let Some(library) = library.as_ref() else {
        return UNINITIALIZED;
    };
    if let Some(code) = library.failure("fail", "nvmlDeviceGetHandleByIndex_v2") {
        return code as Return;
    }
    if index as usize >= library.devices.len() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: NVML's callers pass a place for the handle.
    unsafe { *device = std::ptr::without_provenance_mut(index as usize + 1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Handle, out: *mut c_char, length: c_uint) -> Return {
    // SAFETY: as in `text`.
    unsafe { answer_text("nvmlDeviceGetName", device, out, length, |call| call.state.name().into_owned()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, out: *mut c_char, length: c_uint) -> Return {
    let uuid = |call: &Call| format!("GPU-51a1a7ed-0000-4000-8000-{:012}", call.index);
    // SAFETY: as in `text`.
    unsafe { answer_text("nvmlDeviceGetUUID", device, out, length, uuid) }
}

/// Exports device calls that answer one number, with what else they are given.
macro_rules! numbers {
    ($($name:ident($($given:ident)*) = $value:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: Handle, $($given: c_uint,)* out: *mut c_uint) -> Return {
            // SAFETY: as in `answer`.
            unsafe { number(stringify!($name), device, out, $value) }
        }
    )*};
}

numbers! {
    nvmlDeviceGetMinorNumber() = |call| call.index as u64;
    nvmlDeviceGetVirtualizationMode() = |call| {
        let mode = sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_VGPU;
        if call.vgpu { mode.into() } else { 0 }
    };
    // These trainmon does not ask: they are for the monitors that it is measured beside.
    nvmlDeviceGetIndex() = |call| call.index as u64;
    nvmlDeviceGetPowerManagementLimit() = |call| call.state.power_limit_mw;
    nvmlDeviceGetPerformanceState() = |_| 0;
    nvmlDeviceGetPersistenceMode() = |_| 1;
    nvmlDeviceGetDisplayActive() = |_| 0;
    nvmlDeviceGetDisplayMode() = |_| 0;
    nvmlDeviceGetComputeMode() = |_| 0;
    nvmlDeviceIsMigDeviceHandle() = |_| 0;
    nvmlDeviceGetMaxMigDeviceCount() = |_| 0;
    nvmlDeviceGetPowerUsage() = |call| call.state.power_mw(call.powered);
    nvmlDeviceGetEnforcedPowerLimit() = |call| call.state.power_limit_mw;
    nvmlDeviceGetCurrPcieLinkGeneration() = |_| 3;
    nvmlDeviceGetMaxPcieLinkGeneration() = |_| 4;
    nvmlDeviceGetCurrPcieLinkWidth() = |_| 8;
    nvmlDeviceGetMaxPcieLinkWidth() = |_| 16;
    nvmlDeviceGetTemperature(_sensor) = |call| call.state.temperature_c;
    nvmlDeviceGetClockInfo(kind) = |call| clock_mhz(kind, call.state.sm_clock_mhz);
    nvmlDeviceGetMaxClockInfo(kind) = |call| clock_mhz(kind, call.state.sm_clock_max_mhz);
    nvmlDeviceGetPcieThroughput(counter) = |call| {
        if std::env::var_os("FAKE_NVML_SLOW_PCIE").is_some_and(|slow| slow == "1") {
            std::thread::sleep(Duration::from_millis(20));
        }
        let sent = counter == sys::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_TX_BYTES;
        let busy = if sent { call.state.pcie_tx_kib_per_s } else { call.state.pcie_rx_kib_per_s };
        (busy as f64 * call.last.device) as u64
    };
}

fn clock_mhz(kind: c_uint, sm_clock_mhz: u64) -> u64 {
    if kind == sys::nvmlClockType_enum_NVML_CLOCK_MEM { 6_251 } else { sm_clock_mhz }
}

/// Exports device calls that answer 0 and, in a second out parameter, what is given.
macro_rules! zeros {
    ($($name:ident and $second:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: Handle, out: *mut c_uint, second: *mut c_uint) -> Return {
            // SAFETY: as in `answer`.
            unsafe {
                *second = $second;
                number(stringify!($name), device, out, |_| 0)
            }
        }
    )*};
}

zeros! {
    nvmlDeviceGetEncoderUtilization and 167_000;
    nvmlDeviceGetDecoderUtilization and 167_000;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(device: Handle, now: *mut c_uint, pending: *mut c_uint) -> Return {
    // SAFETY: as in `answer`.
    unsafe {
        *pending = 0;
        number("nvmlDeviceGetMigMode", device, now, |call| u64::from(call.mig))
    }
}

/// Exports device calls that answer one long number, with what else they are given.
macro_rules! long_numbers {
    ($($name:ident($($given:ident)*) = $value:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: Handle, $($given: c_uint,)* out: *mut c_ulonglong) -> Return {
            // SAFETY: as in `answer`.
            unsafe { answer(stringify!($name), device, out, u64::MAX, $value) }
        }
    )*};
}

long_numbers! {
    nvmlDeviceGetTotalEnergyConsumption() = |call| {
        let library = LIBRARY.lock().unwrap();
        let device = library.as_ref().and_then(|library| library.devices.get(call.index));
        device.map_or(0, |device| device.meter.energy_mj as u64)
    };
    nvmlDeviceGetCurrentClocksEventReasons() = |call| call.state.clock_event_reasons;
    nvmlDeviceGetTotalEccErrors(_error _counter) = |_| 0;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, out: *mut sys::nvmlUtilization_t) -> Return {
    let garbage = sys::nvmlUtilization_t { gpu: 101, memory: c_uint::MAX };
    // SAFETY: as in `answer`.
    unsafe {
        answer("nvmlDeviceGetUtilizationRates", device, out, garbage, |call| sys::nvmlUtilization_t {
            gpu: pct(call.last.device),
            memory: pct(call.last.device * call.state.memory_busy_pct as f64 / 100.0),
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, out: *mut sys::nvmlMemory_t) -> Return {
    let garbage = sys::nvmlMemory_t { total: u64::MAX, free: u64::MAX, used: u64::MAX };
    // SAFETY: as in `answer`.
    unsafe {
        answer("nvmlDeviceGetMemoryInfo", device, out, garbage, |call| sys::nvmlMemory_t {
            total: call.state.memory_total_bytes,
            free: call.state.memory_total_bytes.saturating_sub(call.state.memory_used_bytes),
            used: call.state.memory_used_bytes,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, out: *mut sys::nvmlMemory_v2_t) -> Return {
    // SAFETY: NVML's callers pass a struct that says its own version.
    let version = unsafe { (*out).version };
    if version as usize != size_of::<sys::nvmlMemory_v2_t>() | 2 << 24 {
        return sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    let garbage = sys::nvmlMemory_v2_t { version, total: 1 << 30, reserved: 0, free: 0, used: 1 << 40 };
    // SAFETY: as in `answer`.
    unsafe {
        answer("nvmlDeviceGetMemoryInfo_v2", device, out, garbage, |call| sys::nvmlMemory_v2_t {
            version,
            total: call.state.memory_total_bytes,
            reserved: 0,
            free: call.state.memory_total_bytes.saturating_sub(call.state.memory_used_bytes),
            used: call.state.memory_used_bytes,
        })
    }
}

fn process(pid: Option<u32>, memory: u64) -> Option<sys::nvmlProcessInfo_t> {
    let everywhere = c_uint::MAX;
    let of = |pid| sys::nvmlProcessInfo_t {
        pid,
        usedGpuMemory: memory,
        gpuInstanceId: everywhere,
        computeInstanceId: everywhere,
    };
    pid.map(of)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    out: *mut sys::nvmlProcessInfo_t,
) -> Return {
    let items = |call: &Call| {
        let named = |pid: Option<u32>| pid.map(|pid| call.name(pid));
        let owner = process(named(call.state.owner()), call.state.owner_memory_bytes);
        let other_process = process(named(call.state.other_process()), call.state.other_memory_bytes);
        Ok([owner, other_process, process(call.mps, 30 << 20)].into_iter().flatten().collect())
    };
    // SAFETY: as in `list`.
    unsafe { answer_list("nvmlDeviceGetComputeRunningProcesses_v3", device, count, out, items) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    _out: *mut sys::nvmlProcessInfo_t,
) -> Return {
    match enter("nvmlDeviceGetGraphicsRunningProcesses_v3", device) {
        // A million needed, however much room there is.
        Ok(call) if call.garbage => {
            // SAFETY: as in `list`.
            unsafe { *count = 1_000_000 };
            INSUFFICIENT_SIZE
        }
        // SAFETY: as in `list`.
        Ok(_) => unsafe { list::<sys::nvmlProcessInfo_t>(&[], count, _out) },
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    out: *mut sys::nvmlProcessInfo_t,
) -> Return {
    let items = |call: &Call| {
        let clients = [call.state.owner(), call.state.other_process()].map(|pid| call.mps.and(pid));
        Ok(clients.into_iter().filter_map(|pid| process(pid, call.state.owner_memory_bytes)).collect())
    };
    // SAFETY: as in `list`.
    unsafe { answer_list("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, count, out, items) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetConfComputeState(out: *mut sys::nvmlConfComputeSystemState_t) -> Return {
    let library = LIBRARY.lock().unwrap();
    let Some(library) = library.as_ref() else { return UNINITIALIZED };
    let on = if library.fails("garbage") { c_uint::MAX } else { c_uint::from(library.fails("confidential")) };
    // SAFETY: NVML's callers pass a valid struct.
    unsafe { (*out).ccFeature = on };
    SUCCESS
}

/// Knows the two counters of NVLink only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Handle,
    count: c_uint,
    fields: *mut sys::nvmlFieldValue_t,
) -> Return {
    let call = match enter("nvmlDeviceGetFieldValues", device) {
        Ok(call) => call,
        Err(code) => return code,
    };
    let worked_s =
        LIBRARY.lock().unwrap().as_ref().and_then(|library| Some(library.devices.get(call.index)?.worked_s));
    // SAFETY: NVML's callers pass so many structs.
    for field in unsafe { std::slice::from_raw_parts_mut(fields, count as usize) } {
        let sends = field.fieldId == sys::field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
        let known = sends || field.fieldId == sys::field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX;
        let kib = worked_s.unwrap_or_default() * if sends { 0.5 } else { 1.0 } * 1_048_576.0;
        field.nvmlReturn = if call.garbage || call.nvlink && known { SUCCESS } else { NOT_SUPPORTED };
        field.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field.value = sys::nvmlValue_t { ullVal: if call.garbage { u64::MAX } else { kib as u64 } };
    }
    SUCCESS
}

/// Errors of the file that have been reported.
static TOLD: Mutex<usize> = Mutex::new(0);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(set: *mut sys::nvmlEventSet_t) -> Return {
    // SAFETY: NVML's callers pass a place for the handle.
    unsafe { *set = std::ptr::without_provenance_mut(1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_set: sys::nvmlEventSet_t) -> Return {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(device: Handle, _types: c_ulonglong, _set: sys::nvmlEventSet_t) -> Return {
    enter("nvmlDeviceRegisterEvents", device).map_or_else(|code| code, |_| SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    _set: sys::nvmlEventSet_t,
    out: *mut sys::nvmlEventData_t,
    wait_ms: c_uint,
) -> Return {
    let (garbage, refused) = {
        let library = LIBRARY.lock().unwrap();
        let Some(library) = library.as_ref() else { return UNINITIALIZED };
        (library.fails("garbage"), library.failure("fail", "nvmlEventSetWait_v2"))
    };
    if let Some(code) = refused {
        return code as Return;
    }
    if garbage {
        // SAFETY: NVML's callers pass a valid struct, of which any bits are a value.
        unsafe { std::ptr::write_bytes(out, 0xff, 1) };
        return SUCCESS;
    }
    let text = std::env::var_os("FAKE_NVML_XIDS").and_then(|path| std::fs::read_to_string(path).ok());
    let text = text.unwrap_or_default();
    let mut told = TOLD.lock().unwrap();
    let Some((position, number)) = text.lines().nth(*told).and_then(|line| line.split_once(' ')) else {
        drop(told);
        std::thread::sleep(Duration::from_millis(wait_ms.into()));
        return sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT;
    };
    *told += 1;
    let position: usize = position.parse().unwrap_or_default();
    // SAFETY: as above.
    unsafe {
        *out = sys::nvmlEventData_t {
            device: std::ptr::without_provenance_mut(position + 1),
            eventType: sys::nvmlEventTypeXidCriticalError.into(),
            eventData: number.parse().unwrap_or_default(),
            gpuInstanceId: c_uint::MAX,
            computeInstanceId: c_uint::MAX,
        };
    }
    SUCCESS
}

fn points_since(index: usize, since_us: u64) -> Vec<Point> {
    let library = LIBRARY.lock().unwrap();
    let mut points: Vec<Point> = library.as_ref().map_or_else(Vec::new, |library| {
        library.visible(index).filter(|point| point.unix_us > since_us).copied().collect()
    });
    points.reverse();
    points
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSamples(
    device: Handle,
    _kind: c_uint,
    since_us: c_ulonglong,
    value_type: *mut sys::nvmlValueType_t,
    count: *mut c_uint,
    out: *mut sys::nvmlSample_t,
) -> Return {
    let call = match enter("nvmlDeviceGetSamples", device) {
        Ok(call) => call,
        Err(code) => return code,
    };
    // SAFETY: as in `list`.
    unsafe {
        if call.garbage {
            *value_type = 99;
            return garbage_list(count, out);
        }
        *value_type = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
        let items: Vec<_> = points_since(call.index, since_us)
            .into_iter()
            .map(|point| sys::nvmlSample_t {
                timeStamp: point.unix_us,
                sampleValue: sys::nvmlValue_t { uiVal: pct(point.seen.device) },
            })
            .collect();
        if out.is_null() {
            *count = RING as c_uint;
            return SUCCESS;
        }
        if items.is_empty() { NOT_FOUND } else { list(&items, count, out) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Handle,
    out: *mut sys::nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    since_us: c_ulonglong,
) -> Return {
    let items = |call: &Call| {
        let points = points_since(call.index, since_us);
        let used = |pid: Option<u32>, share: fn(&Point) -> (Option<u32>, f64)| {
            let shares: Vec<f64> =
                points.iter().map(share).filter(|(whose, _)| *whose == pid).map(|(_, share)| share).collect();
            let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let highest = shares.iter().copied().fold(0.0, f64::max);
            Some(sys::nvmlProcessUtilizationSample_t {
                pid: call.name(pid?),
                timeStamp: points.last()?.unix_us,
                smUtil: pct(if call.maxima { highest } else { mean }),
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
            })
            .filter(|sample| sample.smUtil > 0)
        };
        let owner = used(call.state.owner(), |point| (point.owner, point.seen.owner));
        let other_process = used(call.state.other_process(), |point| (point.other_process, point.seen.other_process));
        let items: Vec<_> = match call.mps {
            None => [owner, other_process].into_iter().flatten().collect(),
            // The server's is the work of both.
            Some(pid) => {
                let clients = [owner, other_process].into_iter().flatten();
                let all = clients.reduce(|one, more| sys::nvmlProcessUtilizationSample_t {
                    smUtil: (one.smUtil + more.smUtil).min(100),
                    ..one
                });
                all.map(|all| sys::nvmlProcessUtilizationSample_t { pid, ..all }).into_iter().collect()
            }
        };
        if items.is_empty() { Err(NOT_FOUND) } else { Ok(items) }
    };
    // SAFETY: as in `list`.
    unsafe { answer_list("nvmlDeviceGetProcessUtilization", device, count, out, items) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmQueryDeviceSupport(device: Handle, out: *mut sys::nvmlGpmSupport_t) -> Return {
    match enter("nvmlGpmQueryDeviceSupport", device) {
        Ok(call) => {
            // SAFETY: NVML's callers pass a valid struct.
            unsafe { (*out).isSupportedDevice = c_uint::from(call.state.gpm_supported != 0) };
            SUCCESS
        }
        Err(code) => code,
    }
}

/// A GPM sample: a device's record and when it was read.
type GpmSample = Option<Reading>;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleAlloc(out: *mut *mut GpmSample) -> Return {
    // SAFETY: NVML's callers pass a place for the handle.
    unsafe { *out = Box::into_raw(Box::new(None)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleFree(sample: *mut GpmSample) -> Return {
    // SAFETY: allocated by `nvmlGpmSampleAlloc`, freed once.
    drop(unsafe { Box::from_raw(sample) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleGet(device: Handle, sample: *mut GpmSample) -> Return {
    match enter("nvmlGpmSampleGet", device) {
        Ok(call) if call.state.gpm_supported == 0 => NOT_SUPPORTED,
        Ok(call) => {
            // SAFETY: allocated by `nvmlGpmSampleAlloc`.
            unsafe { *sample = Some((call.state, monotonic_ns())) };
            SUCCESS
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut sys::nvmlGpmMetricsGet_t) -> Return {
    let garbage = LIBRARY.lock().unwrap().as_ref().is_some_and(|library| library.fails("garbage"));
    // SAFETY: NVML's callers pass a valid struct with samples of ours.
    let (before, after, request) = unsafe {
        let request = &mut *request;
        (*request.sample1.cast::<GpmSample>(), *request.sample2.cast::<GpmSample>(), request)
    };
    let Some((before, after)) = before.zip(after) else {
        return INVALID_ARGUMENT;
    };
    let seen = activity(&before, &after).unwrap_or_default();
    for metric in request.metrics.iter_mut().take(request.numMetrics as usize) {
        metric.nvmlReturn = SUCCESS;
        metric.value = match metric.metricId {
            _ if garbage => f64::NAN,
            sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL => after.0.sm_active_pct as f64 * seen.device,
            sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL => after.0.dram_active_pct as f64 * seen.device,
            _ => {
                metric.nvmlReturn = NOT_SUPPORTED;
                0.0
            }
        };
    }
    SUCCESS
}
