//! Bot Connector calls and their access token.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::GuardedClient;
use http::{Method, StatusCode};
use serde_json::Value;
use url::Url;

use super::client::{NAME, Teams};
use super::write::{self, is_segment};
use crate::access_token::{read_token, refusal};
use crate::api::{ApiAnswer, ApiCall, base_url, call, join};
use crate::incoming_text::{id, reason};
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};

const LOGIN: &str = "https://login.microsoftonline.com";
/// Login tenant of multi-tenant bots.
const ANY_TENANT: &str = "botframework.com";
const SCOPE: &str = "https://api.botframework.com/.default";
/// Service URL of conversations without an incoming message.
const SERVICE: &str = "https://smba.trafficmanager.net/teams/";

impl Teams {
    pub(super) async fn send_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        let activity = write::activity(&message.text, message.is_plain, &message.buttons);
        let body = self.call(Method::POST, to, to.thread.as_deref(), &activity).await?;
        // Without an ID the message was sent but cannot be edited.
        let id = id(&body["id"]);
        let message = Address { thread: id.clone(), ..to.clone() };
        Ok(Sent { id: id.unwrap_or_default(), message })
    }

    pub(super) async fn replace_message(&self, message: &Address, text: &str) -> Result<(), SendError> {
        let id = message.thread.as_deref();
        let id =
            id.ok_or_else(|| SendError::Refused("Teams returned no id for the message with the buttons".to_owned()))?;
        self.call(Method::PUT, message, Some(id), &write::activity(text, false, &[])).await.map(drop)
    }

    pub(super) async fn send_typing(&self, to: &Address) -> Result<(), SendError> {
        self.call(Method::POST, to, None, &write::typing()).await.map(drop)
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        // A cached token would not reveal credentials that have changed since.
        let (app_id, _) = self.credentials()?;
        self.fetch_token().await?;
        Ok(Account { id: app_id.to_owned(), name: String::new(), webhook_url: None, last_error: None })
    }

    async fn call(
        &self,
        method: Method,
        to: &Address,
        activity_id: Option<&str>,
        activity: &Value,
    ) -> Result<Value, SendError> {
        self.credentials()?;
        let (client, url) = self.activities(to, activity_id)?;
        let request = ApiCall::new(method, url).json(activity);
        self.token.call(client, NAME, &self.clock, request, || self.fetch_token(), error_of).await
    }

    /// Returns the activities URL of a conversation and the client for it.
    fn activities(&self, to: &Address, activity_id: Option<&str>) -> Result<(&GuardedClient, Url), SendError> {
        if !is_segment(&to.channel) || activity_id.is_some_and(|id| !is_segment(id)) {
            return Err(SendError::Refused("invalid Teams conversation or message id".to_owned()));
        }
        let (client, base) = match &self.config.api_base_url {
            Some(base) => (&self.client, base.clone()),
            None => {
                let service = to.details["service_url"].as_str().unwrap_or(SERVICE);
                let url = Url::parse(service).ok().filter(|url| url.scheme() == "https");
                let refused = || SendError::Refused("the service URL of the conversation is not https".to_owned());
                (&self.replies, url.ok_or_else(refused)?)
            }
        };
        let path = ["v3", "conversations", &to.channel, "activities"];
        Ok((client, join(&base, &[&path[..], activity_id.as_slice()].concat())))
    }

    pub(super) fn credentials(&self) -> Result<(&str, &Secret), SendError> {
        let app_id = self
            .app_id()
            .ok_or_else(|| SendError::NotSetUp("set channels.teams.app_id to send messages".to_owned()))?;
        let password = self.config.app_password.as_ref().filter(|password| !password.is_empty());
        Ok((
            app_id,
            password
                .ok_or_else(|| SendError::NotSetUp("set channels.teams.app_password to send messages".to_owned()))?,
        ))
    }

    pub(super) async fn fetch_token(&self) -> Result<(Secret, Duration), SendError> {
        let (app_id, password) = self.credentials()?;
        let base = base_url(self.config.login_base_url.as_ref(), LOGIN)?;
        let tenant = self.config.tenant_id.as_deref().unwrap_or(ANY_TENANT);
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", app_id),
            ("client_secret", password.expose()),
            ("scope", SCOPE),
        ];
        let request = ApiCall::new(Method::POST, join(&base, &[tenant, "oauth2", "v2.0", "token"])).form(&fields);
        let answer = call(&self.client, "the login service of Teams", request).await?;
        let token = if answer.status.is_success() { read_token(&answer.body) } else { None };
        token.ok_or_else(|| {
            let code = refusal(&answer.body);
            SendError::Credentials(format!(
                "Microsoft issued no token{code}; check channels.teams.app_id, app_password and tenant_id"
            ))
        })
    }
}

fn error_of(answer: &ApiAnswer, token: &Secret) -> SendError {
    let error = &answer.body["error"];
    let detail = reason(&error["message"], [token]);
    match (answer.status, error["code"].as_str().unwrap_or_default()) {
        (StatusCode::UNAUTHORIZED, _) => {
            SendError::Credentials("Teams rejected the token issued for channels.teams.app_id".to_owned())
        }
        (_, "BotNotInConversationRoster" | "MessageWritesBlocked") => {
            SendError::Blocked("the bot was removed from the conversation or blocked".to_owned())
        }
        (StatusCode::FORBIDDEN, _) => {
            SendError::Blocked(format!("Teams denied the bot access to the conversation{detail}"))
        }
        (StatusCode::NOT_FOUND, _) => SendError::Gone("conversation or message not found in Teams".to_owned()),
        (StatusCode::PAYLOAD_TOO_LARGE, _) | (_, "MessageSizeTooBig") => {
            SendError::Refused("the message is too long for Teams".to_owned())
        }
        (StatusCode::REQUEST_TIMEOUT | StatusCode::PRECONDITION_FAILED, _) => {
            SendError::Later(format!("{NAME} returned {}", answer.status))
        }
        (status, _) => SendError::Refused(format!("Teams rejected the message with {status}{detail}")),
    }
}
