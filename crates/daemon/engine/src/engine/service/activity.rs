//! Current activity of a turn.

use agentd_base::Timestamp;
use agentd_store::StoreError;

use super::Engine;
use crate::engine::model::{ApprovalStatus, EventKind, SessionId, SessionStatus};
use crate::engine::store;

/// Batch size is small because tool results may be long.
const EVENT_BATCH_SIZE: u32 = 64;

/// Activity of a running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnActivity {
    /// Start of the turn, or time of the last decided approval.
    pub since: Timestamp,
    /// Whether an approval of the turn is pending.
    pub is_waiting: bool,
    /// The most recently started tool that still runs.
    pub tool: Option<String>,
}

impl Engine {
    /// Returns the stored activity of a turn; `None` if it has ended.
    ///
    /// # Errors
    /// A store error.
    pub async fn activity(&self, id: &SessionId) -> Result<Option<TurnActivity>, StoreError> {
        let mut read = self.inner().context.db.read().await?;
        let Some(session) = store::find_session(&mut read, id).await? else { return Ok(None) };
        if session.status != SessionStatus::Running {
            return Ok(None);
        }
        let approvals = store::approvals::list_of_session(&mut read, id).await?;
        let is_waiting = approvals.iter().any(|approval| approval.status == ApprovalStatus::Pending);
        let answered = approvals.iter().filter_map(|approval| approval.decided_at).max();
        let (mut running, mut seen) = (Vec::new(), 0);
        loop {
            let events = store::list_tool_events(&mut read, id, seen, EVENT_BATCH_SIZE).await?;
            for event in &events {
                seen = event.seq;
                let data = event.value();
                let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
                match event.kind {
                    EventKind::ToolUse => running.push((text("call_id"), text("tool"))),
                    EventKind::ToolResult => running.retain(|(call, _)| *call != text("call_id")),
                    EventKind::ApprovalRequest
                    | EventKind::Start
                    | EventKind::Token
                    | EventKind::Done
                    | EventKind::Error => {}
                }
            }
            if events.len() < EVENT_BATCH_SIZE as usize {
                break;
            }
        }
        let tool = running.pop().map(|(_, tool)| tool);
        let since = answered.map_or(session.started_at, |answered| answered.max(session.started_at));
        Ok(Some(TurnActivity { since, is_waiting, tool }))
    }
}
