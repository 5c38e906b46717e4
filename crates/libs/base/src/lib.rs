//! Common types shared by every other crate: typed ids, time, randomness, error kinds, pages, three-state patches,
//! secrets and their redaction, markers around untrusted text, backoff and trace contexts.
//!
//! Invariants: nothing here does IO or reads a global clock or random generator, except the two `system()`
//! constructors, which are called once, in `main`. The only async code is the adapter that carries a trace context
//! along with a future.

mod backoff;
mod clock;
mod entropy;
mod error;
pub mod id;
mod marks;
mod page;
mod patch;
mod redact;
mod secret;
pub mod template;
mod timestamp;
pub mod trace;
pub mod visible;

pub use backoff::Backoff;
pub use clock::{Clock, MockClock};
pub use entropy::Entropy;
pub use error::{DomainError, ErrorKind, FieldProblem, Problems};
pub use marks::{MarkedText, Marks};
pub use page::{Page, PageLimits};
pub use patch::Patch;
pub use redact::{HIDDEN, Redactor, URL_RESERVED};
pub use secret::{Secret, SecretState, SecretUpdate, sha256};
pub use timestamp::{Edge, Timestamp};
