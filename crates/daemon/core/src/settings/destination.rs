//! What a secret goes to. Who may change a setting may not read a secret by leading it to himself: where what it goes
//! to changes, it must be entered again. Every part of the daemon that keeps a secret asks here.

use agentd_base::FieldProblem;
use serde_json::{Map, Value};

use super::overlay;
use crate::vault::{ENTER_AGAIN, server_of};

/// A write-only field of a section, and what it is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOnly {
    /// Its path in the section.
    pub path: &'static str,
    /// Fields of the section that say where it is sent. None: it never leaves the daemon, such as one that the requests
    /// of others are verified with.
    pub goes_to: &'static [Part],
}

/// A field that says where a secret is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Any other value is another place.
    Value(&'static str),
    /// A url: another server is another place, another path on it is not. `null`: the usual server.
    Server(&'static str),
    /// Whether the way there is protected: without it, that with this value, it is another place.
    Protection(&'static str, &'static str),
}

impl Part {
    /// The path of the field.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Value(field) | Self::Server(field) | Self::Protection(field, _) => field,
        }
    }

    fn leads_elsewhere(self, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
        let (before, after) = (overlay::find(before, self.field()), overlay::find(after, self.field()));
        match self {
            Self::Value(_) => before != after,
            Self::Server(_) => {
                let server = |value: Option<&Value>| value.and_then(Value::as_str).map(server_of);
                server(before) != server(after)
            }
            Self::Protection(_, unprotected) => {
                let is_open = |value: Option<&Value>| value.and_then(Value::as_str) == Some(unprotected);
                is_open(after) && !is_open(before)
            }
        }
    }
}

impl WriteOnly {
    /// One that is sent to what these fields say.
    #[must_use]
    pub const fn sent(path: &'static str, goes_to: &'static [Part]) -> Self {
        Self { path, goes_to }
    }

    /// One that never leaves the daemon.
    #[must_use]
    pub const fn kept(path: &'static str) -> Self {
        Self { path, goes_to: &[] }
    }

    /// Whether it would be sent elsewhere after a change. What has no value yet goes nowhere.
    pub(super) fn leads_elsewhere(&self, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
        let is_set = overlay::find(before, self.path).is_some_and(|state| state["set"] == true);
        is_set && self.goes_to.iter().any(|part| part.leads_elsewhere(before, after))
    }

    pub(super) fn problem(&self) -> FieldProblem {
        FieldProblem { field: self.path.to_owned(), message: ENTER_AGAIN.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_server_host_or_unprotected_way_is_another_place() {
        const PASSWORD: WriteOnly = WriteOnly::sent(
            "a.password",
            &[Part::Value("a.host"), Part::Server("a.url"), Part::Protection("a.tls", "none")],
        );
        let there = json!({"a": {"password": {"set": true}, "host": "x", "url": "https://x/y", "tls": "starttls"}});
        let leads_elsewhere = |before: &Value, field: &str, value: Value| {
            let mut after = before.clone();
            after["a"][field] = value;
            PASSWORD.leads_elsewhere(before.as_object().unwrap(), after.as_object().unwrap())
        };
        for (field, value) in [
            ("host", json!("y")),
            ("host", Value::Null),
            ("url", json!("http://x/y")),
            ("url", json!("https://x:8443/y")),
            ("url", json!("https://x.y/y")),
            ("url", Value::Null),
            ("tls", json!("none")),
        ] {
            assert!(leads_elsewhere(&there, field, value.clone()), "{field} {value}");
        }
        for (field, value) in
            [("url", json!("https://X:443/z")), ("tls", json!("implicit")), ("host", json!("x")), ("other", json!(1))]
        {
            assert!(!leads_elsewhere(&there, field, value.clone()), "{field} {value}");
        }
        let unset = json!({"a": {"password": null, "host": "x"}});
        assert!(!leads_elsewhere(&unset, "host", json!("y")), "there is nothing to lose");
    }
}
