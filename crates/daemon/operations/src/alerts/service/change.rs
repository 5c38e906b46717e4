//! Creating, changing, deleting and previewing alerts.

use agentd_automation::notify::Target;
use agentd_base::{FieldProblem, Problems};
use agentd_core::vault::{UrlSecrets, Vault, write_url_secrets};
use agentd_net::Trust;
use agentd_store::{Recorder, Tx};

use super::{AlertWithValue, Alerts, require_alert};
use crate::alerts::error::AlertError;
use crate::alerts::events::{self, EndedBy};
use crate::alerts::model::{
    Alert, AlertChange, AlertId, CompiledCondition, Delivery, Figure, Figures, Lifecycle, MAX_ALERTS, Truth,
    secret_scope,
};
use crate::alerts::store;

/// Result of evaluating an alert now.
#[derive(Debug, Clone)]
pub struct Preview {
    pub value: Option<f64>,
    /// Whether the condition is true; `None` if a value is unknown.
    pub would_fire: Option<bool>,
    pub(crate) figures: Figures,
}

impl Alerts {
    /// Builds a new alert with default values and validates it.
    ///
    /// # Errors
    /// All invalid fields.
    pub(crate) fn build_alert(&self, change: AlertChange) -> Result<(Alert, UrlSecrets), Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let mut alert = Alert::with_defaults(AlertId::generate(&self.0.context.ids), self.0.context.clock.now());
        let secrets = alert.apply(change, true, &mut problems);
        self.validate_destination(alert.delivery.as_ref(), None, &mut problems);
        problems.into_result().map(|()| (alert, secrets))
    }

    /// Rejects a destination that can never be reached, as far as this can be checked locally. An unchanged destination
    /// is accepted, because the policy may have changed since.
    fn validate_destination(&self, delivery: Option<&Delivery>, before: Option<&Delivery>, problems: &mut Problems) {
        let Some(Ok(target)) = delivery.filter(|delivery| Some(*delivery) != before).map(Delivery::target) else {
            return;
        };
        let fault = match &target {
            Target::Webhook(url) => {
                let evaluated = self.0.sources.settings.policy().current().check_url(url, Trust::Owner);
                evaluated.err().map(|refusal| refusal.to_string())
            }
            _ => self.0.sources.notify.target_problem(&target),
        };
        if let Some(fault) = fault {
            problems.add("delivery.url", fault);
        }
    }

    /// Stores an alert. It is evaluated from now on, unless it is disabled.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `TooMany`, or the database fails.
    pub async fn create(
        &self,
        change: AlertChange,
        recorder: Recorder<AlertWithValue>,
    ) -> Result<AlertWithValue, AlertError> {
        let (alert, secrets) = self.build_alert(change).map_err(AlertError::Invalid)?;
        let this = self.clone();
        let work = async move |tx: &mut Tx| {
            if store::count_alerts(tx).await? >= MAX_ALERTS {
                return Err(AlertError::TooMany);
            }
            store::insert_alert(tx, &alert).await?;
            write_url_secrets(tx, this.0.sources.settings.vault(), &secret_scope(&alert.id), &secrets).await?;
            let result = this.with_value(tx, alert.clone()).await?;
            recorder.record(tx, &result).await?;
            Ok(result)
        };
        let result = self.0.context.db.write(work).await?;
        self.0.wake.notify_one();
        Ok(result)
    }

    /// Changes some fields. An active firing continues with the new condition; disabling the alert ends it.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`, or the database fails.
    pub async fn update(&self, id: &AlertId, change: AlertChange) -> Result<AlertWithValue, AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let before = require_alert(tx, &id).await?;
            let (mut alert, mut problems) = (before.clone(), Problems::new());
            let secrets = alert.apply(change.clone(), false, &mut problems);
            this.validate_destination(alert.delivery.as_ref(), before.delivery.as_ref(), &mut problems);
            problems.into_result().map_err(AlertError::Invalid)?;
            alert.updated_at = tx.clock().now();
            let evaluated_fields = |alert: &Alert| (alert.condition.clone(), alert.threshold, alert.period_minutes);
            if evaluated_fields(&alert) != evaluated_fields(&before) {
                alert.lifecycle.pending_since = None;
            }
            if !alert.enabled {
                this.close(tx, &before, EndedBy::Disabled).await?;
                alert.lifecycle = Lifecycle::default();
            }
            store::update_alert(tx, &alert).await?;
            write_url_secrets(tx, this.0.sources.settings.vault(), &secret_scope(&id), &secrets).await?;
            Ok::<_, AlertError>(this.with_value(tx, alert).await?)
        };
        let result = self.0.context.db.write(work).await?;
        self.0.wake.notify_one();
        Ok(result)
    }

    /// Deletes an alert and ends its active firing.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn delete(&self, id: &AlertId) -> Result<(), AlertError> {
        let (this, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let alert = require_alert(tx, &id).await?;
            this.close(tx, &alert, EndedBy::Deleted).await?;
            Vault::clear_scope(tx, &secret_scope(&id)).await?;
            Ok::<_, AlertError>(store::delete_alert(tx, &id).await?)
        };
        self.0.context.db.write(work).await
    }

    /// Ends the active firing of an alert, if any.
    async fn close(&self, tx: &mut Tx, alert: &Alert, by: EndedBy) -> Result<(), AlertError> {
        let Some(firing) = &alert.lifecycle.firing_id else { return Ok(()) };
        store::end_firing(tx, firing).await?;
        let value = self.with_value(tx, alert.clone()).await?.value;
        tx.emit(events::resolved(alert, value, by)).await?;
        Ok(())
    }

    /// Evaluates an alert with these fields now, without storing anything or sending notifications.
    ///
    /// # Errors
    /// `Invalid`, or a source of values is unavailable.
    pub async fn preview(&self, change: AlertChange) -> Result<Preview, AlertError> {
        let (alert, _) = self.build_alert(change).map_err(AlertError::Invalid)?;
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
