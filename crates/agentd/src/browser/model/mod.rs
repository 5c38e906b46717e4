//! Actions and changes as they are asked for, and by whom.

mod action;
mod actor;
mod auth_state;
mod profile;
mod recording;

pub use action::{ActionFields, ActionName};
pub use actor::Actor;
pub(super) use auth_state::AuthState;
pub(super) use profile::ProfileChange;
pub use recording::{KeptStep, RecordingId, RecordingState, RecordingSummary};
pub(super) use recording::{MAX_RECORDINGS, RecordingHeader};
