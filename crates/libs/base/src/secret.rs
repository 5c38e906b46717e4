//! Secrets: no `Display`, no `Serialize`, and a `Debug` that reveals nothing.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

/// Key, token or password. Its memory is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// Returns the plain text. Every call needs a review.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        sha256(self.expose().as_bytes())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl utoipa::PartialSchema for Secret {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::Password)))
            .description(Some("Key, token or password; write-only"))
            .write_only(true)
            .into()
    }
}

impl utoipa::ToSchema for Secret {
    fn name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }
}

/// State of a write-only field: whether it is set. The value is never returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SecretState {
    /// Whether a value is stored.
    pub set: bool,
}

/// Update of a write-only field: a new value, or the `{"set": …}` object that a read returned, which keeps the value.
// Wrap in [`crate::Patch`] so that `null` clears it.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum SecretUpdate {
    New(Secret),
    Shown(SecretState),
}

#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_secret() {
        let secret = Secret::new("svc_0123456789".to_owned());
        assert!(!format!("{secret:?} {:?}", SecretUpdate::New(secret.clone())).contains("0123"));
    }
}
