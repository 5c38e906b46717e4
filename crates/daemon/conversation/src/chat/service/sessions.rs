//! The logs of replies, as far as they may be seen: the engine keeps one until its purge, which may come
//! long after a deletion has made it unreachable.

use agentd_base::FieldProblem;
use agentd_engine::engine::{EngineError, Session, SessionId, SessionTrace};

use super::super::error::ChatError;
use super::super::store::{is_agent_living, is_message_visible};
use super::{CHANNEL_TRANSCRIPT, Chat, TRANSCRIPT};

impl Chat {
    /// A session whose agent, conversation and message were not deleted.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn session(&self, id: &SessionId) -> Result<Session, ChatError> {
        let session = self.0.engine.get(id).await?;
        let mut read = self.0.context.db.read().await?;
        let is_visible = match (&session.transcript, &session.conversation_id, &session.message_id) {
            (Some(name), Some(conversation), Some(message))
                if [TRANSCRIPT, CHANNEL_TRANSCRIPT].contains(&name.as_str()) =>
            {
                is_message_visible(&mut read, conversation, message).await?
            }
            _ => is_agent_living(&mut read, &session.agent_id).await?,
        };
        if is_visible { Ok(session) } else { Err(EngineError::no_session(id).into()) }
    }

    /// The same for one that is followed after the event `seen`, which must be one of its own.
    ///
    /// # Errors
    /// As [`session`](Self::session), and `Invalid` for an event that there never was.
    pub async fn session_after(&self, id: &SessionId, seen: Option<u64>) -> Result<Session, ChatError> {
        let session = self.session(id).await?;
        if let Some(seen) = seen {
            let last = self.0.engine.last_event(&session.id).await?;
            if seen > last {
                let message = format!("must be the `id` of an event of this session; its last one so far is {last}");
                let problem = FieldProblem { field: "Last-Event-ID".to_owned(), message };
                return Err(ChatError::Invalid { problems: vec![problem] });
            }
        }
        Ok(session)
    }

    /// A turn as a tree of spans.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub async fn trace(&self, id: &SessionId) -> Result<SessionTrace, ChatError> {
        let session = self.session(id).await?;
        Ok(self.0.engine.trace(&session).await?)
    }

    /// Ends a running session and answers it as it is then.
    ///
    /// # Errors
    /// As [`session`](Self::session), or `Ended`.
    pub async fn cancel_session(&self, id: &SessionId) -> Result<Session, ChatError> {
        let session = self.session(id).await?;
        Ok(self.0.engine.cancel(&session.id).await?)
    }
}
