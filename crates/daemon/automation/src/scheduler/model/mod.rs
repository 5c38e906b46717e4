//! Jobs, runs and chains, with their rules as pure functions.

pub(super) mod chain;
mod change;
pub(super) mod condition;
pub(super) mod habit;
pub(super) mod job;
pub(super) mod retry;
pub(super) mod run;
pub(super) mod slots;

pub use chain::{
    Chain, ChainCause, ChainEdge, ChainEdgeType, ChainId, ChainRun, ChainRunId, ChainRunStatus, ChainStep,
};
pub use change::{DeliveryChange, JobFields};
pub(super) use habit::{HABIT_DAYS, HEATMAP_DAYS, hour_of_week, suggestions};
pub use habit::{HourOfWeek, Suggestion};
pub use job::{ConditionType, DeliveryRule, Job, JobCondition, JobExecutionMode, JobStatus, OverlapPolicy};
pub use retry::{BaseDelay, RetryChange, RetryRule, RetryStrategy};
pub use run::{FailedRun, Run, RunCause, RunDelivery, RunId, RunStatus, StopReason};

agentd_base::typed_id!(
    /// Id of a job.
    JobId,
    "job"
);
agentd_store::stored_ids!(JobId);

/// Defines an enum with the same names in JSON and in the database.
macro_rules! string_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            /// Parses a stored name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use string_enum;
