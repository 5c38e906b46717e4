//! What pages, frames, workers, popups and sockets request: a list of the last requests, a HAR, and answers of our own
//! in place of a server's.
//!
//! Invariants
//! - A redirect is an entry of its own. What a page says of itself is cut: an address of a megabyte is no more than
//!   2,000 bytes here.
//! - Requests are intercepted only while there are mocks, and only those that a mock may be meant for.
//! - Bodies are kept only while a HAR is recorded, those of texts, and no more in all than the HAR says.
//!
//! Deliberately absent: deciding what may be reached, which is the proxy's.

mod events;
mod har;
mod interception;
mod log;
mod mocks;
mod pattern;

pub(crate) use har::HarRecorder;
pub(crate) use interception::paused;
pub(crate) use log::NetworkLog;
pub use log::{NetworkRequest, RequestFilter};
pub use mocks::{MAX_MOCK_BYTES, MAX_MOCKS, Mock};
pub(crate) use mocks::{Mocks, wrong_headers};

/// Cuts a text of a page.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}
