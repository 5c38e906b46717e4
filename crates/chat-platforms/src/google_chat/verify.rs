//! Who sends a request (<https://developers.google.com/workspace/chat/verify-requests-from-chat>).

use agentd_base::Timestamp;
use http::Method;
use serde_json::Value;
use url::Url;

use super::{GoogleChat, NAME};
use crate::jwt;
use crate::keys::{KeyCache, KeyDocument};
use crate::webhook::{Rejection, WebhookRequest};

/// The service account by which Chat calls apps.
const CHAT: &str = "chat@system.gserviceaccount.com";
const CHAT_CERTIFICATES: &str =
    "https://www.googleapis.com/service_accounts/v1/metadata/x509/chat@system.gserviceaccount.com";
const GOOGLE_KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";

/// What tokens are made out to; each kind is signed by other keys.
#[derive(Debug)]
pub(super) enum Audience {
    /// The number of the project: tokens that Chat signs itself.
    Project(String),
    /// The address that is called: identity tokens of Google for Chat's account.
    Address(String),
}

impl Audience {
    pub(super) fn new(audience: String) -> Self {
        let is_number = audience.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Self::Project(audience) } else { Self::Address(audience) }
    }

    pub(super) fn keys(&self, url: Option<Url>) -> KeyCache {
        let usual = match self {
            Self::Project(_) => CHAT_CERTIFICATES,
            Self::Address(_) => GOOGLE_KEYS,
        };
        KeyCache::new(NAME, KeyDocument::Keys, url, usual)
    }

    fn verify(&self, claims: &Value) -> Result<(), Rejection> {
        let (audience, is_of_chat) = match self {
            Self::Project(number) => (number, claims["iss"] == CHAT),
            Self::Address(address) => {
                let is_of_google =
                    claims["iss"] == "https://accounts.google.com" || claims["iss"] == "accounts.google.com";
                (address, is_of_google && claims["email"] == CHAT && claims["email_verified"] == true)
            }
        };
        if !is_of_chat {
            return Err(Rejection::Unverified("the token is not of Google Chat"));
        }
        if claims["aud"] != audience.as_str() {
            return Err(Rejection::Unverified("the token is made out to another audience"));
        }
        Ok(())
    }
}

impl GoogleChat {
    pub(super) async fn verify(&self, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
        let (audience, keys) = self.audience.as_ref().ok_or(Rejection::NotSetUp)?;
        if request.method != Method::POST {
            return Err(Rejection::Unverified("only POST is taken"));
        }
        let token = jwt::bearer(request)?;
        let key = keys.find(&self.client, &jwt::key_id(token)?, now).await?;
        audience.verify(&jwt::verify(token, &key.decoding, now)?)
    }
}
