//! What people do with an alert that fires.

use agentd_store::{Recorder, Tx};

use super::{Alerts, ShownAlert, alert_for};
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
    /// # Errors
    /// `NotFound`, `WrongState`, or the store's refusal.
    pub(crate) async fn act(
        &self,
        id: &AlertId,
        action: Action,
        recorder: Recorder<ShownAlert>,
    ) -> Result<ShownAlert, AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let before = alert_for(tx, &id).await?;
            let now = tx.clock().now();
            let life = match action {
                Action::Acknowledge => before.life.acknowledge(now),
                Action::Snooze { minutes } => before.life.snooze(minutes, now),
                Action::Resolve => before.life.resolve(now),
            };
            let (Some(life), Some(firing)) = (life, before.life.firing_id.clone()) else {
                return Err(AlertError::WrongState { state: before.state(), action: action.name() });
            };
            let alert = Alert { life, ..before.clone() };
            store::update_life(tx, &alert).await?;
            let shown = this.shown(tx, alert).await?;
            let event = match action {
                Action::Acknowledge => {
                    store::acknowledge_firing(tx, &firing).await?;
                    events::acknowledged(&before, shown.value)
                }
                Action::Snooze { .. } => events::snoozed(&before, shown.value, shown.alert.life.snoozed_until),
                Action::Resolve => {
                    store::end_firing(tx, &firing).await?;
                    events::resolved(&before, shown.value, EndedBy::Hand)
                }
            };
            tx.emit(event).await?;
            recorder.record(tx, &shown).await?;
            Ok(shown)
        };
        self.0.context.db.write(work).await
    }
}
