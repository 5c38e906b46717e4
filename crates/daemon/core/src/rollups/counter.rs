//! Counters.

/// Counter. Each has labels of one kind; the label is empty if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    Conversations,
    Messages,
    /// Ended turns, by agent.
    Turns,
    /// Turns that did not succeed, by agent.
    FailedTurns,
    /// Ended turns, by origin.
    TurnsByOrigin,
    /// Tool calls, by tool.
    ToolCalls,
    FailedToolCalls,
    /// Tool calls, by agent.
    ToolCallsByAgent,
    /// Ended job runs.
    Runs,
    FailedRuns,
    /// Ended hook deliveries.
    Deliveries,
    /// Dead-lettered hook deliveries. A delivery that is dead-lettered again counts again.
    DeadLetters,
    Episodes,
}

impl Counter {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversations => "conversations",
            Self::Messages => "messages",
            Self::Turns => "turns",
            Self::FailedTurns => "failed_turns",
            Self::TurnsByOrigin => "turns_by_origin",
            Self::ToolCalls => "tool_calls",
            Self::FailedToolCalls => "failed_tool_calls",
            Self::ToolCallsByAgent => "tool_calls_by_agent",
            Self::Runs => "runs",
            Self::FailedRuns => "failed_runs",
            Self::Deliveries => "deliveries",
            Self::DeadLetters => "dead_letters",
            Self::Episodes => "episodes",
        }
    }
}
