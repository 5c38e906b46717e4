//! Application commands (<https://docs.discord.com/developers/interactions/application-commands>).

use http::Method;
use serde_json::{Value, json};

use super::Discord;
use super::details::is_snowflake;
use crate::outgoing::SendError;

/// Command whose text is the whole message; messages of other commands begin with the command name.
pub(super) const ASK: &str = "ask";
/// Maximum length of a question in characters.
const MAX_QUESTION: u64 = 6000;
const CHAT_INPUT: u64 = 1;
const TEXT: u64 = 3;
pub(super) const FILE: u64 = 11;

impl Discord {
    /// Replaces the commands of the application. The interactions endpoint URL must be entered in the developer portal,
    /// which verifies it.
    pub(super) async fn register_commands(&self) -> Result<String, SendError> {
        let id = self.config.application_id.as_deref().filter(|id| is_snowflake(id)).ok_or_else(|| {
            SendError::NotSetUp("set channels.discord.application_id to register commands".to_owned())
        })?;
        self.call_as_bot(Method::PUT, &["applications", id, "commands"], Some(&commands())).await?;
        Ok("/ask, /new, /stop, /help".to_owned())
    }
}

fn commands() -> Value {
    // In servers and in direct chats with the bot, where the bot can also write on its own initiative.
    let contexts = [0, 1];
    let plain = |name: &str, description: &str| {
        let kind = CHAT_INPUT;
        json!({"type": kind, "name": name, "description": description, "contexts": contexts})
    };
    let mut ask = plain(ASK, "Ask the agent");
    ask["options"] = json!([{
        "type": TEXT,
        "name": "text",
        "description": "Message to the agent",
        "required": true,
        "max_length": MAX_QUESTION,
    }, {
        "type": FILE,
        "name": "file",
        "description": "File to attach",
        "required": false,
    }]);
    json!([
        ask,
        plain("new", "Start a new conversation"),
        plain("stop", "Stop the current task"),
        plain("help", "Show the available commands"),
    ])
}
