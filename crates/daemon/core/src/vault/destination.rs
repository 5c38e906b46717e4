//! What a secret is sent to. Where that changes, the secret must be entered again.

use agentd_base::Problems;
use url::Url;

/// Completes the name of a secret that may not be kept.
pub const ENTER_AGAIN: &str =
    "must be entered again, or cleared with null: what it is sent to has changed, and its value was not meant for that";

/// The server that a url leads to: its scheme, host and port. `None`: it leads nowhere.
#[must_use]
pub fn server_of(url: &str) -> Option<String> {
    let url = Url::parse(url.trim()).ok()?;
    url.has_host().then(|| url.origin().ascii_serialization())
}

/// Names a secret that must be entered again.
pub fn require_again(field: impl Into<String>, problems: &mut Problems) {
    problems.add(field, ENTER_AGAIN);
}
