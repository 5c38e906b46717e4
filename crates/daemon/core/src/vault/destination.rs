//! Destinations of secrets. If the destination changes, the secret must be entered again.

use agentd_base::Problems;
use url::Url;

/// Error message, after the field's name, for a secret that must be entered again.
pub const ENTER_AGAIN: &str = "must be entered again or cleared with null, because its destination changed";

/// Returns the origin of a URL (scheme, host and port); `None` if the URL is invalid or has no host.
#[must_use]
pub fn server_origin(url: &str) -> Option<String> {
    let url = Url::parse(url.trim()).ok()?;
    url.has_host().then(|| url.origin().ascii_serialization())
}

/// Adds the problem that a secret must be entered again.
pub fn require_reentry(field: impl Into<String>, problems: &mut Problems) {
    problems.add(field, ENTER_AGAIN);
}
