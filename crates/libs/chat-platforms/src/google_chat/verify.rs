//! Verification of requests (<https://developers.google.com/workspace/chat/verify-requests-from-chat>).
//!
//! A Workspace add-on is called by a service account of its own project, with identity tokens that Google signs for the
//! called URL. The account name contains the project number, so add-ons of other projects are rejected.

use serde_json::Value;
use url::Url;

use crate::keys::{KeyCache, KeyDocument};
use crate::webhook::Rejection;

pub(super) const NAME: &str = "Google Chat";
/// Service account that Chat uses to call apps.
const CHAT_ACCOUNT: &str = "chat@system.gserviceaccount.com";
const CHAT_CERTIFICATES: &str =
    "https://www.googleapis.com/service_accounts/v1/metadata/x509/chat@system.gserviceaccount.com";
const GOOGLE_KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";
/// Issuers of Google's identity tokens.
const GOOGLE_ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

/// Expected audience of tokens, with the keys that verify them.
#[derive(Debug)]
pub(super) enum Audience {
    /// Project number: accepts tokens signed by Chat, and identity tokens of the project's add-on account.
    Project { number: String, endpoint: Option<String>, chat_keys: KeyCache, google_keys: KeyCache },
    /// App URL: accepts identity tokens of Google for Chat's account.
    Address { address: String, keys: KeyCache },
}

impl Audience {
    /// Creates an audience. `endpoint` is the URL that receives requests; `keys_url` overrides the default key URLs.
    pub(super) fn new(audience: String, endpoint: Option<String>, keys_url: Option<Url>) -> Self {
        let keys = |default_url| KeyCache::new(NAME, KeyDocument::Keys, keys_url.clone(), default_url);
        if audience.bytes().all(|byte| byte.is_ascii_digit()) {
            let (chat_keys, google_keys) = (keys(CHAT_CERTIFICATES), keys(GOOGLE_KEYS));
            Self::Project { number: audience, endpoint, chat_keys, google_keys }
        } else {
            Self::Address { address: audience, keys: keys(GOOGLE_KEYS) }
        }
    }

    pub(super) fn keys(&self, issuer: &str) -> &KeyCache {
        match self {
            Self::Project { google_keys, .. } if GOOGLE_ISSUERS.contains(&issuer) => google_keys,
            Self::Project { chat_keys, .. } => chat_keys,
            Self::Address { keys, .. } => keys,
        }
    }

    pub(super) fn verify(&self, claims: &Value) -> Result<(), Rejection> {
        let is_of_google = claims["iss"].as_str().is_some_and(|issuer| GOOGLE_ISSUERS.contains(&issuer));
        let is_account = |email: &str| is_of_google && claims["email"] == email && claims["email_verified"] == true;
        let is_add_on = || {
            claims["email"]
                .as_str()
                .is_some_and(|email| email.ends_with("@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"))
        };
        let audiences = match self {
            Self::Project { number, .. } if claims["iss"] == CHAT_ACCOUNT => vec![number],
            Self::Project { number, endpoint, .. }
                if is_account(&format!("service-{number}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com")) =>
            {
                endpoint.iter().chain([number]).collect()
            }
            Self::Address { address, .. } if is_account(CHAT_ACCOUNT) => vec![address],
            Self::Address { .. } if is_add_on() => {
                return Err(Rejection::Unverified(
                    "the token was issued for a Workspace add-on; set channels.google_chat.audience to the project \
                     number",
                ));
            }
            _ => return Err(Rejection::Unverified("the token was not issued by Google Chat")),
        };
        if !audiences.iter().any(|audience| claims["aud"] == audience.as_str()) {
            return Err(Rejection::Unverified("the token was issued for another audience"));
        }
        Ok(())
    }
}
