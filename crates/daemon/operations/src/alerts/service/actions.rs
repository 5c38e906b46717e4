//! Actions of the owner on a firing alert.

use agentd_store::{Recorder, Tx};

use super::{AlertWithValue, Alerts, require_alert};
use crate::alerts::error::AlertError;
use crate::alerts::events::{self, EndedBy};
use crate::alerts::model::{Alert, AlertId};
use crate::alerts::store;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Acknowledge,
    Snooze { minutes: u32 },
    Resolve,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledged",
            Self::Snooze { .. } => "snoozed",
            Self::Resolve => "resolved",
        }
    }
}

impl Alerts {
    /// Applies an action of the owner to an alert.
    ///
    /// # Errors
    /// `NotFound`, `WrongState`, or the database fails.
    pub(crate) async fn act(
        &self,
        id: &AlertId,
        action: Action,
        recorder: Recorder<AlertWithValue>,
    ) -> Result<AlertWithValue, AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let before = require_alert(tx, &id).await?;
            let now = tx.clock().now();
            let lifecycle = match action {
                Action::Acknowledge => before.lifecycle.acknowledge(now),
                Action::Snooze { minutes } => before.lifecycle.snooze(minutes, now),
                Action::Resolve => before.lifecycle.resolve(now),
            };
            let (Some(lifecycle), Some(firing)) = (lifecycle, before.lifecycle.firing_id.clone()) else {
                return Err(AlertError::WrongState { state: before.state(), action: action.name() });
            };
            let alert = Alert { lifecycle, ..before.clone() };
            store::update_lifecycle(tx, &alert).await?;
            let result = this.with_value(tx, alert).await?;
            let event = match action {
                Action::Acknowledge => {
                    store::acknowledge_firing(tx, &firing).await?;
                    events::acknowledged(&before, result.value)
                }
                Action::Snooze { .. } => events::snoozed(&before, result.value, result.alert.lifecycle.snoozed_until),
                Action::Resolve => {
                    store::end_firing(tx, &firing).await?;
                    events::resolved(&before, result.value, EndedBy::Owner)
                }
            };
            tx.emit(event).await?;
            recorder.record(tx, &result).await?;
            Ok(result)
        };
        self.0.context.db.write(work).await
    }
}
