//! Network activity of pages, frames, workers, popups and sockets: request log, HAR recording and mock responses.
//!
//! Invariants
//! - A redirect is a separate entry. Text from pages is truncated, URLs at 2,000 bytes.
//! - Requests are intercepted only if a mock may match them.
//! - Only text bodies are retained, only while a HAR is recorded, and up to the limit of the HAR.
//!
//! Deliberately absent: access control, which is the task of the proxy.

mod events;
mod har;
mod interception;
mod log;
mod mocks;
mod pattern;

pub(crate) use har::HarRecorder;
pub(crate) use interception::handle_paused_request;
pub(crate) use log::NetworkLog;
pub use log::{NetworkRequest, RequestFilter};
pub use mocks::{MAX_MOCK_BYTES, MAX_MOCKS, Mock};
pub(crate) use mocks::{Mocks, header_problem};

/// Truncates text from a page.
fn truncate(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)])
}
