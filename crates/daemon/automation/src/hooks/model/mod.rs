//! Hooks, their deliveries and executions, and the rules for both.

mod bundled;
mod change;
mod code_secrets;
mod config;
mod filter;
mod headers;
mod hook;
mod outcome;
mod template;
mod urls;

use agentd_base::Timestamp;
use serde_json::Value;

pub(super) use bundled::{BUNDLED, BundledHook};
pub use change::HookChange;
pub(super) use change::{SecretWrite, SecretWrites};
pub(super) use code_secrets::CODE_SECRET_PREFIX;
pub use config::{Action, BuiltinAction, HookType, HttpAction, PythonAction};
pub(super) use config::{SECRET, stored_action};
pub use filter::{Filter, FilterProblem};
pub(super) use headers::{HEADER_SECRET_PREFIX, secret_scope};
pub use hook::Hook;
pub(super) use outcome::{
    DELIVERY_LEASE, DeliveryResult, EXECUTION_LEASE, FAILURES_TO_OPEN, HOOK_DELETED, Problem, SLOW_THRESHOLD,
    SendOutcome, circuit_pause, inline_delay,
};

agentd_base::typed_id!(
    /// Id of a hook.
    HookId,
    "hook"
);
agentd_base::typed_id!(
    /// Id of an execution of a hook.
    ExecutionId,
    "exec"
);
agentd_base::typed_id!(
    /// Id of a delivery of an event to a receiver.
    HookDeliveryId,
    "dlv"
);
agentd_store::stored_ids!(HookId, ExecutionId, HookDeliveryId);

/// Maximum number of hooks.
pub(super) const MAX_HOOKS: u64 = 1000;
/// Maximum length of a chain of hooks that trigger each other's events.
pub(super) const MAX_DEPTH: u32 = 5;
/// Event type of test deliveries.
pub(super) const TEST_EVENT: &str = "test.notification";

macro_rules! stored_enum {
    ($(#[$meta:meta])* $name:ident, $fallback:ident, { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize, ::utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        $(#[$meta])*
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Parses a stored value. The database constraint excludes unknown values.
            #[must_use]
            pub fn from_stored(text: &str) -> Self {
                Self::ALL.iter().copied().find(|status| status.as_str() == text).unwrap_or(Self::$fallback)
            }
        }
    };
}
pub(super) use stored_enum;

stored_enum!(
    /// Status of a delivery: `pending` (waiting for an attempt), `processing` (being sent), `success`, `failed`
    /// (waiting for another attempt) or `dead_letter` (no further attempts).
    DeliveryStatus, DeadLetter, {
        /// Waiting to be sent.
        Pending = "pending",
        /// Being sent.
        Processing = "processing",
        /// Accepted by the receiver.
        Success = "success",
        /// Waiting for the next attempt.
        Failed = "failed",
        /// Dead-lettered; the error contains the reason.
        DeadLetter = "dead_letter",
    }
);

stored_enum!(
    /// Status of an execution: `running` (or about to start), `success`, `error`, `timeout` or `skipped` (not run;
    /// `error` contains the reason).
    ExecutionStatus, Error, {
        Success = "success",
        Error = "error",
        /// Running, or about to start.
        Running = "running",
        Timeout = "timeout",
        /// Not run; the error contains the reason.
        Skipped = "skipped",
    }
);

/// A stored delivery.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: HookDeliveryId,
    pub hook_id: HookId,
    pub event_id: String,
    pub event_type: String,
    pub status: DeliveryStatus,
    /// Number of completed attempts since the last manual retry.
    pub attempt_count: u32,
    /// Time of the next attempt; `None` if no attempt is scheduled.
    pub next_attempt_at: Option<Timestamp>,
    pub response_status: Option<u32>,
    /// Duration of the last attempt, in milliseconds.
    pub duration_ms: Option<u64>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A stored execution.
#[derive(Debug, Clone)]
pub struct Execution {
    pub id: ExecutionId,
    pub hook_id: HookId,
    pub event_id: String,
    pub event_type: String,
    pub status: ExecutionStatus,
    pub attempt_count: u32,
    pub output: Value,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub duration_ms: Option<u64>,
}

/// Builds the event body that hooks receive.
#[must_use]
pub(super) fn event_body(id: &str, event_type: &str, timestamp: Timestamp, data: &Value) -> Value {
    serde_json::json!({"id": id, "type": event_type, "timestamp": timestamp, "data": data})
}
