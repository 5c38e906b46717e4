//! Chat API calls.

use agentd_base::Secret;
use http::{Method, StatusCode};
use serde_json::Value;

use super::client::GoogleChat;
use super::verify::NAME;
use super::write::{self, resource_ids};
use crate::api::{ApiAnswer, ApiCall, base_url, join};
use crate::incoming_text::{id, reason};
use crate::outgoing::{Address, Outgoing, SendError, Sent};

pub(super) const BASE: &str = "https://chat.googleapis.com";

impl GoogleChat {
    pub(super) async fn send_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        let space = resource_ids(&to.channel, &["spaces"])
            .ok_or_else(|| SendError::Refused("invalid Google Chat space".to_owned()))?;
        // For an add-on, the action of a button is the URL to call.
        let is_add_on = to.details["is_add_on"] == true;
        let function = self.endpoint.as_deref().filter(|_| is_add_on).unwrap_or(write::BUTTON_FUNCTION);
        let body = write::message(&message.text, &message.buttons, to.thread.as_deref(), function);
        let query = to.thread.as_ref().map(|_| ("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"));
        let sent = self.call(Method::POST, &[&space[..], &["messages"]].concat(), query, &body).await?;
        let name = id(&sent["name"]).ok_or_else(|| {
            SendError::Refused("Google Chat accepted the message but returned no name for it".to_owned())
        })?;
        let mut message = to.clone();
        message.details["message"] = serde_json::json!(name);
        Ok(Sent { id: name, message })
    }

    pub(super) async fn replace_message(&self, message: &Address, text: &str) -> Result<(), SendError> {
        let name = message.details["message"].as_str().and_then(|name| resource_ids(name, &["spaces", "messages"]));
        let name = name.ok_or_else(|| {
            SendError::Refused("Google Chat returned no name for the message with the buttons".to_owned())
        })?;
        let query = Some(("updateMask", "text,cardsV2"));
        self.call(Method::PATCH, &name, query, &write::settled_message(text)).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, &str)>,
        body: &Value,
    ) -> Result<Value, SendError> {
        self.service_account()?;
        let base = base_url(self.api_base_url.as_ref(), BASE)?;
        let request = ApiCall::new(method, join(&base, &[&["v1"], path].concat())).query(query).json(body);
        self.token.call(&self.client, NAME, &self.clock, request, || self.fetch_token(), error_of).await
    }
}

fn error_of(answer: &ApiAnswer, token: &Secret) -> SendError {
    let error = &answer.body["error"];
    let detail = reason(&error["message"], [token]);
    let mut reasons = error["details"].as_array().into_iter().flatten().map(|detail| &detail["reason"]);
    match answer.status {
        StatusCode::UNAUTHORIZED => {
            SendError::Credentials("Google Chat rejected the token of channels.google_chat.service_account".to_owned())
        }
        StatusCode::FORBIDDEN
            if reasons.any(|reason| reason == "SERVICE_DISABLED" || reason == "ACCESS_TOKEN_SCOPE_INSUFFICIENT") =>
        {
            SendError::Credentials(
                "the Google Chat API is disabled for the project of channels.google_chat.service_account; enable it"
                    .to_owned(),
            )
        }
        // Google documents no error codes for a blocked app or a removed app, so the message text decides. Otherwise
        // the space counts as gone.
        StatusCode::FORBIDDEN if detail.to_ascii_lowercase().contains("block") => {
            SendError::Blocked("the user blocked the app in Google Chat".to_owned())
        }
        StatusCode::FORBIDDEN => SendError::Gone(format!("Google Chat denied the app access to the space{detail}")),
        StatusCode::NOT_FOUND => SendError::Gone("space or message not found in Google Chat".to_owned()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => {
            SendError::Later(format!("{NAME} returned {}", answer.status))
        }
        status => SendError::Refused(format!("Google Chat rejected the message with {status}{detail}")),
    }
}
