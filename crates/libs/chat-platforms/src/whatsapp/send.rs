//! Cloud API calls.

use agentd_base::Secret;
use http::{Method, StatusCode};
use serde_json::Value;

use super::client::{NAME, Whatsapp};
use super::write;
use crate::api::{ApiAnswer, ApiCall, base_url, call, join};
use crate::incoming_text::{id, name, reason};
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};

const BASE: &str = "https://graph.facebook.com/v23.0";

impl Whatsapp {
    pub(super) async fn send_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        if message.buttons.is_empty() {
            return self.send_text(to, &message.text).await;
        }
        self.post(to, &write::button_message(to, &message.text, &message.buttons)).await
    }

    pub(super) async fn send_text(&self, to: &Address, text: &str) -> Result<Sent, SendError> {
        self.post(to, &write::text_message(to, text)).await
    }

    pub(super) async fn send_typing(&self, to: &Address) -> Result<(), SendError> {
        let Some(message_id) = &to.thread else { return Ok(()) };
        self.call(Method::POST, &[self.number()?, "messages"], None, Some(&write::typing(message_id))).await.map(drop)
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        let fields = "verified_name,display_phone_number";
        let body = self.call(Method::GET, &[self.number()?], Some(("fields", fields)), None).await?;
        let parts = ["verified_name", "display_phone_number"].map(|field| name(&body[field]));
        let names: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let id = self.config.phone_number_id.clone().unwrap_or_default();
        Ok(Account { id, name: names.join(" "), webhook_url: None, last_error: None })
    }

    async fn post(&self, to: &Address, message: &Value) -> Result<Sent, SendError> {
        let body = self.call(Method::POST, &[self.number()?, "messages"], None, Some(message)).await?;
        let id = id(&body["messages"][0]["id"])
            .ok_or_else(|| SendError::Refused("WhatsApp accepted the message but returned no id for it".to_owned()))?;
        let message = Address { thread: Some(id.clone()), ..Address::of_channel(to.channel.as_str()) };
        Ok(Sent { id, message })
    }

    pub(super) fn token(&self) -> Result<&Secret, SendError> {
        let token = self.config.access_token.as_ref().filter(|token| !token.is_empty());
        token.ok_or_else(|| SendError::NotSetUp("set channels.whatsapp.access_token to send messages".to_owned()))
    }

    pub(super) fn number(&self) -> Result<&str, SendError> {
        let number = self.config.phone_number_id.as_deref().filter(|number| !number.is_empty());
        number.ok_or_else(|| SendError::NotSetUp("set channels.whatsapp.phone_number_id to send messages".to_owned()))
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, &str)>,
        body: Option<&Value>,
    ) -> Result<Value, SendError> {
        let token = self.token()?;
        let base = base_url(self.config.api_base_url.as_ref(), BASE)?;
        let mut request = ApiCall::new(method, join(&base, path)).query(query).authorized("Bearer", token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = call(&self.client, NAME, request).await?;
        if answer.status.is_success() && answer.body["error"].is_null() {
            return Ok(answer.body);
        }
        Err(error_of(&answer, token))
    }
}

/// Converts an error response, by the codes of
/// <https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes>. Codes 131047 and 131026 may also
/// arrive in a later event: see `read`. Code 130472, an experiment, concerns only marketing templates, which are not
/// sent.
pub(super) fn error_of(answer: &ApiAnswer, token: &Secret) -> SendError {
    let error = &answer.body["error"];
    match error["code"].as_i64() {
        Some(100) if error["error_subcode"] == 33 => unknown_object(),
        Some(code) => error_for_code(code, &reason(&error["message"], [token])),
        None if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            SendError::Credentials("WhatsApp rejected channels.whatsapp.access_token".to_owned())
        }
        None => SendError::Refused(format!("{NAME} returned {}", answer.status)),
    }
}

/// Interprets an error code of a response or a later status. `detail` is WhatsApp's text for the message.
pub(super) fn error_for_code(code: i64, detail: &str) -> SendError {
    match code {
        131_047 => SendError::WindowClosed(
            "the 24-hour messaging window of WhatsApp is closed; the user must send a message first".to_owned(),
        ),
        131_026 => SendError::Blocked(
            "WhatsApp cannot deliver to this number: it does not use WhatsApp or uses an outdated version, has not \
             accepted its terms, or blocked the sender"
                .to_owned(),
        ),
        130_429 | 131_048 | 131_056 | 80_007 | 4 => {
            SendError::RateLimited { message: format!("{NAME} is rate limiting messages"), wait: None }
        }
        0 | 3 | 10 | 102 | 190 | 200..=299 => SendError::Credentials(
            "WhatsApp rejected channels.whatsapp.access_token: it has expired or lacks permission for this \
             number"
                .to_owned(),
        ),
        368 | 131_031 => SendError::Credentials("WhatsApp has locked the account".to_owned()),
        131_030 => SendError::Refused(
            "the WhatsApp test number may not write to this recipient; add the recipient in the Meta developer \
             console"
                .to_owned(),
        ),
        1 | 2 | 131_000 | 131_016 | 131_057 | 133_004 => {
            SendError::Later("WhatsApp reported an internal error".to_owned())
        }
        130_472 => SendError::Refused(
            "WhatsApp did not deliver the message because the recipient is part of a Meta experiment".to_owned(),
        ),
        131_049 => SendError::Refused(
            "WhatsApp did not deliver the message because the recipient received too many business messages; retry \
             later"
                .to_owned(),
        ),
        33 => unknown_object(),
        code => SendError::Refused(format!("WhatsApp rejected the message with code {code}{detail}")),
    }
}

/// Returns the error for an unknown object, which API versions report differently, for numbers and files alike.
fn unknown_object() -> SendError {
    SendError::Credentials(
        "WhatsApp did not find the phone number or file; check channels.whatsapp.phone_number_id and the permissions \
         of channels.whatsapp.access_token"
            .to_owned(),
    )
}
