//! Actions and changes as they are asked for, and by whom.

mod action;
mod actor;
mod auth_state;
mod profile;
mod recording;

pub use action::{ActionFields, ActionName};
pub use actor::Actor;
pub use auth_state::AuthState;
pub use profile::ProfileChange;
pub use recording::{KeptStep, MAX_RECORDINGS, RecordingHeader, RecordingId, RecordingState, RecordingSummary};
