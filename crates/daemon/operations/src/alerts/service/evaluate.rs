//! Evaluating all alerts, and what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_automation::notify::{Notification, Target};
use agentd_base::Timestamp;
use agentd_core::lease::HeldRow;
use agentd_core::vault::{VaultError, open_url};
use agentd_store::{Durability, StoreError, Tx};
use serde_json::Value;

use super::figures::Needed;
use super::minutes::Minutes;
use super::{Alerts, Evaluated, LoadedAlert};
use crate::alerts::error::AlertError;
use crate::alerts::events::{self, EndedBy};
use crate::alerts::model::{
    Alert, AlertId, CompiledCondition, Figures, FiringId, NoticeKind, Truth, notice_key, secret_scope,
};
use crate::alerts::{notice, store};

/// With the lease, whoever takes over from a daemon that was killed evaluates within 15 seconds.
pub(crate) const EVALUATION_INTERVAL: Duration = Duration::from_secs(6);
const LEASE: Duration = Duration::from_secs(9);
/// Where nobody evaluated for longer, nobody knows whether a condition held all the time.
const WATCHED_WITHIN: Duration = Duration::from_secs(90);
/// Firings of an alert that are kept.
const KEPT_FIRINGS: u32 = 1_000;
/// Notices of a firing that are kept.
const KEPT_NOTICES: u32 = 100;
pub(crate) const FIRINGS_ARE_KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 3600);

/// What an alert came to, where that changes something.
#[derive(Debug, Clone)]
struct Verdict {
    id: AlertId,
    /// Of what it said when it was evaluated.
    updated_at: Timestamp,
    condition: Arc<CompiledCondition>,
    truth: Truth,
    value: Option<f64>,
}

impl Alerts {
    /// One pass: reads figures, evaluates, and stores what changed. Answers how many alerts were evaluated.
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
        let claim = async move |tx: &mut Tx| store::claim(tx, &owner, held.as_ref(), LEASE).await;
        let claimed = self.0.context.db.write_locking::<_, StoreError, _>(Durability::Relaxed, claim).await?;
        let (lease, last) = claimed.unzip();
        self.0.lease.lock().clone_from(&lease);
        let (Some(lease), Some(last)) = (lease, last) else { return Ok(0) };
        if self.0.evaluated.lock().at != last {
            // Another daemon evaluated, or a backup was restored: what is stored may be other than what was read.
            *self.0.minutes.lock().await = Minutes::default();
        }
        let mut needed = Needed::new();
        for (loaded, condition) in &evaluated {
            needed.entry(loaded.alert.period_minutes).or_default().extend(condition.figures());
        }
        let figures = self.read_figures(&needed).await?;
        let is_watched = last <= now && now.since(last) <= WATCHED_WITHIN;
        let verdicts = verdicts(&evaluated, &figures, now, is_watched);
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
            match store::note_evaluated(tx, &lease, LEASE).await {
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

    /// What comes of a verdict, from where the alert stands now.
    async fn store_verdict(&self, tx: &mut Tx, verdict: &Verdict, is_watched: bool) -> Result<(), AlertError> {
        let Some(before) = store::find_alert(tx, &verdict.id).await? else { return Ok(()) };
        if before.updated_at != verdict.updated_at || !before.enabled {
            // It says something else by now, and is evaluated by that next time.
            return Ok(());
        }
        let (now, value) = (tx.clock().now(), verdict.value);
        let new_id = || FiringId::generate(&self.0.context.ids);
        let step = before.life.evaluate(before.rule(), verdict.truth, now, is_watched, new_id);
        let mut alert = Alert { life: step.life, ..before.clone() };
        if let Some(firing) = alert.life.firing_id.clone() {
            let peak = verdict.condition.peak(alert.threshold, before.peak_value, value);
            if step.has_begun {
                store::insert_firing(tx, &firing, &alert.id, value).await?;
                store::trim_firings(tx, &alert.id, KEPT_FIRINGS).await?;
                alert.last_triggered = Some(now);
                tx.emit(events::firing(&alert, value)).await?;
            } else if verdict.truth == Truth::True && peak != before.peak_value {
                store::update_peak(tx, &firing, peak).await?;
            }
        }
        if let Some(firing) = before.life.firing_id.as_ref().filter(|_| step.has_ended) {
            store::end_firing(tx, firing).await?;
            tx.emit(events::resolved(&before, value, EndedBy::Condition)).await?;
        }
        let is_wanted = |kind: &NoticeKind| *kind != NoticeKind::Resolved || alert.notify_resolved;
        if let Some(kind) = step.notice.filter(is_wanted) {
            let told = if step.has_ended { &before } else { &alert };
            let ordinal = told.life.notices + 1;
            let condition = &verdict.condition;
            self.tell(tx, told, condition, kind, ordinal, value).await?;
            alert.life.notices = if step.has_ended { 0 } else { ordinal };
        }
        Ok(store::update_life(tx, &alert).await?)
    }

    /// Tells somebody. `alert` is as it stands while it fires.
    async fn tell(
        &self,
        tx: &mut Tx,
        alert: &Alert,
        condition: &CompiledCondition,
        kind: NoticeKind,
        ordinal: u32,
        value: Option<f64>,
    ) -> Result<(), AlertError> {
        let Some(firing) = &alert.life.firing_id else { return Ok(()) };
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
        let shown = shown.map_or_else(|| delivery.kind.as_str().to_owned(), |target| target.shown());
        let problem = target.as_ref().err().map(String::as_str);
        store::insert_notice(tx, firing, ordinal, &shown, problem, KEPT_NOTICES).await?;
        let target = match target {
            Ok(target) => target,
            Err(problem) => {
                tracing::error!(alert = %alert.id, problem, "nobody can be told of an alert");
                return Ok(());
            }
        };
        let message = match &target {
            Target::Push(_) => notice::push(alert, kind, value, self.is_quiet()),
            _ => {
                let text = notice::text(alert, Some(condition), kind, value, alert.life.firing_since);
                Notification::new(target, text.subject, text.body).format(text.format)
            }
        };
        self.0.sources.notify.enqueue(tx, &message.idempotency_key(key)).await?;
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.0.sources.settings.is_quiet(self.0.context.clock.now())
    }

    /// Wakes the devices of the owner, where they are not where the alert is sent anyway.
    async fn wake_devices(
        &self,
        tx: &mut Tx,
        alert: &Alert,
        kind: NoticeKind,
        value: Option<f64>,
        key: &str,
    ) -> Result<(), AlertError> {
        let sources = &self.0.sources;
        let is_told = alert.delivery.as_ref().is_some_and(|delivery| matches!(delivery.target(), Ok(Target::Push(_))));
        if is_told || !sources.settings.proactive().push_alerts || !sources.notify.push().has_devices(tx).await? {
            return Ok(());
        }
        let message = notice::push(alert, kind, value, self.is_quiet()).idempotency_key(format!("push:{key}"));
        sources.notify.enqueue(tx, &message).await?;
        Ok(())
    }

    /// Forgets firings that ended long ago or have no alert any more, and figures that nobody asks for.
    pub(crate) async fn purge(&self, limit: u32) -> Result<u64, AlertError> {
        let before = self.0.context.clock.now() - FIRINGS_ARE_KEPT_FOR;
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

/// Evaluates all, and leaves out those for which nothing changes.
fn verdicts(
    evaluated: &[(&LoadedAlert, &Arc<CompiledCondition>)],
    figures: &BTreeMap<u32, Figures>,
    now: Timestamp,
    is_watched: bool,
) -> Vec<Verdict> {
    let none = Figures::default();
    let of_period = |alert: &Alert| figures.get(&alert.period_minutes).unwrap_or(&none);
    let asked: Vec<(&CompiledCondition, &Figures, f64)> = evaluated
        .iter()
        .map(|(loaded, condition)| (&***condition, of_period(&loaded.alert), loaded.alert.threshold))
        .collect();
    let truths = CompiledCondition::evaluate_all(&asked);
    let mut verdicts = Vec::new();
    for ((loaded, condition), truth) in evaluated.iter().zip(truths) {
        let alert = &loaded.alert;
        let value = condition.value(of_period(alert));
        // The id is thrown away.
        let step = alert.life.evaluate(alert.rule(), truth, now, is_watched, || FiringId::from(""));
        let is_new_peak = || condition.peak(alert.threshold, alert.peak_value, value) != alert.peak_value;
        let rises = alert.state().is_open() && truth == Truth::True && is_new_peak();
        if step.life != alert.life || step.notice.is_some() || rises {
            let condition = Arc::clone(condition);
            verdicts.push(Verdict { id: alert.id.clone(), updated_at: alert.updated_at, condition, truth, value });
        }
    }
    verdicts
}
