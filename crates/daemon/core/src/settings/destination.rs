//! Destinations of secrets in settings. Changing a destination must not allow a client to obtain a stored secret by
//! sending it to its own server, so the secret must be entered again.

use agentd_base::FieldProblem;
use serde_json::{Map, Value};

use super::overlay;
use crate::vault::{ENTER_AGAIN, server_origin};

/// Write-only field of a section and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOnly {
    /// Path in the section.
    pub path: &'static str,
    /// Fields of the section that determine the destination. Empty if the secret never leaves the daemon, such as one
    /// that verifies incoming requests.
    pub destination: &'static [DestinationField],
}

/// Field that determines the destination of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationField {
    /// Any change of the value changes the destination.
    Value(&'static str),
    /// URL: a different origin changes the destination, a different path does not. `null` is the default server.
    Server(&'static str),
    /// Encryption of the connection: changing it to this unprotected value changes the destination.
    Protection(&'static str, &'static str),
}

impl DestinationField {
    /// Returns the path of the field.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Value(field) | Self::Server(field) | Self::Protection(field, _) => field,
        }
    }

    fn changes_destination(self, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
        let (before, after) = (overlay::find(before, self.field()), overlay::find(after, self.field()));
        match self {
            Self::Value(_) => before != after,
            Self::Server(_) => {
                let server = |value: Option<&Value>| value.and_then(Value::as_str).map(server_origin);
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
    /// Declares a secret that is sent to the destination in these fields.
    #[must_use]
    pub const fn sent_to(path: &'static str, destination: &'static [DestinationField]) -> Self {
        Self { path, destination }
    }

    /// Declares a secret that never leaves the daemon.
    #[must_use]
    pub const fn internal(path: &'static str) -> Self {
        Self { path, destination: &[] }
    }

    /// Whether a change alters the destination of a stored value.
    pub(super) fn changes_destination(&self, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
        let is_set = overlay::find(before, self.path).is_some_and(|state| state["set"] == true);
        is_set && self.destination.iter().any(|part| part.changes_destination(before, after))
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
    fn destination_changes_with_server_host_or_lost_encryption() {
        const PASSWORD: WriteOnly = WriteOnly::sent_to(
            "a.password",
            &[
                DestinationField::Value("a.host"),
                DestinationField::Server("a.url"),
                DestinationField::Protection("a.tls", "none"),
            ],
        );
        let there = json!({"a": {"password": {"set": true}, "host": "x", "url": "https://x/y", "tls": "starttls"}});
        let changes_destination = |before: &Value, field: &str, value: Value| {
            let mut after = before.clone();
            after["a"][field] = value;
            PASSWORD.changes_destination(before.as_object().unwrap(), after.as_object().unwrap())
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
            assert!(changes_destination(&there, field, value.clone()), "{field} {value}");
        }
        for (field, value) in
            [("url", json!("https://X:443/z")), ("tls", json!("implicit")), ("host", json!("x")), ("other", json!(1))]
        {
            assert!(!changes_destination(&there, field, value.clone()), "{field} {value}");
        }
        let unset = json!({"a": {"password": null, "host": "x"}});
        assert!(!changes_destination(&unset, "host", json!("y")), "no value is stored");
    }
}
