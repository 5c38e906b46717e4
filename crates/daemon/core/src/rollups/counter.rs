//! What is counted.

/// Each has a label of its own kind, '' where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    Conversations,
    Messages,
    /// Turns that ended in whatever way, by agent.
    Turns,
    /// Of them, those that came to no success.
    FailedTurns,
    /// The same turns by what began them.
    TurnsByOrigin,
    /// Calls of tools by tool.
    ToolCalls,
    FailedToolCalls,
    /// The same calls by agent.
    ToolCallsByAgent,
    /// Runs of jobs that ended.
    Runs,
    FailedRuns,
    /// Deliveries of hooks that came to an end.
    Deliveries,
    /// Of them, those that were given up; again when one is given up again.
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
