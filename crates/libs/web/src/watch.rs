//! Streams last long after their access rule was passed: whoever opened one is looked at again, and a stream
//! whose credential is not good any more ends.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, timeout_at};

use crate::caller::Caller;
use crate::credential::{AccessDenied, Authenticate, Credential};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who opened a stream. In the extensions of a request that asks for a WebSocket.
#[derive(Clone)]
pub struct Opener {
    pub(crate) auth: Arc<dyn Authenticate>,
    pub(crate) credential: Option<Credential>,
    pub(crate) caller: Caller,
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Opener {
    /// Waits until the credential is not good any more.
    pub async fn until_refused(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.is_let_in().await {
                return;
            }
        }
    }

    /// `false` only for certain: a database that is away ends no stream.
    async fn is_let_in(&self) -> bool {
        match &self.credential {
            None | Some(Credential::Unreadable) => true,
            Some(credential @ (Credential::Token(_) | Credential::Page(_))) => {
                let again = self.auth.authenticate(Some(credential.clone())).await;
                !matches!(again, Err(AccessDenied::Refused { .. }))
            }
            // It is used up; what it stood for is asked about.
            Some(Credential::Ticket(_)) => self.auth.is_in_force(&self.caller).await,
        }
    }
}

struct Watched {
    body: BodyDataStream,
    opener: Opener,
    look_at: Instant,
}

/// The same response; if it is a stream, one that ends soon after its opener's credential.
pub(crate) fn while_let_in(response: Response, opener: Opener) -> Response {
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        return response;
    }
    response.map(|body| {
        let watched = Watched { body: body.into_data_stream(), opener, look_at: Instant::now() + LOOK_EVERY };
        Body::from_stream(stream::unfold(watched, |mut watched| async move {
            loop {
                let piece = timeout_at(watched.look_at, watched.body.next()).await;
                // Also when pieces come so fast that the time is never waited for.
                if Instant::now() >= watched.look_at {
                    if !watched.opener.is_let_in().await {
                        return None;
                    }
                    watched.look_at = Instant::now() + LOOK_EVERY;
                }
                if let Ok(piece) = piece {
                    return piece.map(|piece| (piece, watched));
                }
            }
        }))
    })
}
