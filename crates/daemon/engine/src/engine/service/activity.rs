//! What a turn does just now.

use agentd_base::Timestamp;
use agentd_store::StoreError;

use super::Engine;
use crate::engine::model::{ApprovalStatus, EventKind, SessionId, SessionStatus};
use crate::engine::store;

/// Results of tools may be long, so few are held at once.
const EVENTS_A_READ: u32 = 64;

/// A turn that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnActivity {
    /// When it began, or was last answered what it had asked.
    pub since: Timestamp,
    /// Whether it asked for an approval that nobody gave or refused yet.
    pub is_waiting: bool,
    /// The tool that was begun last of those that run.
    pub tool: Option<String>,
}

impl Engine {
    /// What a turn does as far as it is stored; `None` where it is over.
    ///
    /// # Errors
    /// The store's refusal.
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
            let events = store::list_steps_of_tools(&mut read, id, seen, EVENTS_A_READ).await?;
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
            if events.len() < EVENTS_A_READ as usize {
                break;
            }
        }
        let tool = running.pop().map(|(_, tool)| tool);
        let since = answered.map_or(session.started_at, |answered| answered.max(session.started_at));
        Ok(Some(TurnActivity { since, is_waiting, tool }))
    }
}
