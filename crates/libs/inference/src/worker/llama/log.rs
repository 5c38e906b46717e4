//! Log of the engine: errors and warnings are written to standard error, where the daemon reads them. The last errors
//! are retained to explain failures for which the engine only returns a null pointer.

use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2::{GGML_LOG_LEVEL_ERROR, GGML_LOG_LEVEL_WARN, ggml_log_level};
use parking_lot::Mutex;

const MAX_ERROR_LINES: usize = 4;

static ERRORS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Redirects the engine's log.
#[allow(unsafe_code, reason = "the engine takes its log callback by pointer")]
pub(super) fn redirect() {
    // SAFETY: the callback is a function without captured state, so the null user data is never read, and it
    // stays valid for as long as the process.
    unsafe {
        llama_cpp_sys_2::llama_log_set(Some(on_line), std::ptr::null_mut());
    }
}

/// Returns the errors since the last call, as part of a sentence.
pub(super) fn take_errors() -> String {
    let lines = std::mem::take(&mut *ERRORS.lock());
    if lines.is_empty() { "the engine reports no reason".to_owned() } else { lines.join("; ") }
}

#[allow(clippy::print_stderr, reason = "standard error is this process's log, read by the daemon")]
pub(super) fn warn(line: &str) {
    eprintln!("{line}");
}

#[allow(unsafe_code, reason = "called by the engine with a C string")]
unsafe extern "C" fn on_line(level: ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() || (level != GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_WARN) {
        return;
    }
    // SAFETY: not null, and the engine passes a terminated string that lives as long as this call.
    let line = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let line = line.trim();
    if line.is_empty() {
        return;
    }
    if level == GGML_LOG_LEVEL_ERROR {
        let mut errors = ERRORS.lock();
        if errors.len() == MAX_ERROR_LINES {
            errors.remove(0);
        }
        errors.push(line.to_owned());
    }
    warn(line);
}
