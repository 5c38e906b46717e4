//! The vocabulary that every other crate shares: typed ids, time, randomness, error kinds, pages,
//! three-state patches, secrets that cannot be printed or that are taken out of texts, marks around untrusted text,
//! backoff, and places in traces.
//!
//! Invariants: nothing here does IO or reads a global clock or a global random generator, except
//! the two `system()` constructors, which are called once, in `main`. There is no async code here but
//! the adapter that carries a place in a trace along with a future.

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
