//! Responses of the fake.

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use super::{APP_ID, PASSWORD, TENANT};
use crate::api_description::{self, ApiDescription};
use crate::keys;
use crate::server::{Answer, Behaviour, Call, FakeFiles, Vendor};

/// Maximum size of a whole activity in UTF-16.
const MAX_ACTIVITY_BYTES: usize = 80 * 1024;

pub(super) const KEYS_PATH: &str = "/v1/.well-known/keys";

#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) named_keys: Mutex<Option<Url>>,
    pub(super) key_changes: Mutex<usize>,
    pub(super) refuses_keys: Mutex<bool>,
    pub(super) key_fetches: Mutex<usize>,
    pub(super) tokens: Mutex<Vec<String>>,
    pub(super) tokens_given: Mutex<usize>,
    messages: Mutex<usize>,
    pub(super) files: FakeFiles,
}

impl Service {
    fn keys(&self) -> Result<Answer, Answer> {
        if *self.refuses_keys.lock() {
            return Err(Answer::new(503, json!({})));
        }
        *self.key_fetches.lock() += 1;
        let key = keys::platform_key(*self.key_changes.lock());
        Ok(Answer::ok(json!({"keys": [{
                "kty": "RSA", "use": "sig", "kid": key.id, "x5t": key.id, "n": key.modulus, "e": key.exponent,
                "endorsements": ["msteams"],
        }]})))
    }

    fn token(&self, call: &Call, tenant: &str) -> Result<Answer, Answer> {
        let refuse =
            |status: u16, code: &str| Answer::new(status, json!({"error": code, "error_description": PASSWORD}));
        if tenant != TENANT && tenant != "botframework.com" {
            return Err(refuse(400, "invalid_request"));
        }
        let field = |name: &str| call.field(name).unwrap_or_default();
        if field("grant_type") != "client_credentials" {
            return Err(refuse(400, "unsupported_grant_type"));
        }
        if field("scope") != "https://api.botframework.com/.default" {
            return Err(refuse(400, "invalid_scope"));
        }
        if field("client_id") != APP_ID || field("client_secret") != PASSWORD {
            return Err(refuse(401, "invalid_client"));
        }
        let mut given = self.tokens_given.lock();
        *given += 1;
        let token = format!("fake-teams-token-{given}");
        self.tokens.lock().push(token.clone());
        Ok(Answer::ok(json!({"token_type": "Bearer", "expires_in": 3600, "access_token": token})))
    }

    fn has_token(&self, call: &Call) -> bool {
        call.bearer().is_some_and(|token| self.tokens.lock().iter().any(|given| given == token))
    }

    fn file(&self, id: &str) -> Result<Answer, Answer> {
        self.files.get(id).map(Answer::file).ok_or_else(|| Answer::new(404, Value::Null))
    }

    fn accept_activity(&self, call: &Call, conversation: &str, activity_id: Option<&str>) -> Result<Answer, Answer> {
        if !self.has_token(call) {
            return Err(refused());
        }
        if !["a:", "19:", "29:"].iter().any(|prefix| conversation.starts_with(prefix)) {
            return Err(gone());
        }
        let activity = &call.body;
        if activity.to_string().encode_utf16().count() * 2 > MAX_ACTIVITY_BYTES {
            return Err(error(413, "MessageSizeTooBig", "Message size too large"));
        }
        check_activity(activity).map_err(|problem| error(400, "BadSyntax", problem))?;
        if call.method == Method::PUT {
            let number = activity_id.and_then(|id| id.strip_prefix("sent-")).and_then(|number| number.parse().ok());
            let is_known = number.is_some_and(|number: usize| (1..=*self.messages.lock()).contains(&number));
            if !is_known {
                return Err(error(404, "ActivityNotFoundInConversation", "Activity not found"));
            }
            return Ok(Answer::ok(json!({"id": activity_id})));
        }
        let mut count = self.messages.lock();
        *count += 1;
        Ok(Answer::new(201, json!({"id": format!("sent-{count}")})))
    }
}

impl Vendor for Service {
    fn is_api_call(&self, call: &Call) -> bool {
        call.path().first() == Some(&"v3")
    }

    fn description(&self) -> Option<&'static ApiDescription> {
        Some(&api_description::TEAMS)
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => error(429, "TooManyRequests", "Too many requests").retry_after(wait),
            Behaviour::ServerError | Behaviour::Hang => error(500, "ServiceError", "Internal error"),
            Behaviour::Blocked | Behaviour::WindowClosed => {
                error(403, "MessageWritesBlocked", "Message writes are blocked")
            }
            Behaviour::Gone => gone(),
            Behaviour::CredentialsRefused => refused(),
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        match (&call.method, call.path().as_slice()) {
            (&Method::GET, ["v1", ".well-known", "openidconfiguration"]) => {
                let named = self.named_keys.lock().as_ref().map(Url::to_string);
                Ok(Answer::ok(json!({"issuer": "https://api.botframework.com", "jwks_uri": named})))
            }
            (&Method::GET, ["v1", ".well-known", "keys"]) => self.keys(),
            (&Method::POST, [tenant, "oauth2", "v2.0", "token"]) => self.token(call, tenant),
            (&Method::GET, ["v3", "attachments", _, "views", "original"]) if !self.has_token(call) => Err(refused()),
            (&Method::GET, ["v3", "attachments", id, "views", "original"]) => self.file(id),
            (&Method::GET, ["personal", id]) if call.query == "tempauth=t0ken" => self.file(id),
            (&Method::POST, ["v3", "conversations", conversation, "activities"]) => {
                self.accept_activity(call, conversation, None)
            }
            (&Method::POST | &Method::PUT, ["v3", "conversations", conversation, "activities", activity]) => {
                self.accept_activity(call, conversation, Some(activity))
            }
            _ => Err(Answer::new(404, json!({}))),
        }
    }
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    Answer::new(status, json!({"error": {"code": code, "message": message}}))
}

fn refused() -> Answer {
    Answer::new(401, json!({"message": "Authorization has been denied for this request."}))
}

fn gone() -> Answer {
    error(404, "ConversationNotFound", "Conversation not found.")
}

fn check(condition: bool, problem: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(problem) }
}

fn has_only(value: &Value, fields: &[&str]) -> bool {
    value.as_object().is_some_and(|object| object.keys().all(|field| fields.contains(&field.as_str())))
}

fn check_activity(activity: &Value) -> Result<(), &'static str> {
    if activity["type"] == "typing" {
        return check(has_only(activity, &["type"]), "unknown field");
    }
    check(has_only(activity, &["type", "textFormat", "text", "attachments"]), "unknown field")?;
    check(activity["type"] == "message", "type")?;
    check(activity["textFormat"] == "markdown", "textFormat")?;
    let text = activity["text"].as_str().ok_or("text")?;
    check_markdown(text)?;
    match activity["attachments"].as_array() {
        Some(attachments) => attachments.iter().try_for_each(check_card),
        None => check(activity["attachments"].is_null() && !text.trim().is_empty(), "text"),
    }
}

fn check_card(attachment: &Value) -> Result<(), &'static str> {
    let card = &attachment["content"];
    check(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", "contentType")?;
    check(card["type"] == "AdaptiveCard" && card["version"] == "1.4", "the type or version of a card")?;
    check(card["body"].is_array(), "the body of a card")?;
    let actions = card["actions"].as_array().ok_or("the actions of a card")?;
    check((1..=6).contains(&actions.len()), "the number of actions")?;
    for action in actions {
        check(action["type"] == "Action.Submit" && action["data"].is_object(), "the type or data of an action")?;
        check(action["title"].as_str().is_some_and(|title| !title.is_empty()), "the title of an action")?;
        let style = action["style"].as_str().unwrap_or("default");
        check(["default", "positive", "destructive"].contains(&style), "the style of an action")?;
    }
    Ok(())
}

/// Checks that blocks of code are closed, and that there is no HTML outside of code.
///
/// # Errors
/// Returns the reason.
pub fn check_markdown(text: &str) -> Result<(), &'static str> {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '`', '<']) {
        let (_, found) = rest.split_at(at);
        if found.starts_with('<') {
            return Err("HTML");
        }
        if found.starts_with('\\') {
            rest = found.char_indices().nth(2).and_then(|(at, _)| found.get(at..)).unwrap_or_default();
            continue;
        }
        let after = found.trim_start_matches('`');
        let count = found.len() - after.len();
        rest = match end_of_code(after, count) {
            Some(rest) => rest,
            None if count >= 3 => return Err("a block of code is left open"),
            None => after,
        };
    }
    Ok(())
}

/// Returns the text after the next run of `count` backticks.
fn end_of_code(text: &str, count: usize) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (_, found) = rest.split_at(at);
        rest = found.trim_start_matches('`');
        if found.len() - rest.len() == count {
            return Some(rest);
        }
    }
    None
}
