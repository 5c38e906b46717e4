//! A token that a platform gives for some time to those who have credentials: asked for once, and kept until shortly
//! before it ends.

use std::time::Duration;

use agentd_base::{Clock, Secret, Timestamp};
use agentd_net::GuardedClient;
use http::StatusCode;
use serde_json::Value;
use url::Url;

use crate::api::{ApiAnswer, ApiCall, call};
use crate::files::{Files, IncomingFile};
use crate::outgoing::SendError;

/// So long before its end a token is not used any more: what is sent with it takes its time.
const EARLY: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
struct Kept {
    token: Secret,
    until: Timestamp,
}

/// The token that holds just now.
#[derive(Debug, Default)]
pub(crate) struct AccessToken(tokio::sync::Mutex<Option<Kept>>);

impl AccessToken {
    /// Makes a call of the platform `name` with the token, and once more with a new one where it is refused. `fetch`
    /// answers a token and how long it holds; `error_of` says what a refusal means.
    pub(crate) async fn call<F: Future<Output = Result<(Secret, Duration), SendError>>>(
        &self,
        client: &GuardedClient,
        name: &str,
        clock: &Clock,
        request: ApiCall,
        fetch: impl Fn() -> F,
        error_of: fn(&ApiAnswer, &Secret) -> SendError,
    ) -> Result<Value, SendError> {
        let mut is_second = false;
        loop {
            let token = self.get(clock.now(), fetch()).await?;
            let answer = call(client, name, request.clone().authorized("Bearer", &token)).await?;
            if answer.status.is_success() {
                return Ok(answer.body);
            }
            if answer.status != StatusCode::UNAUTHORIZED || is_second {
                return Err(error_of(&answer, &token));
            }
            self.forget(&token).await;
            is_second = true;
        }
    }

    /// Asks for a file with the token, and once more with a new one where it is refused.
    pub(crate) async fn open<F: Future<Output = Result<(Secret, Duration), SendError>>>(
        &self,
        files: &Files,
        clock: &Clock,
        url: &Url,
        fetch: impl Fn() -> F,
    ) -> Result<IncomingFile, SendError> {
        let token = self.get(clock.now(), fetch()).await?;
        match files.open(url.clone(), Some(("Bearer", &token))).await {
            Err(SendError::Credentials(_)) => self.forget(&token).await,
            opened => return opened,
        }
        let token = self.get(clock.now(), fetch()).await?;
        files.open(url.clone(), Some(("Bearer", &token))).await
    }

    /// The token that is kept, or what `fetch` answers. One fetch at a time.
    async fn get(
        &self,
        now: Timestamp,
        fetch: impl Future<Output = Result<(Secret, Duration), SendError>>,
    ) -> Result<Secret, SendError> {
        let mut kept = self.0.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| now < kept.until) {
            return Ok(kept.token.clone());
        }
        let (token, holds) = fetch.await?;
        *kept = Some(Kept { token: token.clone(), until: now + holds.saturating_sub(EARLY) });
        Ok(token)
    }

    /// Does not use this one again.
    async fn forget(&self, token: &Secret) {
        let mut kept = self.0.lock().await;
        if kept.as_ref().is_some_and(|kept| kept.token.expose() == token.expose()) {
            *kept = None;
        }
    }
}

/// An answer of a token endpoint (RFC 6749, section 5.1).
pub(crate) fn read_token(answer: &Value) -> Option<(Secret, Duration)> {
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty())?;
    // Some write the number as text.
    let holds = answer["expires_in"].as_u64().or_else(|| answer["expires_in"].as_str()?.parse().ok());
    Some((Secret::new(token.to_owned()), Duration::from_secs(holds.unwrap_or_default())))
}

/// The code of a refusal (section 5.2), to stand behind a sentence.
pub(crate) fn refusal(answer: &Value) -> String {
    let code = answer["error"].as_str().unwrap_or_default();
    let is_code = code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_code && !code.is_empty() { format!(" ({code})") } else { String::new() }
}
