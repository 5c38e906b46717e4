//! Service account and its access tokens
//! (<https://developers.google.com/identity/protocols/oauth2/service-account>).

use agentd_base::{Secret, Timestamp};
use serde_json::{Value, json};
use url::Url;

use crate::jwt::SigningKey;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/chat.bot";
pub(super) const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ASSERTION_SECONDS: i64 = 3600;

/// Contents of the key file.
#[derive(Debug)]
pub(super) struct ServiceAccount {
    pub(super) email: String,
    pub(super) token_url: Url,
    key: SigningKey,
}

impl ServiceAccount {
    /// Parses a key file. The error states the problem and contains nothing from the file.
    pub(super) fn read(file: &Secret) -> Result<Self, String> {
        let problem =
            |what: &str| format!("channels.google_chat.service_account is not a service account key file: {what}");
        let file: Value = serde_json::from_str(file.expose()).map_err(|_| problem("it is not JSON"))?;
        if file["type"] != "service_account" {
            return Err(problem("its type is not service_account"));
        }
        let text = |field: &str| file[field].as_str().filter(|text| !text.is_empty());
        let email = text("client_email").ok_or_else(|| problem("client_email is missing"))?;
        let token_url = Url::parse(text("token_uri").unwrap_or(TOKEN_URL)).ok();
        let token_url = token_url.filter(|url| url.scheme() == "https");
        let key = text("private_key").ok_or_else(|| problem("private_key is missing"))?;
        let key = SigningKey::from_pem(key, text("private_key_id").map(str::to_owned));
        Ok(Self {
            email: email.to_owned(),
            token_url: token_url.ok_or_else(|| problem("token_uri is not an https URL"))?,
            key: key.ok_or_else(|| problem("private_key is not a PEM-encoded RSA key in PKCS #8"))?,
        })
    }

    pub(super) fn assertion(&self, now: Timestamp) -> Option<String> {
        let issued_at = now.as_millis() / 1000;
        self.key.sign(&json!({
            "iss": self.email,
            "scope": SCOPE,
            // The audience of the key file, even if the request goes through a proxy.
            "aud": self.token_url.as_str(),
            "iat": issued_at,
            "exp": issued_at.saturating_add(ASSERTION_SECONDS),
        }))
    }
}
