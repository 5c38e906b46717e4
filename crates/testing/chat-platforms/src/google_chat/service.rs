//! Responses of the fake.

use std::collections::BTreeSet;

use agentd_base::Clock;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::api_description::{self, ApiDescription};
use crate::keys;
use crate::server::{Answer, Behaviour, Call, FakeFiles, Vendor};

pub(super) const EMAIL: &str = "agent@fake-project.iam.gserviceaccount.com";
pub(super) const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Maximum size of a whole message.
const MAX_MESSAGE_BYTES: usize = 32_000;
const REPLY: &str = "messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD";

#[derive(Debug)]
pub(super) struct Service {
    clock: Clock,
    pub(super) key_changes: Mutex<usize>,
    pub(super) key_fetches: Mutex<usize>,
    pub(super) tokens: Mutex<Vec<String>>,
    pub(super) tokens_given: Mutex<usize>,
    messages: Mutex<BTreeSet<String>>,
    pub(super) files: FakeFiles,
}

impl Service {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            key_changes: Mutex::default(),
            key_fetches: Mutex::default(),
            tokens: Mutex::default(),
            tokens_given: Mutex::default(),
            messages: Mutex::default(),
            files: FakeFiles::default(),
        }
    }

    fn keys(&self, as_certificates: bool) -> Answer {
        *self.key_fetches.lock() += 1;
        let key = keys::platform_key(*self.key_changes.lock());
        let of_set = json!({
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": key.id, "n": key.modulus, "e": key.exponent,
        });
        let certificates = json!({key.id.as_str(): key.certificate_pem});
        Answer::ok(if as_certificates { certificates } else { json!({"keys": [of_set]}) })
    }

    fn token(&self, call: &Call) -> Result<Answer, Answer> {
        let refuse = |code: &str| Answer::new(400, json!({"error": code, "error_description": "Bad Request"}));
        if call.field("grant_type").as_deref() != Some("urn:ietf:params:oauth:grant-type:jwt-bearer") {
            return Err(refuse("unsupported_grant_type"));
        }
        let assertion = call.field("assertion").ok_or_else(|| refuse("invalid_request"))?;
        let key = keys::service_account_key();
        let claims = key.verify(&assertion, self.clock.now()).ok_or_else(|| refuse("invalid_grant"))?;
        let issued_at = claims["iat"].as_i64().unwrap_or(i64::MIN);
        let lasts = claims["exp"].as_i64().unwrap_or_default().saturating_sub(issued_at);
        let is_valid = claims["iss"] == EMAIL
            && claims["aud"] == TOKEN_URI
            && (1..=3600).contains(&lasts)
            && issued_at <= self.clock.now().as_millis() / 1000;
        if !is_valid {
            return Err(refuse("invalid_grant"));
        }
        if claims["scope"] != "https://www.googleapis.com/auth/chat.bot" {
            return Err(refuse("invalid_scope"));
        }
        let mut given = self.tokens_given.lock();
        *given += 1;
        let token = format!("ya29.fake-{given}");
        self.tokens.lock().push(token.clone());
        Ok(Answer::ok(json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"})))
    }

    fn create(&self, call: &Call, space: &str) -> Result<Answer, Answer> {
        let body = &call.body;
        check_message(body, &["text", "cardsV2", "thread"]).map_err(invalid)?;
        let thread = &body["thread"]["name"];
        let is_of_space = |name: &str| name.starts_with(&format!("spaces/{space}/threads/"));
        if !thread.is_null() && !thread.as_str().is_some_and(is_of_space) {
            return Err(invalid("thread.name"));
        }
        if call.query != if thread.is_null() { "" } else { REPLY } {
            return Err(invalid("messageReplyOption"));
        }
        let mut messages = self.messages.lock();
        let name = format!("spaces/{space}/messages/sent.{}", messages.len() + 1);
        messages.insert(name.clone());
        Ok(Answer::ok(json!({"name": name, "text": body["text"], "space": {"name": format!("spaces/{space}")}})))
    }

    fn update(&self, call: &Call, name: &str) -> Result<Answer, Answer> {
        let body = &call.body;
        check_message(body, &["text", "cardsV2"]).map_err(invalid)?;
        let mask = form_urlencoded::parse(call.query.as_bytes()).find(|(field, _)| field == "updateMask");
        if mask.is_none_or(|(_, mask)| mask != "text,cardsV2") {
            return Err(invalid("updateMask"));
        }
        if !self.messages.lock().contains(name) {
            return Err(not_found());
        }
        Ok(Answer::ok(json!({"name": name, "text": body["text"]})))
    }
}

impl Vendor for Service {
    fn is_api_call(&self, call: &Call) -> bool {
        call.path().first() == Some(&"v1")
    }

    fn description(&self) -> Option<&'static ApiDescription> {
        Some(&api_description::GOOGLE_CHAT)
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => {
                error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.").retry_after(wait)
            }
            Behaviour::ServerError | Behaviour::Hang => error(500, "INTERNAL", "Internal error encountered."),
            Behaviour::Blocked | Behaviour::WindowClosed => {
                error(403, "PERMISSION_DENIED", "The user has blocked this Chat app.")
            }
            Behaviour::Gone => error(403, "PERMISSION_DENIED", "This Chat app is not a member of this space."),
            Behaviour::CredentialsRefused => unauthenticated(),
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        let segments = call.path();
        match (&call.method, segments.as_slice()) {
            (&Method::GET, ["certificates"]) => return Ok(self.keys(true)),
            (&Method::GET, ["keys"]) => return Ok(self.keys(false)),
            (&Method::POST, ["token"]) => return self.token(call),
            _ => {}
        }
        if !call.bearer().is_some_and(|token| self.tokens.lock().iter().any(|given| given == token)) {
            return Err(unauthenticated());
        }
        match (&call.method, segments.as_slice()) {
            (&Method::POST, ["v1", "spaces", space, "messages"]) => self.create(call, space),
            (&Method::GET, ["v1", "media", name @ ..]) if call.query == "alt=media" => {
                self.files.get(&name.join("/")).map(Answer::file).ok_or_else(not_found)
            }
            (&Method::PATCH, ["v1", "spaces", space, "messages", message]) => {
                self.update(call, &format!("spaces/{space}/messages/{message}"))
            }
            _ => Err(not_found()),
        }
    }
}

fn error(code: u16, status: &str, message: &str) -> Answer {
    Answer::new(code, json!({"error": {"code": code, "message": message, "status": status}}))
}

fn invalid(problem: &'static str) -> Answer {
    error(400, "INVALID_ARGUMENT", &format!("Invalid value: {problem}"))
}

fn unauthenticated() -> Answer {
    error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
}

fn not_found() -> Answer {
    error(404, "NOT_FOUND", "Requested entity was not found.")
}

fn check(condition: bool, problem: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(problem) }
}

fn check_message(message: &Value, fields: &[&str]) -> Result<(), &'static str> {
    let has_only =
        |object: &serde_json::Map<String, Value>| object.keys().all(|field| fields.contains(&field.as_str()));
    check(message.as_object().is_some_and(has_only), "unknown field")?;
    let text = message["text"].as_str().ok_or("text")?;
    let cards = message["cardsV2"].as_array().map(Vec::as_slice).unwrap_or_default();
    check(!text.trim().is_empty() || !cards.is_empty(), "message cannot be empty")?;
    check(message.to_string().len() <= MAX_MESSAGE_BYTES, "message is too long")?;
    check_markup(text)?;
    cards.iter().try_for_each(check_card)
}

fn check_card(card: &Value) -> Result<(), &'static str> {
    check(card["cardId"].is_string(), "cardId")?;
    let buttons = card["card"]["sections"][0]["widgets"][0]["buttonList"]["buttons"].as_array().ok_or("buttonList")?;
    check(!buttons.is_empty(), "the number of buttons")?;
    for button in buttons {
        let action = &button["onClick"]["action"];
        check(button["text"].as_str().is_some_and(|text| !text.is_empty()), "the text of a button")?;
        check(action["function"].as_str().is_some_and(|name| !name.is_empty()), "the function of a button")?;
        let parameters = action["parameters"].as_array().ok_or("the parameters of a button")?;
        let is_pair = |parameter: &Value| parameter["key"].is_string() && parameter["value"].is_string();
        check(parameters.iter().all(is_pair), "the parameters of a button")?;
    }
    Ok(())
}

/// Checks that blocks of code are closed and no user is mentioned.
///
/// # Errors
/// Returns the reason.
pub fn check_markup(text: &str) -> Result<(), &'static str> {
    check(text.matches("```").count().is_multiple_of(2), "a block of code is left open")?;
    check(!text.contains("<users/"), "a mention")
}
