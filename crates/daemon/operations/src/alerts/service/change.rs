//! Making, changing and deleting alerts, and trying one out.

use agentd_automation::notify::Target;
use agentd_base::{FieldProblem, Problems};
use agentd_core::vault::{UrlSecrets, Vault, write_url_secrets};
use agentd_net::Trust;
use agentd_store::{Recorder, Tx};

use super::{Alerts, ShownAlert, alert_for};
use crate::alerts::error::AlertError;
use crate::alerts::events::{self, EndedBy};
use crate::alerts::model::{
    Alert, AlertChange, AlertId, CompiledCondition, Delivery, Figure, Figures, Life, MAX_ALERTS, Truth, secret_scope,
};
use crate::alerts::store;

/// What an alert would come to now.
#[derive(Debug, Clone)]
pub struct Preview {
    pub value: Option<f64>,
    /// `None`: a figure is missing.
    pub would_fire: Option<bool>,
    pub(crate) figures: Figures,
}

impl Alerts {
    /// A new alert, if everything about it is right.
    ///
    /// # Errors
    /// Every bad field.
    pub(crate) fn checked(&self, change: AlertChange) -> Result<(Alert, UrlSecrets), Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let mut alert = Alert::blank(AlertId::generate(&self.0.context.ids), self.0.context.clock.now());
        let secrets = alert.apply(change, true, &mut problems);
        self.check_address(alert.delivery.as_ref(), None, &mut problems);
        problems.into_result().map(|()| (alert, secrets))
    }

    /// Refuses an address that would never be reached, as far as that shows without asking anybody. One that was kept
    /// stays: what is permitted may have changed since.
    fn check_address(&self, delivery: Option<&Delivery>, before: Option<&Delivery>, problems: &mut Problems) {
        let Some(Ok(target)) = delivery.filter(|delivery| Some(*delivery) != before).map(Delivery::target) else {
            return;
        };
        let fault = match &target {
            Target::Webhook(url) => {
                let evaluated = self.0.sources.settings.policy().current().check_url(url, Trust::Owner);
                evaluated.err().map(|refusal| refusal.to_string())
            }
            _ => self.0.sources.notify.fault_of(&target),
        };
        if let Some(fault) = fault {
            problems.add("delivery.url", fault);
        }
    }

    /// Keeps an alert; it is evaluated from now on, unless it is turned off.
    ///
    /// # Errors
    /// `Invalid` with every bad field, `TooMany`, or the store's refusal.
    pub async fn create(&self, change: AlertChange, recorder: Recorder<ShownAlert>) -> Result<ShownAlert, AlertError> {
        let (alert, secrets) = self.checked(change).map_err(AlertError::Invalid)?;
        let this = self.clone();
        let work = async move |tx: &mut Tx| {
            if store::count_alerts(tx).await? >= MAX_ALERTS {
                return Err(AlertError::TooMany);
            }
            store::insert_alert(tx, &alert).await?;
            write_url_secrets(tx, this.0.sources.settings.vault(), &secret_scope(&alert.id), &secrets).await?;
            let shown = this.shown(tx, alert.clone()).await?;
            recorder.record(tx, &shown).await?;
            Ok(shown)
        };
        let shown = self.0.context.db.write(work).await?;
        self.0.wake.notify_one();
        Ok(shown)
    }

    /// Changes some fields. What fires goes on by the new condition; turning the alert off ends it.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`, or the store's refusal.
    pub async fn update(&self, id: &AlertId, change: AlertChange) -> Result<ShownAlert, AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let before = alert_for(tx, &id).await?;
            let (mut alert, mut problems) = (before.clone(), Problems::new());
            let secrets = alert.apply(change.clone(), false, &mut problems);
            this.check_address(alert.delivery.as_ref(), before.delivery.as_ref(), &mut problems);
            problems.into_result().map_err(AlertError::Invalid)?;
            alert.updated_at = tx.clock().now();
            let says = |alert: &Alert| (alert.condition.clone(), alert.threshold, alert.period_minutes);
            if says(&alert) != says(&before) {
                alert.life.pending_since = None;
            }
            if !alert.enabled {
                this.close(tx, &before, EndedBy::TurnedOff).await?;
                alert.life = Life::default();
            }
            store::update_alert(tx, &alert).await?;
            write_url_secrets(tx, this.0.sources.settings.vault(), &secret_scope(&id), &secrets).await?;
            Ok::<_, AlertError>(this.shown(tx, alert).await?)
        };
        let shown = self.0.context.db.write(work).await?;
        self.0.wake.notify_one();
        Ok(shown)
    }

    /// Deletes an alert, and ends what fires of it.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn delete(&self, id: &AlertId) -> Result<(), AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let alert = alert_for(tx, &id).await?;
            this.close(tx, &alert, EndedBy::Deleted).await?;
            Vault::clear_scope(tx, &secret_scope(&id)).await?;
            Ok::<_, AlertError>(store::delete_alert(tx, &id).await?)
        };
        self.0.context.db.write(work).await
    }

    /// Ends what fires of an alert.
    async fn close(&self, tx: &mut Tx, alert: &Alert, by: EndedBy) -> Result<(), AlertError> {
        let Some(firing) = &alert.life.firing_id else { return Ok(()) };
        store::end_firing(tx, firing).await?;
        let value = self.shown(tx, alert.clone()).await?.value;
        tx.emit(events::resolved(alert, value, by)).await?;
        Ok(())
    }

    /// What an alert with these fields would come to now. Nothing is kept, and nobody is told.
    ///
    /// # Errors
    /// `Invalid`, or a source of figures is away.
    pub async fn preview(&self, change: AlertChange) -> Result<Preview, AlertError> {
        let (alert, _) = self.checked(change).map_err(AlertError::Invalid)?;
        let needed = [(alert.period_minutes, Figure::ALL.into())].into();
        let mut figures = self.read_figures(&needed).await?.remove(&alert.period_minutes).unwrap_or_default();
        figures.set(Figure::Threshold, Some(alert.threshold));
        let condition = CompiledCondition::compile(&alert.condition).ok();
        let truth = condition.as_ref().and_then(|condition| {
            CompiledCondition::evaluate_all(&[(condition, &figures, alert.threshold)]).into_iter().next()
        });
        let would_fire = match truth {
            Some(Truth::True) => Some(true),
            Some(Truth::False) => Some(false),
            Some(Truth::Unknown) | None => None,
        };
        Ok(Preview { value: condition.and_then(|condition| condition.value(&figures)), would_fire, figures })
    }
}
