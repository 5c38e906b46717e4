//! Evaluation of alerts and its effects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_automation::notify::{Notification, Target};
use agentd_base::Timestamp;
use agentd_core::lease::HeldRow;
use agentd_core::vault::{VaultError, open_url};
use agentd_store::{Durability, StoreError, Tx};
use serde_json::Value;

use super::figures::RequiredFigures;
use super::minutes::Minutes;
use super::{Alerts, Evaluated, LoadedAlert};
use crate::alerts::error::AlertError;
use crate::alerts::events::{self, EndedBy};
use crate::alerts::model::{
    Alert, AlertId, CompiledCondition, Figures, FiringId, NoticeKind, Truth, notice_key, secret_scope,
};
use crate::alerts::{notice, store};

/// Together with the lease, ensures that another daemon takes over within 15 seconds after one is killed.
pub(crate) const EVALUATION_INTERVAL: Duration = Duration::from_secs(6);
const LEASE_DURATION: Duration = Duration::from_secs(9);
/// Maximum age of the previous evaluation at which a condition counts as continuously true.
const MAX_WATCH_GAP: Duration = Duration::from_secs(90);
/// Maximum number of retained firings per alert.
const MAX_FIRINGS: u32 = 1_000;
/// Maximum number of retained notices per firing.
const MAX_NOTICES: u32 = 100;
pub(crate) const FIRING_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// Evaluation of an alert that changes its state.
#[derive(Debug, Clone)]
struct Verdict {
    id: AlertId,
    /// Last change of the settings it was evaluated with.
    updated_at: Timestamp,
    condition: Arc<CompiledCondition>,
    truth: Truth,
    value: Option<f64>,
}

impl Alerts {
    /// Runs one pass: reads values, evaluates, and stores changes. Returns the number of evaluated alerts.
    pub(crate) async fn evaluate(&self) -> Result<u64, AlertError> {
        let loaded = self.loaded().await?;
        let evaluated: Vec<(&LoadedAlert, &Arc<CompiledCondition>)> = loaded
            .iter()
            .filter(|loaded| loaded.alert.enabled)
            .filter_map(|loaded| Some((loaded, loaded.condition.as_ref()?)))
            .collect();
        let now = self.0.context.clock.now();
        self.0.next_evaluation.note((!evaluated.is_empty()).then(|| now + EVALUATION_INTERVAL));
        if evaluated.is_empty() {
            return Ok(0);
        }
        let (owner, held) = (Arc::clone(&self.0.context.instance), self.0.lease.lock().clone());
        let claim = async move |tx: &mut Tx| store::claim(tx, &owner, held.as_ref(), LEASE_DURATION).await;
        let claimed = self.0.context.db.write_locking::<_, StoreError, _>(Durability::Relaxed, claim).await?;
        let (lease, last) = claimed.unzip();
        self.0.lease.lock().clone_from(&lease);
        let (Some(lease), Some(last)) = (lease, last) else { return Ok(0) };
        if self.0.evaluated.lock().at != last {
            // Another daemon evaluated or a backup was restored, so cached minutes may be outdated.
            *self.0.minutes.lock().await = Minutes::default();
        }
        let mut needed = RequiredFigures::new();
        for (loaded, condition) in &evaluated {
            needed.entry(loaded.alert.period_minutes).or_default().extend(condition.figures());
        }
        let figures = self.read_figures(&needed).await?;
        let is_watched = last <= now && now.since(last) <= MAX_WATCH_GAP;
        let verdicts = evaluate_alerts(&evaluated, &figures, now, is_watched);
        self.store_evaluation(lease, last, is_watched, figures, verdicts).await?;
        Ok(evaluated.len() as u64)
    }

    async fn store_evaluation(
        &self,
        lease: HeldRow,
        last: Timestamp,
        is_watched: bool,
        figures: BTreeMap<u32, Figures>,
        verdicts: Vec<Verdict>,
    ) -> Result<(), AlertError> {
        let figures: BTreeMap<u32, Value> =
            figures.into_iter().map(|(period, figures)| (period, figures.to_json())).collect();
        let new_figures: Vec<(u32, Value)> = {
            let evaluated = self.0.evaluated.lock();
            // Another daemon may have evaluated meanwhile.
            let is_known =
                |period: &u32, json: &Value| evaluated.at == last && evaluated.figures.get(period) == Some(json);
            figures
                .iter()
                .filter(|(period, json)| !is_known(period, json))
                .map(|(p, json)| (*p, json.clone()))
                .collect()
        };
        let (this, is_quiet) = (self.clone(), verdicts.is_empty());
        let work = async move |tx: &mut Tx| {
            match store::record_evaluation(tx, &lease, LEASE_DURATION).await {
                Ok(()) => {}
                Err(StoreError::LostLease { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if verdicts.is_empty() {
                tx.keep_version();
            }
            for (period, json) in &new_figures {
                store::upsert_figures(tx, *period, json).await?;
            }
            for verdict in &verdicts {
                this.store_verdict(tx, verdict, is_watched).await?;
            }
            Ok::<_, AlertError>(Some(tx.clock().now()))
        };
        let stored = match is_quiet {
            true => self.0.context.db.write_relaxed(work).await?,
            false => self.0.context.db.write(work).await?,
        };
        if let Some(at) = stored {
            *self.0.evaluated.lock() = Evaluated { at, figures };
        }
        Ok(())
    }

    /// Applies a verdict to the current state of the alert.
    async fn store_verdict(&self, tx: &mut Tx, verdict: &Verdict, is_watched: bool) -> Result<(), AlertError> {
        let Some(before) = store::find_alert(tx, &verdict.id).await? else { return Ok(()) };
        if before.updated_at != verdict.updated_at || !before.enabled {
            // The alert was changed meanwhile and is evaluated again in the next pass.
            return Ok(());
        }
        let (now, value) = (tx.clock().now(), verdict.value);
        let new_id = || FiringId::generate(&self.0.context.ids);
        let step = before.lifecycle.evaluate(before.rule(), verdict.truth, now, is_watched, new_id);
        let mut alert = Alert { lifecycle: step.lifecycle, ..before.clone() };
        if let Some(firing) = alert.lifecycle.firing_id.clone() {
            let peak = verdict.condition.peak(alert.threshold, before.peak_value, value);
            if step.has_started {
                store::insert_firing(tx, &firing, &alert.id, value).await?;
                store::trim_firings(tx, &alert.id, MAX_FIRINGS).await?;
                alert.last_triggered = Some(now);
                tx.emit(events::firing(&alert, value)).await?;
            } else if verdict.truth == Truth::True && peak != before.peak_value {
                store::update_peak(tx, &firing, peak).await?;
            }
        }
        if let Some(firing) = before.lifecycle.firing_id.as_ref().filter(|_| step.has_ended) {
            store::end_firing(tx, firing).await?;
            tx.emit(events::resolved(&before, value, EndedBy::Condition)).await?;
        }
        let is_wanted = |kind: &NoticeKind| *kind != NoticeKind::Resolved || alert.notify_resolved;
        if let Some(kind) = step.notice.filter(is_wanted) {
            let notified = if step.has_ended { &before } else { &alert };
            let ordinal = notified.lifecycle.notices + 1;
            let condition = &verdict.condition;
            self.send_notice(tx, notified, condition, kind, ordinal, value).await?;
            alert.lifecycle.notices = if step.has_ended { 0 } else { ordinal };
        }
        Ok(store::update_lifecycle(tx, &alert).await?)
    }

    /// Sends a notice. `alert` is its state while it fires.
    async fn send_notice(
        &self,
        tx: &mut Tx,
        alert: &Alert,
        condition: &CompiledCondition,
        kind: NoticeKind,
        ordinal: u32,
        value: Option<f64>,
    ) -> Result<(), AlertError> {
        let Some(firing) = &alert.lifecycle.firing_id else { return Ok(()) };
        let key = notice_key(firing, ordinal);
        self.wake_devices(tx, alert, kind, value, &key).await?;
        let Some(delivery) = &alert.delivery else { return Ok(()) };
        let vault = self.0.sources.settings.vault();
        let target = match open_url(tx, vault, &secret_scope(&alert.id), &delivery.url).await {
            Ok(Ok(url)) => delivery.target_with(&url),
            Ok(Err(problem)) => Err(problem),
            Err(VaultError::Store(error)) => return Err(error.into()),
            Err(error) => Err(error.to_string()),
        };
        let shown = target.as_ref().ok().cloned().or_else(|| delivery.target().ok());
        let shown = shown.map_or_else(|| delivery.kind.as_str().to_owned(), |target| target.redacted());
        let problem = target.as_ref().err().map(String::as_str);
        store::insert_notice(tx, firing, ordinal, &shown, problem, MAX_NOTICES).await?;
        let target = match target {
            Ok(target) => target,
            Err(problem) => {
                tracing::error!(alert = %alert.id, problem, "alert has no delivery target");
                return Ok(());
            }
        };
        let message = match &target {
            Target::Push(_) => notice::build_push(alert, kind, value, self.is_quiet()),
            _ => {
                let text = notice::build_text(alert, Some(condition), kind, value, alert.lifecycle.firing_since);
                Notification::new(target, text.subject, text.body).format(text.format)
            }
        };
        self.0.sources.notify.enqueue(tx, &message.idempotency_key(key)).await?;
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.0.sources.settings.is_quiet(self.0.context.clock.now())
    }

    /// Sends a push notification to the owner's devices, unless the alert is delivered there anyway.
    async fn wake_devices(
        &self,
        tx: &mut Tx,
        alert: &Alert,
        kind: NoticeKind,
        value: Option<f64>,
        key: &str,
    ) -> Result<(), AlertError> {
        let sources = &self.0.sources;
        let is_delivered_to_devices =
            alert.delivery.as_ref().is_some_and(|delivery| matches!(delivery.target(), Ok(Target::Push(_))));
        if is_delivered_to_devices
            || !sources.settings.proactive().push_alerts
            || !sources.notify.push().has_devices(tx).await?
        {
            return Ok(());
        }
        let message = notice::build_push(alert, kind, value, self.is_quiet()).idempotency_key(format!("push:{key}"));
        sources.notify.enqueue(tx, &message).await?;
        Ok(())
    }

    /// Deletes expired firings, firings of deleted alerts, and values of unused periods.
    pub(crate) async fn purge(&self, limit: u32) -> Result<u64, AlertError> {
        let before = self.0.context.clock.now() - FIRING_RETENTION;
        if !store::has_expired(&mut self.0.context.db.read().await?, before).await? {
            return Ok(0);
        }
        let purge = async move |tx: &mut Tx| {
            store::purge_figures(tx).await?;
            store::purge_firings(tx, before, limit).await
        };
        Ok(self.0.context.db.write(purge).await?)
    }
}

/// Evaluates all alerts and returns those whose state changes.
fn evaluate_alerts(
    evaluated: &[(&LoadedAlert, &Arc<CompiledCondition>)],
    figures: &BTreeMap<u32, Figures>,
    now: Timestamp,
    is_watched: bool,
) -> Vec<Verdict> {
    let none = Figures::default();
    let figures_of = |alert: &Alert| figures.get(&alert.period_minutes).unwrap_or(&none);
    let inputs: Vec<(&CompiledCondition, &Figures, f64)> = evaluated
        .iter()
        .map(|(loaded, condition)| (&***condition, figures_of(&loaded.alert), loaded.alert.threshold))
        .collect();
    let truths = CompiledCondition::evaluate_all(&inputs);
    let mut verdicts = Vec::new();
    for ((loaded, condition), truth) in evaluated.iter().zip(truths) {
        let alert = &loaded.alert;
        let value = condition.value(figures_of(alert));
        // This id is discarded.
        let step = alert.lifecycle.evaluate(alert.rule(), truth, now, is_watched, || FiringId::from(""));
        let is_new_peak = || condition.peak(alert.threshold, alert.peak_value, value) != alert.peak_value;
        let has_new_peak = alert.state().is_open() && truth == Truth::True && is_new_peak();
        if step.lifecycle != alert.lifecycle || step.notice.is_some() || has_new_peak {
            let condition = Arc::clone(condition);
            verdicts.push(Verdict { id: alert.id.clone(), updated_at: alert.updated_at, condition, truth, value });
        }
    }
    verdicts
}
