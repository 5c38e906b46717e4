//! REST API calls and error codes
//! (<https://docs.discord.com/developers/topics/opcodes-and-status-codes>).

use agentd_base::Secret;
use http::{Method, StatusCode};
use serde_json::Value;

use super::client::{Discord, NAME};
use super::details::Interaction;
use crate::api::{ApiAnswer, ApiCall, base_url, call, join, wait_in};
use crate::incoming_text::{name, reason, some_name};
use crate::outgoing::{Account, SendError};

const BASE_URL: &str = "https://discord.com/api/v10";
const UNKNOWN_WEBHOOK: u64 = 10_015;
const UNKNOWN_INTERACTION: u64 = 10_062;
const INVALID_WEBHOOK_TOKEN: u64 = 50_027;

impl Discord {
    /// # Errors
    /// `NotSetUp` without a bot token, or the error of Discord.
    pub(super) async fn call_as_bot(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, SendError> {
        let token = self.config.bot_token.as_ref().filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| SendError::NotSetUp("set channels.discord.bot_token to send messages".to_owned()))?;
        let request = self.request(method, path, body)?.authorized("Bot", token);
        let answer = call(&self.client, NAME, request).await?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(refusal(&answer, token)) }
    }

    /// Calls an interaction webhook, whose token is part of the path. Returns `None` if it no longer accepts messages.
    pub(super) async fn call_interaction(
        &self,
        interaction: &Interaction,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<Option<Value>, SendError> {
        let segments = [&["webhooks", &interaction.application_id, &interaction.interaction_token], path].concat();
        let answer = call(&self.client, NAME, self.request(method, &segments, Some(body))?).await?;
        if answer.status.is_success() {
            return Ok(Some(answer.body));
        }
        let is_over =
            matches!(answer.body["code"].as_u64(), Some(UNKNOWN_WEBHOOK | UNKNOWN_INTERACTION | INVALID_WEBHOOK_TOKEN));
        if is_over || matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND) {
            return Ok(None);
        }
        Err(refusal(&answer, &Secret::new(interaction.interaction_token.clone())))
    }

    /// Sends the initial response to an interaction, whose token is part of the path.
    pub(super) async fn respond_to_interaction(&self, id: &str, token: &str, answer: &Value) -> Result<(), SendError> {
        let path = ["interactions", id, token, "callback"];
        let answer = call(&self.client, NAME, self.request(Method::POST, &path, Some(answer))?).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refusal(&answer, &Secret::new(token.to_owned()))) }
    }

    fn request(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<ApiCall, SendError> {
        let base = base_url(self.config.api_base_url.as_ref(), BASE_URL)?;
        let request = ApiCall::new(method, join(&base, path));
        Ok(match body {
            Some(body) => request.json(body),
            None => request,
        })
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        let user = self.call_as_bot(Method::GET, &["users", "@me"], None).await?;
        let application = self.call_as_bot(Method::GET, &["applications", "@me"], None).await?;
        Ok(Account {
            id: name(&user["id"]),
            name: name(&user["username"]),
            webhook_url: some_name(&application["interactions_endpoint_url"]),
            last_error: None,
        })
    }
}

/// Converts an error response. `token` is the token of the call, which must not appear in the message.
pub(super) fn refusal(answer: &ApiAnswer, token: &Secret) -> SendError {
    let code = answer.body["code"].as_u64().unwrap_or_default();
    let detail = reason(&answer.body["message"], [token]);
    let sentence = format!("Discord returned {} with code {code}{detail}", answer.status.as_u16());
    match (code, answer.status) {
        // Too many direct chats, or too many messages to an unresponsive user.
        (40_003 | 20_016 | 20_028 | 20_029, _) => SendError::RateLimited {
            message: "Discord is rate limiting messages".to_owned(),
            wait: wait_in(&answer.body),
        },
        (50_007 | 50_278, _) => SendError::Blocked(sentence),
        // Unknown or inaccessible channel, server, message or thread, or missing permissions.
        (10_003 | 10_004 | 10_008 | 50_001 | 50_013 | 50_083 | 160_005, _) => SendError::Gone(sentence),
        (40_001 | 50_014, _) | (_, StatusCode::UNAUTHORIZED) => {
            SendError::Credentials(format!("{sentence}; check channels.discord.bot_token"))
        }
        (_, StatusCode::NOT_FOUND) => SendError::Gone(sentence),
        _ => SendError::Refused(sentence),
    }
}
