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
pub(super) use code_secrets::CODE_SECRETS;
pub use config::{Action, BuiltinAction, HookType, HttpAction, PythonAction};
pub(super) use config::{SECRET, stored_action};
pub use filter::{Filter, FilterProblem};
pub(super) use headers::{HEADER_SECRETS, secret_scope};
pub use hook::Hook;
pub(super) use outcome::{
    DELETED, DELIVERY_LEASE, DeliveryResult, EXECUTION_LEASE, FAILURES_TO_OPEN, Problem, QUICK, Sent, circuit_pause,
    inline_delay,
};

agentd_base::typed_id!(
    /// The id of a hook.
    HookId,
    "hook"
);
agentd_base::typed_id!(
    /// The id of what a hook did about one event.
    ExecutionId,
    "exec"
);
agentd_base::typed_id!(
    /// The id of one event on its way to one receiver.
    HookDeliveryId,
    "dlv"
);
agentd_store::stored_ids!(HookId, ExecutionId, HookDeliveryId);

/// Maximum number of hooks.
pub(super) const MAX_HOOKS: u64 = 1000;
/// Hooks that cause each other's events end after this many.
pub(super) const MAX_DEPTH: u32 = 5;
/// The event of a test of a delivery.
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

            /// The schema lets nothing else in than one of these.
            #[must_use]
            pub fn from_stored(text: &str) -> Self {
                Self::ALL.iter().copied().find(|status| status.as_str() == text).unwrap_or(Self::$fallback)
            }
        }
    };
}
pub(super) use stored_enum;

stored_enum!(
    DeliveryStatus, DeadLetter, {
        /// Waits to be sent.
        Pending = "pending",
        /// Is being sent.
        Processing = "processing",
        Success = "success",
        /// Waits for its next attempt.
        Failed = "failed",
        /// Given up; the error says why.
        DeadLetter = "dead_letter",
    }
);

stored_enum!(
    ExecutionStatus, Error, {
        Success = "success",
        Error = "error",
        /// Under way, or about to be.
        Running = "running",
        Timeout = "timeout",
        /// Not done; the error says why.
        Skipped = "skipped",
    }
);

/// A delivery as it is kept.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: HookDeliveryId,
    pub hook_id: HookId,
    pub event_id: String,
    pub event_type: String,
    pub status: DeliveryStatus,
    /// Attempts whose result is known, since the last retry by hand.
    pub attempt_count: u32,
    /// When it is tried next; `None` when it is not.
    pub next_attempt_at: Option<Timestamp>,
    pub response_status: Option<u32>,
    /// Of the last attempt.
    pub duration_ms: Option<u64>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An execution as it is kept.
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

/// The event as hooks get it.
#[must_use]
pub(super) fn event_body(id: &str, event_type: &str, timestamp: Timestamp, data: &Value) -> Value {
    serde_json::json!({"id": id, "type": event_type, "timestamp": timestamp, "data": data})
}
