//! Who sends a request (<https://developers.google.com/workspace/chat/verify-requests-from-chat>).
//!
//! An app that is set up as a Workspace add-on is called by a service account of its own project, with identity tokens
//! that Google signs for the address that is called. The account's name holds the number of the project, so an add-on of
//! another project is refused.

use serde_json::Value;
use url::Url;

use crate::keys::{KeyCache, KeyDocument};
use crate::webhook::Rejection;

pub(super) const NAME: &str = "Google Chat";
/// The service account by which Chat calls apps.
const CHAT: &str = "chat@system.gserviceaccount.com";
const CHAT_CERTIFICATES: &str =
    "https://www.googleapis.com/service_accounts/v1/metadata/x509/chat@system.gserviceaccount.com";
const GOOGLE_KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";
/// Issuers of identity tokens.
const GOOGLE: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

/// The audience that tokens are for, with the keys that sign them.
#[derive(Debug)]
pub(super) enum Audience {
    /// The number of the project: tokens that Chat signs itself, and identity tokens of the project's add-on account.
    Project { number: String, endpoint: Option<String>, of_chat: KeyCache, of_google: KeyCache },
    /// The address that is called: identity tokens of Google for Chat's account.
    Address { address: String, keys: KeyCache },
}

impl Audience {
    /// `endpoint`: the address that requests come to. `keys_url`: where all keys are, if not in their usual places.
    pub(super) fn new(audience: String, endpoint: Option<String>, keys_url: Option<Url>) -> Self {
        let keys = |usual| KeyCache::new(NAME, KeyDocument::Keys, keys_url.clone(), usual);
        if audience.bytes().all(|byte| byte.is_ascii_digit()) {
            let (of_chat, of_google) = (keys(CHAT_CERTIFICATES), keys(GOOGLE_KEYS));
            Self::Project { number: audience, endpoint, of_chat, of_google }
        } else {
            Self::Address { address: audience, keys: keys(GOOGLE_KEYS) }
        }
    }

    pub(super) fn keys(&self, issuer: &str) -> &KeyCache {
        match self {
            Self::Project { of_google, .. } if GOOGLE.contains(&issuer) => of_google,
            Self::Project { of_chat, .. } => of_chat,
            Self::Address { keys, .. } => keys,
        }
    }

    pub(super) fn verify(&self, claims: &Value) -> Result<(), Rejection> {
        let is_of_google = claims["iss"].as_str().is_some_and(|issuer| GOOGLE.contains(&issuer));
        let is_account = |email: &str| is_of_google && claims["email"] == email && claims["email_verified"] == true;
        let is_add_on = || {
            claims["email"]
                .as_str()
                .is_some_and(|email| email.ends_with("@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"))
        };
        let audiences = match self {
            Self::Project { number, .. } if claims["iss"] == CHAT => vec![number],
            Self::Project { number, endpoint, .. }
                if is_account(&format!("service-{number}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com")) =>
            {
                endpoint.iter().chain([number]).collect()
            }
            Self::Address { address, .. } if is_account(CHAT) => vec![address],
            Self::Address { .. } if is_add_on() => {
                return Err(Rejection::Unverified(
                    "the token is of a Workspace add-on; set channels.google_chat.audience to the project's number",
                ));
            }
            _ => return Err(Rejection::Unverified("the token is not of Google Chat")),
        };
        if !audiences.iter().any(|audience| claims["aud"] == audience.as_str()) {
            return Err(Rejection::Unverified("the token is made out to another audience"));
        }
        Ok(())
    }
}
