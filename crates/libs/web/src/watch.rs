//! Revalidation of open streams: the credential is checked repeatedly, and the stream ends once it is no longer valid.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, timeout_at};

use crate::caller::Caller;
use crate::credential::{AccessDenied, Authenticate, Credential};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Credential that opened a stream, for revalidation. Present in the extensions of WebSocket requests.
#[derive(Clone)]
pub struct StreamCredential {
    pub(crate) auth: Arc<dyn Authenticate>,
    pub(crate) credential: Option<Credential>,
    pub(crate) caller: Caller,
}

impl std::fmt::Debug for StreamCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamCredential").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl StreamCredential {
    /// Waits until the credential is no longer valid.
    pub async fn revoked(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if !self.is_valid().await {
                return;
            }
        }
    }

    /// Returns `false` only if the credential was rejected: an unavailable database ends no stream.
    async fn is_valid(&self) -> bool {
        match &self.credential {
            None | Some(Credential::Unreadable) => true,
            Some(credential @ (Credential::Token(_) | Credential::Page(_))) => {
                let again = self.auth.authenticate(Some(credential.clone())).await;
                !matches!(again, Err(AccessDenied::Refused { .. }))
            }
            // The ticket is used up; its caller is checked instead.
            Some(Credential::Ticket(_)) => self.auth.is_valid(&self.caller).await,
        }
    }
}

struct Watched {
    body: BodyDataStream,
    credential: StreamCredential,
    next_check: Instant,
}

/// Ends a streamed response soon after its credential becomes invalid; returns other responses unchanged.
pub(crate) fn end_when_revoked(response: Response, credential: StreamCredential) -> Response {
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        return response;
    }
    response.map(|body| {
        let watched =
            Watched { body: body.into_data_stream(), credential, next_check: Instant::now() + CHECK_INTERVAL };
        Body::from_stream(stream::unfold(watched, |mut watched| async move {
            loop {
                let chunk = timeout_at(watched.next_check, watched.body.next()).await;
                // Also checked if chunks arrive so fast that the timeout never fires.
                if Instant::now() >= watched.next_check {
                    if !watched.credential.is_valid().await {
                        return None;
                    }
                    watched.next_check = Instant::now() + CHECK_INTERVAL;
                }
                if let Ok(chunk) = chunk {
                    return chunk.map(|chunk| (chunk, watched));
                }
            }
        }))
    })
}
