//! Conversations and messages.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{Round, SessionId, SessionStatus, Sources, ToolUse, TurnUsage};
use agentd_engine::projects::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

agentd_base::typed_id!(
    /// Id of a conversation.
    ConversationId,
    "conv"
);
agentd_base::typed_id!(
    /// Id of a message.
    MessageId,
    "msg"
);
agentd_store::stored_ids!(ConversationId, MessageId);

/// Declares an enumeration that is stored and serialized as its `snake_case` name.
macro_rules! stored_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$variant_meta])* $variant),+
        }

        impl $name {
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            pub(super) fn from_stored(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

stored_enum!(
    /// Capabilities of the agent in a conversation: `chat` has no tools, `agent` has all tools of the agent, and `plan`
    /// proposes a plan with read-only tools.
    Mode {
        /// Conversation without tools.
        Chat = "chat",
        Agent = "agent",
        /// Proposes a plan without changing anything.
        Plan = "plan",
    }
);

stored_enum!(
    /// Whether tools with side effects require approval: `autonomous` runs them, `approval_required` asks the owner
    /// first.
    ExecutionMode {
        Autonomous = "autonomous",
        ApprovalRequired = "approval_required",
    }
);

stored_enum!(
    /// Author of a message: the user, the agent (`assistant`), or an instruction (`system`).
    Role {
        User = "user",
        Assistant = "assistant",
        /// Added to the system prompt.
        System = "system",
    }
);

stored_enum!(
    /// State of a message. `running` is still being written; `interrupted`, `cancelled` and `failed` retain the text
    /// written until then.
    MessageStatus {
        /// Still being written; `content` is the text so far.
        Running = "running",
        Complete = "complete",
        /// Interrupted by a stop of the daemon.
        Interrupted = "interrupted",
        Cancelled = "cancelled",
        /// The model or its provider failed; the text until then is retained.
        Failed = "failed",
    }
);

impl Conversation {
    /// Returns which tools the agent may use in this conversation.
    #[must_use]
    pub fn tool_use(&self) -> ToolUse {
        match (self.mode, self.execution_mode) {
            (Mode::Chat, _) => ToolUse::None,
            (Mode::Plan, _) => ToolUse::ReadingOnly,
            (Mode::Agent, ExecutionMode::Autonomous) => ToolUse::Free,
            (Mode::Agent, ExecutionMode::ApprovalRequired) => ToolUse::Asking,
        }
    }
}

impl From<SessionStatus> for MessageStatus {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Running => Self::Running,
            SessionStatus::Done => Self::Complete,
            SessionStatus::Failed => Self::Failed,
            SessionStatus::Cancelled => Self::Cancelled,
            SessionStatus::Interrupted => Self::Interrupted,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    pub title: String,
    pub agent_id: AgentId,
    /// Project it belongs to.
    pub project_id: Option<ProjectId>,
    /// Device that started it and may continue it.
    pub device_id: Option<String>,
    pub mode: Mode,
    pub execution_mode: ExecutionMode,
    pub message_count: u64,
    /// Increases with every change of the messages.
    pub revision: u64,
    /// Replaces the messages up to position `summary_through` in prompts.
    pub summary: Option<String>,
    /// Sources of untrusted text that the summary may contain.
    pub summary_sources: Sources,
    pub summary_through: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub conversation_id: ConversationId,
    pub position: u64,
    pub role: Role,
    pub content: String,
    /// Model rounds with tool calls; empty if no tool was used.
    pub rounds: Vec<Round>,
    pub status: MessageStatus,
    /// Session of the turn that wrote it.
    pub session_id: Option<SessionId>,
    pub created_at: Timestamp,
    /// Model, tokens and cost of a reply; `None` for other messages.
    pub usage: Option<TurnUsage>,
    /// Whether an unknown sender wrote it or it answers one. Agents do not learn from such messages.
    pub is_untrusted: bool,
}

/// Messages to remove from a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Removes everything after this message.
    After(MessageId),
    /// Removes everything except the last messages, up to this number.
    KeepLast(u64),
}

/// Title of a conversation without messages.
pub(super) const UNTITLED: &str = "New conversation";
const TITLE_CHARACTERS: usize = 60;

/// Returns the title for a first message: its first sentence on one line, truncated to 60 characters between words.
pub(super) fn title_from(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    let sentence = first_sentence(&line);
    if sentence.is_empty() {
        return UNTITLED.to_owned();
    }
    if sentence.chars().count() <= TITLE_CHARACTERS {
        return sentence.to_owned();
    }
    // Reserves one character for the ellipsis.
    let end = sentence.char_indices().nth(TITLE_CHARACTERS - 1).map_or(sentence.len(), |(at, _)| at);
    let cut = &sentence[..end];
    let at_word = cut.rfind(' ').filter(|at| *at >= end / 2).map_or(cut, |at| &cut[..at]);
    format!("{}…", at_word.trim_end_matches([' ', ',', ';', ':', '-']))
}

fn first_sentence(line: &str) -> &str {
    let mut previous_end = None;
    for (at, character) in line.char_indices() {
        if matches!(character, '。' | '！' | '？') {
            return &line[..at + character.len_utf8()];
        }
        if character == ' '
            && let Some(end) = previous_end
        {
            return &line[..end];
        }
        previous_end = match character {
            '?' | '!' => Some(at + 1),
            // A full stop ends a title but is not part of it.
            '.' => Some(at),
            _ => None,
        };
    }
    match line.strip_suffix('.') {
        Some(rest) if !rest.ends_with('.') => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn title_is_the_first_sentence() {
        assert_eq!(title_from("  What is Rust? Tell me\nall."), "What is Rust?");
        assert_eq!(title_from("Plan my week. Begin on Monday."), "Plan my week");
        assert_eq!(title_from("version 1.2.3 is out"), "version 1.2.3 is out");
        assert_eq!(title_from("今日は何曜日ですか？教えて"), "今日は何曜日ですか？");
        assert_eq!(title_from(" \n "), UNTITLED);
    }

    #[test]
    fn long_title_is_cut_between_words() {
        let long = "please write a very long and winding story about a lighthouse keeper, who lives alone";
        assert_eq!(title_from(long), "please write a very long and winding story about a…");
        assert_eq!(title_from(&"x".repeat(100)).chars().count(), TITLE_CHARACTERS);
    }

    proptest! {
        #[test]
        fn title_is_one_short_line(message in "\\PC{0,300}|[ a-z.?!\n]{0,300}") {
            let title = title_from(&message);
            prop_assert!(!title.is_empty());
            prop_assert!(title.chars().count() <= TITLE_CHARACTERS);
            prop_assert!(!title.contains('\n'));
        }
    }
}
