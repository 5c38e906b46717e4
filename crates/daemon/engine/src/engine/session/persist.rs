//! Writing what a turn has, though the database be away for a while.

use std::time::Duration;

use agentd_base::Backoff;
use agentd_store::StoreError;

use crate::engine::error::EngineError;
use crate::engine::model::{Session, SessionEvent};
use crate::engine::state::EngineState;
use crate::engine::store;

/// While the database is away, a turn keeps what it has and tries again, for half a minute.
const STORE_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), multiplier: 2.0, cap: Duration::from_secs(2), jitter: 0.2 };
const STORE_ATTEMPTS: u32 = 20;

fn store_error(error: &EngineError) -> Option<&StoreError> {
    match error {
        EngineError::Store(error) => Some(error),
        _ => None,
    }
}

pub(crate) fn is_taken(error: &EngineError) -> bool {
    matches!(store_error(error), Some(StoreError::Unique { .. }))
}

/// The numbers are taken. Either a commit of ours whose answer was lost came through after all, or
/// the session belongs to somebody else by now.
pub(crate) async fn confirm_written(
    engine: &EngineState,
    session: &Session,
    events: &[SessionEvent],
    error: EngineError,
) -> Result<(), EngineError> {
    let (Some(first), Ok(count)) = (events.first(), u32::try_from(events.len())) else { return Ok(()) };
    let mut read = engine.context.db.read().await?;
    let stored = store::list_events(&mut read, &session.id, first.seq.saturating_sub(1), count).await?;
    if stored == events { Ok(()) } else { Err(error) }
}

/// Writes again while the database is away.
pub(crate) async fn persist<F, T>(engine: &EngineState, write: impl Fn() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut attempt = 1;
    loop {
        let error = match write().await {
            Ok(written) => return Ok(written),
            Err(error) => error,
        };
        let may_pass = matches!(store_error(&error), Some(StoreError::Unavailable { .. } | StoreError::Contended));
        if !may_pass || attempt >= STORE_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(STORE_BACKOFF.delay(attempt, engine.context.entropy.unit())).await;
        attempt += 1;
    }
}
