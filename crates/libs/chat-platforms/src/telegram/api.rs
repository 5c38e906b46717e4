//! Bot API methods and error codes.

use std::time::Duration;

use agentd_base::Secret;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::client::{NAME, Telegram};
use crate::api::{ApiCall, base_url, call, join, wait_in};
use crate::incoming_text::{name, reason, some_name};
use crate::outgoing::{Account, SendError};

const BASE_URL: &str = "https://api.telegram.org";
/// Update types requested from Telegram, which are those that [`Telegram::read`] reads.
pub(super) const UPDATES: [&str; 2] = ["message", "callback_query"];
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Time limit of optional calls that must not delay a message.
pub(super) const SHORT_TIME_LIMIT: Duration = Duration::from_secs(3);

impl Telegram {
    /// Calls a method and returns its `result`.
    pub(super) async fn call(&self, method: &str, body: &Value, limit: Duration) -> Result<Value, Failure> {
        let url = self.url(&[], &[method])?;
        let mut request = ApiCall::new(Method::POST, url).json(body);
        request.time_limit = limit;
        let mut answer = call(&self.client, NAME, request).await?;
        if answer.status.is_success() && answer.body["ok"] == true {
            return Ok(answer.body["result"].take());
        }
        Err(Failure {
            error: refusal(answer.status, &answer.body, &reason(&answer.body["description"], self.secrets())),
            moved_to: answer.body["parameters"]["migrate_to_chat_id"].as_i64(),
        })
    }

    /// Returns a URL with the token in its path, between these segments.
    pub(super) fn url(&self, before: &[&str], after: &[&str]) -> Result<Url, SendError> {
        let token = self.config.bot_token.as_ref().filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| SendError::NotSetUp("set channels.telegram.bot_token to send messages".to_owned()))?;
        let base = base_url(self.config.api_base_url.as_ref(), BASE_URL)?;
        Ok(join(&base, &[before, &[&format!("bot{}", token.expose())], after].concat()))
    }

    /// Returns the secrets that error messages must not contain.
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.config.bot_token, &self.config.secret_token].into_iter().flatten()
    }

    /// Fetches the bot's username if it is unknown. Without it only replies and mentions by ID are recognized, so a
    /// failure is retried with the next message.
    pub(super) async fn fetch_username(&self) {
        if self.config.bot_token.is_some() && self.username.lock().is_none() {
            let me = self.call("getMe", &json!({}), SHORT_TIME_LIMIT).await;
            self.store_username(&me.unwrap_or_default());
        }
    }

    fn store_username(&self, me: &Value) {
        if let Some(username) = me["username"].as_str() {
            *self.username.lock() = Some(username.to_owned());
        }
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        let me = self.call("getMe", &json!({}), TIME_LIMIT).await?;
        self.store_username(&me);
        let webhook = self.call("getWebhookInfo", &json!({}), TIME_LIMIT).await?;
        let name = match name(&me["username"]) {
            none if none.is_empty() => name(&me["first_name"]),
            username => format!("@{username}"),
        };
        let last_error = reason(&webhook["last_error_message"], self.secrets());
        Ok(Account {
            id: me["id"].as_i64().map(|id| id.to_string()).unwrap_or_default(),
            name,
            webhook_url: some_name(&webhook["url"]),
            last_error: last_error.strip_prefix(": ").map(str::to_owned),
        })
    }

    /// Registers a webhook `url`, which must be `https`. Pending updates are delivered to it as well.
    pub(super) async fn set_webhook(&self, url: &Url) -> Result<String, SendError> {
        let secret = self.config.secret_token.as_ref().filter(|secret| !secret.is_empty()).ok_or_else(|| {
            SendError::NotSetUp("set channels.telegram.secret_token before registering the webhook".to_owned())
        })?;
        let body = json!({
            "url": url.as_str(),
            "secret_token": secret.expose(),
            "allowed_updates": UPDATES,
            "drop_pending_updates": false,
        });
        self.call("setWebhook", &body, TIME_LIMIT).await?;
        Ok(url.to_string())
    }

    /// Deletes the webhook, as required for polling. Pending updates are kept.
    ///
    /// # Errors
    /// See [`ChatPlatform::send`](crate::ChatPlatform::send).
    pub(super) async fn delete_webhook(&self) -> Result<(), SendError> {
        self.call("deleteWebhook", &json!({"drop_pending_updates": false}), TIME_LIMIT).await?;
        Ok(())
    }
}

/// Failure of a method call.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: SendError,
    /// New ID of a group that became a supergroup.
    pub(super) moved_to: Option<i64>,
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self { error, moved_to: None }
    }
}

impl From<Failure> for SendError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

fn refusal(status: StatusCode, body: &Value, detail: &str) -> SendError {
    let code = body["error_code"].as_u64().unwrap_or_else(|| status.as_u16().into());
    let contains_any = |words: &[&str]| words.iter().any(|word| detail.to_ascii_lowercase().contains(word));
    let sentence = format!("Telegram returned {code}{detail}");
    match code {
        429 => SendError::RateLimited { message: "Telegram is rate limiting messages".to_owned(), wait: wait_in(body) },
        // An unknown token makes the path invalid.
        401 | 404 => SendError::Credentials(format!("{sentence}; check channels.telegram.bot_token")),
        403 if contains_any(&["blocked by the user", "user is deactivated", "can't initiate conversation"]) => {
            SendError::Blocked(sentence)
        }
        403 if contains_any(&["kicked", "not a member", "deleted"]) => SendError::Gone(sentence),
        400 if contains_any(&[
            "not found",
            "topic_closed",
            "topic_deleted",
            "chat was deactivated",
            "chat was deleted",
            "upgraded to a supergroup",
            "peer_id_invalid",
        ]) =>
        {
            SendError::Gone(sentence)
        }
        500.. => SendError::Later(sentence),
        _ => SendError::Refused(sentence),
    }
}
