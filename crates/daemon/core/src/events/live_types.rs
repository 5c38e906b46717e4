//! Live event types, which are not stored.

use super::catalogue::{AGENT, CONVERSATION, Field, JOB, ORIGIN, RUN, SESSION, TOOL, field};

/// Event type that is delivered live and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveType {
    pub name: &'static str,
    /// Sentence for users that tells when the event fires.
    pub fires: &'static str,
    pub data: &'static [Field],
}

const CALL: Field = field("call_id", "\"0.0\"");
const ROUND: Field = field("round", "0");

/// All live event types: too frequent or too minor to be stored. Only connected stream clients of the emitting daemon
/// receive them; hooks do not.
pub const LIVE: &[LiveType] = &[
    LiveType {
        name: "turn.tool_use",
        fires: "A turn started a tool call.",
        data: &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN, TOOL, CALL, ROUND, field("status", "null")],
    },
    LiveType {
        name: "turn.tool_result",
        fires: "A tool call of a turn finished or was rejected.",
        data: &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN, TOOL, CALL, ROUND, field("status", "\"done\"")],
    },
    LiveType {
        name: "delivery.changed",
        fires: "Hook deliveries were attempted; sent at most twice a second.",
        data: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_json() {
        for field in LIVE.iter().flat_map(|live| live.data) {
            assert!(serde_json::from_str::<serde_json::Value>(field.example).is_ok(), "{}", field.name);
        }
    }
}
