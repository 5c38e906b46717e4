//! Web API methods and error codes (<https://docs.slack.dev/apis/web-api>).

use agentd_base::Secret;
use agentd_net::retry_after;
use http::Method;
use serde_json::{Value, json};
use url::Url;

use super::client::{NAME, Slack};
use crate::api::{ApiAnswer, ApiCall, base_url, call, join};
use crate::incoming_text::{id, name};
use crate::outgoing::{Account, SendError};

const BASE_URL: &str = "https://slack.com/api";

impl Slack {
    /// Calls a method as the bot.
    pub(super) async fn call(&self, method: &str, body: &Value) -> Result<Value, SendError> {
        self.call_as(self.bot_token()?, method, body).await
    }

    pub(super) fn bot_token(&self) -> Result<&Secret, SendError> {
        let token = self.config.bot_token.as_ref().filter(|token| !token.is_empty());
        token.ok_or_else(|| SendError::NotSetUp("set channels.slack.bot_token to send messages".to_owned()))
    }

    async fn call_as(&self, token: &Secret, method: &str, body: &Value) -> Result<Value, SendError> {
        let base = base_url(self.config.api_base_url.as_ref(), BASE_URL)?;
        let request = ApiCall::new(Method::POST, join(&base, &[method])).authorized("Bearer", token).json(body);
        let answer = call(&self.client, NAME, request).await?;
        if answer.body["ok"] == true { Ok(answer.body) } else { Err(refusal(&answer)) }
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        let identity = self.call("auth.test", &json!({})).await?;
        let id = id(&identity["user_id"]);
        if id.is_some() {
            self.bot_user.lock().clone_from(&id);
        }
        Ok(Account { id: id.unwrap_or_default(), name: name(&identity["user"]), webhook_url: None, last_error: None })
    }

    /// Requests a Socket Mode URL. It is secret, valid for some seconds, and can be used once.
    pub(super) async fn open_socket(&self, app_token: &Secret) -> Result<Url, SendError> {
        let answer = self.call_as(app_token, "apps.connections.open", &json!({})).await;
        let answer = answer.map_err(|error| match error {
            SendError::Credentials(text) => SendError::Credentials(text.replace("slack.bot_token", "slack.app_token")),
            other => other,
        })?;
        let is_plain = self.config.api_base_url.as_ref().is_some_and(|base| base.scheme() == "http");
        let url = answer["url"].as_str().and_then(|url| Url::parse(url).ok());
        url.filter(|url| url.scheme() == "wss" || (is_plain && url.scheme() == "ws"))
            .ok_or_else(|| SendError::Later("Slack returned no WebSocket URL".to_owned()))
    }
}

/// Converts an error response. Only error codes and scopes are shown.
pub(super) fn refusal(answer: &ApiAnswer) -> SendError {
    let named = |field: &str| answer.body[field].as_str().filter(|name| is_name(name)).unwrap_or("an unknown error");
    let code = named("error");
    let sentence = format!("Slack returned {code}");
    match code {
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => SendError::RateLimited {
            message: "Slack is rate limiting messages".to_owned(),
            wait: retry_after(&answer.headers, None),
        },
        "missing_scope" => {
            let scope = named("needed");
            SendError::Credentials(format!("{sentence}; add the scope {scope} to the app and reinstall it"))
        }
        "invalid_auth"
        | "not_authed"
        | "token_revoked"
        | "token_expired"
        | "account_inactive"
        | "no_permission"
        | "not_allowed_token_type"
        | "org_login_required"
        | "ekm_access_denied"
        | "access_denied"
        | "enterprise_is_restricted"
        | "two_factor_setup_required"
        | "team_access_not_granted" => SendError::Credentials(format!("{sentence}; check channels.slack.bot_token")),
        "not_in_channel" => SendError::Gone(format!("{sentence}; invite the bot to the channel")),
        "channel_not_found"
        | "is_archived"
        | "message_not_found"
        | "thread_not_found"
        | "team_not_found"
        | "user_not_found"
        | "cannot_reply_to_message" => SendError::Gone(sentence),
        "messages_tab_disabled" | "cannot_dm_bot" | "user_disabled" => SendError::Blocked(sentence),
        "edit_window_closed" => SendError::WindowClosed(sentence),
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org"
        | "external_channel_migrating"
        | "accesslimited" => SendError::Later(sentence),
        // Not JSON, so the response is not from Slack itself.
        _ if answer.body.is_null() => SendError::Later(format!("Slack returned {} without JSON", answer.status)),
        _ => SendError::Refused(sentence),
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:.,".contains(&byte);
    (1..=80).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the `ts` of a message, which identifies it in a channel.
pub(super) fn ts_of(answer: &Value) -> Result<String, SendError> {
    // Not retried, since the message was sent.
    let missing = || SendError::Refused("Slack accepted the message but returned no ts for it".to_owned());
    id(&answer["ts"]).ok_or_else(missing)
}
