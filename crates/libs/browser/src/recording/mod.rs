//! Recording of actions, and their replay on a page that may have changed.
//!
//! Invariants
//! - An element is described after it was identified, and the action is bound to that element: the recording contains
//!   exactly the element that was acted on.
//! - A replay identifies an element by its name and neighbouring texts. If none or several match, the step fails and
//!   lists the attempts. Position alone is used only if nothing around it has changed.
//! - Text typed into password fields, and credentials in URLs, are recorded as numbers. No picture shows them.
//!
//! Deliberately absent: file storage, and access control for URLs.

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
