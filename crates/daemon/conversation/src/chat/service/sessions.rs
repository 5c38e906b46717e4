//! Access to the logs of replies. The engine retains a log until its purge, possibly long after a deletion made it
//! inaccessible.

use agentd_base::FieldProblem;
use agentd_engine::engine::{EngineError, Session, SessionId, SessionTrace};

use super::super::error::ChatError;
use super::super::store::{agent_exists, is_message_visible};
use super::{CHANNEL_TRANSCRIPT, Chat, TRANSCRIPT};

impl Chat {
    /// Returns a session whose agent, conversation and message are not deleted.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn session(&self, id: &SessionId) -> Result<Session, ChatError> {
        let session = self.0.engine.get(id).await?;
        let mut read = self.0.context.db.read().await?;
        let is_visible = match (&session.sink, &session.conversation_id, &session.message_id) {
            (Some(name), Some(conversation), Some(message))
                if [TRANSCRIPT, CHANNEL_TRANSCRIPT].contains(&name.as_str()) =>
            {
                is_message_visible(&mut read, conversation, message).await?
            }
            _ => agent_exists(&mut read, &session.agent_id).await?,
        };
        if is_visible { Ok(session) } else { Err(EngineError::no_session(id).into()) }
    }

    /// Returns a session that is followed after event `seen`, which must exist.
    ///
    /// # Errors
    /// Same as [`session`](Self::session), and `Invalid` if the event does not exist.
    pub async fn session_after(&self, id: &SessionId, seen: Option<u64>) -> Result<Session, ChatError> {
        let session = self.session(id).await?;
        if let Some(seen) = seen {
            let last = self.0.engine.last_event(&session.id).await?;
            if seen > last {
                let message = format!("must be the `id` of an event of this session, at most {last}");
                let problem = FieldProblem { field: "Last-Event-ID".to_owned(), message };
                return Err(ChatError::Invalid { problems: vec![problem] });
            }
        }
        Ok(session)
    }

    /// Returns a turn as a tree of spans.
    ///
    /// # Errors
    /// Same as [`session`](Self::session).
    pub async fn trace(&self, id: &SessionId) -> Result<SessionTrace, ChatError> {
        let session = self.session(id).await?;
        Ok(self.0.engine.trace(&session).await?)
    }

    /// Cancels a running session and returns its final state.
    ///
    /// # Errors
    /// Same as [`session`](Self::session), or `Ended`.
    pub async fn cancel_session(&self, id: &SessionId) -> Result<Session, ChatError> {
        let session = self.session(id).await?;
        Ok(self.0.engine.cancel(&session.id).await?)
    }
}
