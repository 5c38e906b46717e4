//! Actions of hooks and their `config`. A config is validated when it is saved, and stored in its displayed form: with
//! all defaults and without its secret.

mod fields;

use fields::Fields;

use std::time::Duration;

use agentd_base::{Backoff, Problems};
use agentd_engine::engine::{check_tools, distinct_tools};
use agentd_engine::tools::carries_credential;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use url::{Origin, Url};

use super::template::Template;
use super::{HookId, stored_enum};
use crate::notify::Target;

/// Config member with the write-only signing secret.
pub(crate) const SECRET: &str = "secret";
const MAX_CONFIG_BYTES: usize = 64 * 1024;
const MAX_URL: usize = 4096;
const MAX_HEADERS: usize = 50;
const MAX_HEADER_BYTES: usize = 8192;
const MAX_DELAY_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
const DEFAULT_PYTHON_SECONDS: u64 = 30;
const MAX_PYTHON_SECONDS: u64 = 300;
const MAX_TOPICS: usize = 32;

/// Relative jitter of each retry delay, in both directions.
const JITTER: f64 = 0.2;

stored_enum!(
    /// Type of a hook's action: `http` (sends the event to a URL), `python` (runs code in the sandbox) or `builtin`
    /// (performs a built-in action).
    HookType, Builtin, {
        /// Sends the event to a URL.
        Http = "http",
        /// Runs Python code in the sandbox.
        Python = "python",
        /// Performs a built-in action.
        Builtin = "builtin",
    }
);

/// Action of a hook.
#[derive(Debug, Clone)]
pub enum Action {
    Http(HttpAction),
    Python(PythonAction),
    Builtin(BuiltinAction),
    /// The stored config is invalid, which only a restored archive can cause.
    Broken(String),
}

impl Action {
    /// Returns the origin of the server that receives the events.
    pub(super) fn server(&self) -> Option<Origin> {
        match self {
            Self::Http(http) => Some(http.url.origin()),
            _ => None,
        }
    }
}

/// Sends the event to a URL.
#[derive(Debug, Clone)]
pub struct HttpAction {
    /// Target URL without credentials.
    pub url: Url,
    pub headers: HeaderMap,
    pub queued: bool,
    pub backoff: Backoff,
}

/// Runs Python code in the sandbox.
#[derive(Debug, Clone)]
pub struct PythonAction {
    pub timeout: Duration,
}

#[derive(Debug, Clone)]
pub enum BuiltinAction {
    /// Sends a message. The URL of `target` holds no credentials.
    SendToChannel {
        target: Target,
        template: Template,
        subject: Option<Template>,
    },
    StoreMemory {
        template: Template,
        agent: Option<String>,
        importance: Option<f64>,
        topics: Vec<String>,
    },
    StartAgent {
        agent: String,
        template: Template,
        /// Permitted tools in addition to the read-only ones.
        tools: Vec<String>,
    },
    CallHook {
        hook_id: HookId,
    },
}

/// Parses a config. Returns its stored form and the action, or `None` after adding all problems under `config.`.
pub(crate) fn parse(
    kind: HookType,
    given: &Map<String, Value>,
    problems: &mut Problems,
) -> Option<(Map<String, Value>, Action)> {
    let mut fields = Fields { given, problems, kept: Map::new() };
    if Value::Object(given.clone()).to_string().len() > MAX_CONFIG_BYTES {
        fields.problems.add("config", format!("must have at most {MAX_CONFIG_BYTES} bytes"));
        return None;
    }
    let action = match kind {
        HookType::Http => http(&mut fields).map(Action::Http),
        HookType::Python => python(&mut fields).map(Action::Python),
        HookType::Builtin => builtin(&mut fields).map(Action::Builtin),
    }?;
    Some((fields.kept, action))
}

/// Parses a stored config. An invalid one becomes [`Action::Broken`].
#[must_use]
pub(crate) fn stored_action(hook_type: HookType, stored: &Map<String, Value>) -> Action {
    let mut problems = Problems::new();
    match parse(hook_type, stored, &mut problems) {
        Some((_, action)) => action,
        None => {
            let found = problems.into_result().err().unwrap_or_default();
            let found: Vec<String> =
                found.into_iter().map(|found| format!("{} {}", found.field, found.message)).collect();
            Action::Broken(format!("the config is not valid: {}", found.join("; ")))
        }
    }
}

fn http(fields: &mut Fields<'_>) -> Option<HttpAction> {
    let url = url(fields);
    let headers = headers(fields);
    let queued = fields.boolean("queued", false);
    let base = fields.number("retry_delay_s", 10.0, 0.0, MAX_DELAY_SECONDS);
    let multiplier = fields.number("retry_multiplier", 2.0, 1.0, 100.0);
    let cap = fields.number("max_delay_s", 3600.0, 0.0, MAX_DELAY_SECONDS);
    let backoff = Backoff {
        base: Duration::from_secs_f64(base?),
        multiplier: multiplier?,
        cap: Duration::from_secs_f64(cap?),
        jitter: JITTER,
    };
    Some(HttpAction { url: url?, headers: headers?, queued: queued?, backoff })
}

fn url(fields: &mut Fields<'_>) -> Option<Url> {
    let text = fields.required_text("url")?;
    let problem = if text.len() > MAX_URL {
        "is too long"
    } else if text.contains("{{") {
        "must not contain placeholders, because an event must not choose the receiver"
    } else {
        match Url::parse(text.trim()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => return Some(url),
            _ => "must be an http or https url",
        }
    };
    fields.reject("url", problem);
    None
}

fn headers(fields: &mut Fields<'_>) -> Option<HeaderMap> {
    let given = match fields.value("headers").unwrap_or_else(|| json!({})) {
        Value::Object(given) if given.len() <= MAX_HEADERS => given,
        _ => {
            fields.reject("headers", format!("must be an object with at most {MAX_HEADERS} headers"));
            return None;
        }
    };
    let mut headers = HeaderMap::new();
    let mut is_good = true;
    for (name, value) in given.iter().filter(|(name, value)| !is_sealed(name, value)) {
        match header(name, value) {
            Ok((name, value)) => {
                headers.append(name, value);
            }
            Err(problem) => {
                fields.reject(&format!("headers.{}", name.chars().take(64).collect::<String>()), problem);
                is_good = false;
            }
        }
    }
    fields.store("headers", given);
    is_good.then_some(headers)
}

/// Whether the value of a header is stored in the vault.
pub(super) fn is_sealed(name: &str, value: &Value) -> bool {
    carries_credential(name) && value.get("set").is_some_and(Value::is_boolean)
}

fn header(name: &str, value: &Value) -> Result<(HeaderName, HeaderValue), &'static str> {
    let value = value.as_str().ok_or("must be a string")?;
    let name: HeaderName = name.parse().map_err(|_| "is not a valid header name")?;
    if is_reserved_header(&name) {
        return Err("is set by the daemon and cannot be overridden");
    }
    if value.contains("{{") {
        return Err("must not contain placeholders");
    }
    let value = HeaderValue::from_str(value).ok().filter(|value| value.len() <= MAX_HEADER_BYTES);
    Ok((name, value.ok_or("is not a valid header value, or is longer than 8192 bytes")?))
}

/// Whether the daemon sets the header itself: connection, body and sender identification headers.
fn is_reserved_header(name: &HeaderName) -> bool {
    const RESERVED: [&str; 13] = [
        "host",
        "content-length",
        "connection",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.as_str();
    RESERVED.contains(&name) || name.starts_with("x-svc-") || name.starts_with("webhook-")
}

/// Parses a whole number; `5.0` is accepted.
fn whole_number(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..=1e9).contains(float));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and bounded on both sides")]
    value.as_u64().or_else(|| float().map(|float| float as u64))
}

/// Parses the config of a Python hook. All members are passed to the code.
fn python(fields: &mut Fields<'_>) -> Option<PythonAction> {
    fields.kept = fields.given.clone();
    fields.kept.remove(SECRET);
    let seconds = match fields.value("timeout_seconds") {
        None => Some(DEFAULT_PYTHON_SECONDS),
        Some(value) => whole_number(&value).filter(|seconds| (1..=MAX_PYTHON_SECONDS).contains(seconds)),
    };
    match seconds {
        Some(seconds) => {
            fields.store("timeout_seconds", seconds);
            Some(PythonAction { timeout: Duration::from_secs(seconds) })
        }
        None => {
            fields.reject("timeout_seconds", format!("must be a whole number from 1 to {MAX_PYTHON_SECONDS}"));
            None
        }
    }
}

fn builtin(fields: &mut Fields<'_>) -> Option<BuiltinAction> {
    let named = fields.value("action");
    let action = match &named {
        Some(Value::String(action)) => action.clone(),
        None if fields.value("channel").is_some() => "send_to_channel".to_owned(),
        _ => String::new(),
    };
    fields.store("action", action.clone());
    match action.as_str() {
        "send_to_channel" => {
            let channel = fields.required_text("channel");
            let template = fields.template("template");
            let subject = match fields.value("subject") {
                None => Some(None),
                Some(_) => fields.template("subject").map(Some),
            };
            let target = channel?.parse::<Target>().map_err(|error| fields.reject("channel", error.to_string())).ok();
            Some(BuiltinAction::SendToChannel { target: target?, template: template?, subject: subject? })
        }
        "store_memory" => {
            let template = fields.template("template");
            let agent = fields.text("agent");
            let importance = match fields.value("importance") {
                None => Some(None),
                Some(_) => fields.number("importance", 0.5, 0.0, 1.0).map(Some),
            };
            let topics = topics(fields);
            Some(BuiltinAction::StoreMemory { template: template?, agent, importance: importance?, topics: topics? })
        }
        "start_agent" => {
            let agent = fields.required_text("agent");
            let template = fields.template("template");
            let tools = tools(fields);
            Some(BuiltinAction::StartAgent { agent: agent?, template: template?, tools: tools? })
        }
        "call_hook" => {
            let hook_id = fields.required_text("hook_id")?;
            Some(BuiltinAction::CallHook { hook_id: HookId::from(hook_id) })
        }
        _ => {
            fields.reject("action", "must be send_to_channel, store_memory, start_agent or call_hook");
            None
        }
    }
}

fn topics(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let Some(given) = fields.value("topics") else { return Some(Vec::new()) };
    match texts(&given).filter(|topics| topics.len() <= MAX_TOPICS) {
        Some(topics) => {
            fields.store("topics", topics.clone());
            Some(topics)
        }
        None => {
            fields.reject("topics", format!("must be a list of at most {MAX_TOPICS} strings"));
            None
        }
    }
}

/// Parses tool names by the rules of inbound webhooks.
fn tools(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let Some(named) = texts(&fields.value("tools").unwrap_or_else(|| json!([]))) else {
        fields.reject("tools", "must be a list of tool names");
        return None;
    };
    let mut problems = Problems::new();
    check_tools("tools", &named, &mut problems);
    if let Err(problems) = problems.into_result() {
        for problem in problems {
            fields.reject(&problem.field, problem.message);
        }
        return None;
    }
    let tools = distinct_tools(&named);
    fields.store("tools", tools.clone());
    Some(tools)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(kind: HookType, config: Value) -> Result<Map<String, Value>, Vec<String>> {
        let mut problems = Problems::new();
        let found = parse(kind, config.as_object().unwrap(), &mut problems);
        match problems.into_result() {
            Ok(()) => Ok(found.unwrap().0),
            Err(problems) => {
                assert!(found.is_none());
                Err(problems.into_iter().map(|problem| problem.field).collect())
            }
        }
    }

    #[test]
    fn stored_config_includes_defaults_and_omits_the_secret() {
        let kept = parsed(HookType::Http, json!({"url": "https://x.example/a", "secret": "s"})).unwrap();
        let expected = json!({
            "url": "https://x.example/a", "headers": {}, "queued": false, "retry_delay_s": 10,
            "retry_multiplier": 2, "max_delay_s": 3600,
        });
        assert_eq!(Value::Object(kept.clone()), expected);
        assert_eq!(parsed(HookType::Http, Value::Object(kept.clone())), Ok(kept));
        let python = parsed(HookType::Python, json!({"limit": 5, "secret": "s"})).unwrap();
        assert_eq!(Value::Object(python), json!({"limit": 5, "timeout_seconds": 30}));
        let builtin = parsed(HookType::Builtin, json!({"channel": "slack:#x", "template": "{{data.error}}"})).unwrap();
        assert_eq!(builtin["action"], "send_to_channel");
    }

    #[test]
    fn every_invalid_field_is_reported() {
        let bad = json!({
            "url": "https://{{data.host}}/", "headers": {"Host": "x", "X-Svc-Event": "y", "ok": 1, "b c": "d"}, "queued": "yes",
            "retry_delay_s": -1, "retry_multiplier": 0.5, "max_delay_s": "long",
        });
        let mut fields = parsed(HookType::Http, bad).unwrap_err();
        fields.sort();
        let expected = [
            "config.headers.Host",
            "config.headers.X-Svc-Event",
            "config.headers.b c",
            "config.headers.ok",
            "config.max_delay_s",
            "config.queued",
            "config.retry_delay_s",
            "config.retry_multiplier",
            "config.url",
        ];
        assert_eq!(fields, expected);
        assert_eq!(parsed(HookType::Http, json!({})).unwrap_err(), ["config.url"]);
        assert_eq!(parsed(HookType::Http, json!({"url": "ftp://x"})).unwrap_err(), ["config.url"]);
        assert_eq!(parsed(HookType::Python, json!({"timeout_seconds": 0})).unwrap_err(), ["config.timeout_seconds"]);
        assert_eq!(parsed(HookType::Builtin, json!({})).unwrap_err(), ["config.action"]);
        let fields = parsed(HookType::Builtin, json!({"channel": "x", "template": "{{"})).unwrap_err();
        assert_eq!(fields, ["config.template", "config.channel"]);
        let memory = json!({"action": "store_memory", "template": "x", "importance": 2, "topics": [1]});
        assert_eq!(parsed(HookType::Builtin, memory).unwrap_err(), ["config.importance", "config.topics"]);
        assert_eq!(parsed(HookType::Builtin, json!({"action": "call_hook"})).unwrap_err(), ["config.hook_id"]);
    }
}
