//! Recording actions, and doing them again on a page that has changed meanwhile.
//!
//! Invariants
//! - An element is described when it is known which one it is, and the action is bound to that one: what is kept is
//!   what was acted on.
//! - At a replay an element must be the one that was recorded, by what it is called and what is beside it. Where none
//!   is, or several are, the step fails and says what was tried; nothing is acted on by its place alone, unless nothing
//!   around that place has changed.
//! - What is typed into fields for passwords, and credentials in addresses, are kept as numbers. No picture shows them.
//!
//! Deliberately absent: files, and deciding which addresses may be reached.

mod describe;
mod find;
mod model;
mod picture;
mod recorder;
mod replay;
mod secrets;
mod tabs;

pub use find::{Drift, Tried};
pub use model::{Alternative, AlternativeKind, Fingerprint, PopupOf, RecordedStep, RecordedTarget, TabOrigin};
pub use recorder::{Recorded, Recorder};
pub use replay::{Replay, ReplayError, Replayed, StepTab};
pub use secrets::{CredentialsInUrl, with_secrets};
