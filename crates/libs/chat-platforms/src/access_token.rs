//! Access token cache: a token is fetched with the credentials and reused until shortly before it expires.

use std::time::Duration;

use agentd_base::{Clock, Secret, Timestamp};
use agentd_net::GuardedClient;
use http::StatusCode;
use serde_json::Value;
use url::Url;

use crate::api::{ApiAnswer, ApiCall, call};
use crate::files::{Files, IncomingFile};
use crate::outgoing::SendError;

/// Time before expiry after which a token is no longer used, to allow for the duration of requests.
const REFRESH_MARGIN: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
struct CachedToken {
    token: Secret,
    usable_until: Timestamp,
}

/// Cached access token.
#[derive(Debug, Default)]
pub(crate) struct AccessToken(tokio::sync::Mutex<Option<CachedToken>>);

impl AccessToken {
    /// Sends a request to the platform `name` with the token, and retries once with a new one if it is rejected.
    /// `fetch` returns a token and its lifetime; `error_of` converts an error response.
    pub(crate) async fn call<F: Future<Output = Result<(Secret, Duration), SendError>>>(
        &self,
        client: &GuardedClient,
        name: &str,
        clock: &Clock,
        request: ApiCall,
        fetch: impl Fn() -> F,
        error_of: fn(&ApiAnswer, &Secret) -> SendError,
    ) -> Result<Value, SendError> {
        let mut is_retry = false;
        loop {
            let token = self.get(clock.now(), fetch()).await?;
            let answer = call(client, name, request.clone().authorized("Bearer", &token)).await?;
            if answer.status.is_success() {
                return Ok(answer.body);
            }
            if answer.status != StatusCode::UNAUTHORIZED || is_retry {
                return Err(error_of(&answer, &token));
            }
            self.invalidate(&token).await;
            is_retry = true;
        }
    }

    /// Opens a file with the token, and retries once with a new one if it is rejected.
    pub(crate) async fn open<F: Future<Output = Result<(Secret, Duration), SendError>>>(
        &self,
        files: &Files,
        clock: &Clock,
        url: &Url,
        fetch: impl Fn() -> F,
    ) -> Result<IncomingFile, SendError> {
        let token = self.get(clock.now(), fetch()).await?;
        match files.open(url.clone(), Some(("Bearer", &token))).await {
            Err(SendError::Credentials(_)) => self.invalidate(&token).await,
            opened => return opened,
        }
        let token = self.get(clock.now(), fetch()).await?;
        files.open(url.clone(), Some(("Bearer", &token))).await
    }

    /// Returns the cached token, or fetches one. Fetches are serialized.
    async fn get(
        &self,
        now: Timestamp,
        fetch: impl Future<Output = Result<(Secret, Duration), SendError>>,
    ) -> Result<Secret, SendError> {
        let mut cached = self.0.lock().await;
        if let Some(cached) = cached.as_ref().filter(|cached| now < cached.usable_until) {
            return Ok(cached.token.clone());
        }
        let (token, lifetime) = fetch.await?;
        *cached =
            Some(CachedToken { token: token.clone(), usable_until: now + lifetime.saturating_sub(REFRESH_MARGIN) });
        Ok(token)
    }

    /// Removes this token from the cache.
    async fn invalidate(&self, token: &Secret) {
        let mut cached = self.0.lock().await;
        if cached.as_ref().is_some_and(|cached| cached.token.expose() == token.expose()) {
            *cached = None;
        }
    }
}

/// Parses the response of a token endpoint (RFC 6749, section 5.1).
pub(crate) fn read_token(answer: &Value) -> Option<(Secret, Duration)> {
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty())?;
    // Some servers send the number as a string.
    let lifetime = answer["expires_in"].as_u64().or_else(|| answer["expires_in"].as_str()?.parse().ok());
    Some((Secret::new(token.to_owned()), Duration::from_secs(lifetime.unwrap_or_default())))
}

/// Returns the error code of a response (RFC 6749, section 5.2) as a suffix for a message.
pub(crate) fn refusal(answer: &Value) -> String {
    let code = answer["error"].as_str().unwrap_or_default();
    let is_code = code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_code && !code.is_empty() { format!(" ({code})") } else { String::new() }
}
