//! Google Chat app: configuration, credentials and state.

use std::time::Duration;

use agentd_base::{Clock, Secret, Timestamp};
use agentd_net::GuardedClient;
use http::Method;
use url::Url;

use super::account::{GRANT, ServiceAccount};
use super::verify::{Audience, NAME};
use crate::access_token::{AccessToken, read_token, refusal};
use crate::api::{ApiCall, call};
use crate::files::Files;
use crate::jwt;
use crate::outgoing::{Account, SendError};
use crate::webhook::{Rejection, WebhookRequest};

/// Configuration of a Google Chat app.
#[derive(Debug, Clone, Default)]
pub struct GoogleChatConfig {
    /// Base URL of the API; default: `https://chat.googleapis.com`.
    pub api_base_url: Option<Url>,
    /// Token endpoint; default: that of the service account.
    pub token_url: Option<Url>,
    /// URL of the keys that verify requests; default: Google's URL for this kind of audience.
    pub keys_url: Option<Url>,
    /// Audience of request tokens: the project number, or the configured app URL.
    pub audience: Option<String>,
    /// Key file of a service account, as JSON text.
    pub service_account: Option<Secret>,
    /// URL that receives requests, as required by Workspace add-ons.
    pub endpoint: Option<String>,
}

/// Google Chat app.
#[derive(Debug)]
pub struct GoogleChat {
    pub(super) api_base_url: Option<Url>,
    pub(super) token_url: Option<Url>,
    pub(super) client: GuardedClient,
    pub(super) clock: Clock,
    pub(super) audience: Option<Audience>,
    pub(super) endpoint: Option<String>,
    /// Service account, or the reason why it is missing.
    pub(super) account: Result<ServiceAccount, String>,
    pub(super) token: AccessToken,
    pub(crate) files: Files,
}

impl GoogleChat {
    #[must_use]
    pub fn new(config: GoogleChatConfig, client: GuardedClient, clock: Clock) -> Self {
        let GoogleChatConfig { api_base_url, token_url, keys_url, audience, service_account, endpoint } = config;
        let audience = audience.filter(|audience| !audience.is_empty());
        let audience = audience.map(|audience| Audience::new(audience, endpoint.clone(), keys_url));
        let account = match service_account.filter(|account| !account.is_empty()) {
            Some(account) => ServiceAccount::read(&account),
            None => Err("set channels.google_chat.service_account to send messages".to_owned()),
        };
        let files = Files::new(NAME, &client, api_base_url.as_ref());
        let token = AccessToken::default();
        Self { api_base_url, token_url, client, clock, audience, endpoint, account, token, files }
    }

    pub(super) async fn verify(&self, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
        let audience = self.audience.as_ref().ok_or(Rejection::NotSetUp)?;
        if request.method != Method::POST {
            return Err(Rejection::Unverified("only POST is taken"));
        }
        let token = jwt::bearer(request)?;
        let keys = audience.keys(&jwt::claimed_issuer(token).unwrap_or_default());
        let key = keys.find(&self.client, &jwt::key_id(token)?, now).await?;
        audience.verify(&jwt::verify(token, &key.decoding, now)?)
    }

    pub(super) async fn account(&self) -> Result<Account, SendError> {
        // A cached token would not reveal credentials that have changed since.
        self.fetch_token().await?;
        let id = self.service_account()?.email.clone();
        Ok(Account { id, name: String::new(), webhook_url: None, last_error: None })
    }

    pub(super) async fn fetch_token(&self) -> Result<(Secret, Duration), SendError> {
        let account = self.service_account()?;
        let assertion = account.assertion(self.clock.now()).ok_or_else(|| {
            SendError::NotSetUp(
                "the private key in channels.google_chat.service_account cannot sign; create a new key".to_owned(),
            )
        })?;
        let url = self.token_url.as_ref().unwrap_or(&account.token_url).clone();
        let request = ApiCall::new(Method::POST, url).form(&[("grant_type", GRANT), ("assertion", &assertion)]);
        let answer = call(&self.client, "Google's token service", request).await?;
        let token = if answer.status.is_success() { read_token(&answer.body) } else { None };
        token.ok_or_else(|| {
            let code = refusal(&answer.body);
            SendError::Credentials(format!("Google issued no token{code}; check channels.google_chat.service_account"))
        })
    }

    pub(super) fn service_account(&self) -> Result<&ServiceAccount, SendError> {
        self.account.as_ref().map_err(|problem| SendError::NotSetUp(problem.clone()))
    }
}
