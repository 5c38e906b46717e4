//! Marks around what strangers wrote, so that an agent can tell it from the words of its owner.

/// What stands before and after a value from outside. It holds something that nobody outside knows.
#[derive(Debug, Clone)]
pub struct Marks {
    pub begin: String,
    pub end: String,
}

impl Marks {
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self { begin: format!("[untrusted {key}]"), end: format!("[end of untrusted {key}]") }
    }
}
