//! What is told as it happens and stored nowhere.

use super::catalogue::{AGENT, CONVERSATION, Field, JOB, ORIGIN, RUN, SESSION, TOOL, field};

/// What is told and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveType {
    pub name: &'static str,
    /// When it is told: a sentence for people.
    pub fires: &'static str,
    pub data: &'static [Field],
}

const CALL: Field = field("call_id", "\"0.0\"");
const ROUND: Field = field("round", "0");

/// What happens too often, or means too little, to be stored: only who watches at that moment hears of it, from the
/// daemon that does it. No hook does.
pub const LIVE: &[LiveType] = &[
    LiveType {
        name: "turn.tool_use",
        fires: "A turn begins to run a tool.",
        data: &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN, TOOL, CALL, ROUND, field("status", "null")],
    },
    LiveType {
        name: "turn.tool_result",
        fires: "A tool of a turn has answered, or was refused.",
        data: &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN, TOOL, CALL, ROUND, field("status", "\"done\"")],
    },
    LiveType { name: "delivery.changed", fires: "Deliveries of hooks were tried; at most twice a second.", data: &[] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_json() {
        for field in LIVE.iter().flat_map(|told| told.data) {
            assert!(serde_json::from_str::<serde_json::Value>(field.example).is_ok(), "{}", field.name);
        }
    }
}
