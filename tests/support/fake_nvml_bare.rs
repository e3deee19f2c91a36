//! An NVML library that has one device and nearly no functions: what a very old driver, or a wrong file, looks like.
#![allow(unsafe_code, missing_docs, non_snake_case, reason = "exports C functions under NVML's names")]
#![allow(clippy::missing_safety_doc, reason = "called through NVML's contract only")]

use std::ffi::{c_char, c_uint, c_void};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_uint {
    // SAFETY: NVML's callers pass a place for the count.
    unsafe { *count = 1 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(_index: c_uint, device: *mut *mut c_void) -> c_uint {
    // SAFETY: NVML's callers pass a place for the handle.
    unsafe { *device = std::ptr::without_provenance_mut(1) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(_device: *mut c_void, name: *mut c_char, length: c_uint) -> c_uint {
    let text = b"Bare GPU\0";
    if (length as usize) < text.len() {
        return 7;
    }
    // SAFETY: the caller's buffer has `length` bytes.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len()) };
    0
}
