//! Operations on alerts.

mod actions;
mod change;
mod evaluate;
mod figures;
mod minutes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use agentd_automation::hooks::Hooks;
use agentd_automation::notify::{NotificationStatus, Notify};
use agentd_automation::scheduler::Scheduler;
use agentd_base::{Page, Timestamp};
use agentd_core::lease::HeldRow;
use agentd_core::parts::Detached;
use agentd_core::rollups::Rollups;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::providers::Providers;
use agentd_store::{Read, Snapshot, StoreError, Tx};
use parking_lot::Mutex;
use serde_json::Value;

use super::error::AlertError;
use super::model::{Alert, AlertId, AlertState, CompiledCondition, Figures, Firing, notice_key};
use super::store;
use crate::monitoring::SystemProbe;
pub(super) use actions::Action;
pub(super) use change::Preview;
pub(super) use evaluate::{EVALUATION_INTERVAL, FIRING_RETENTION};
use minutes::Minutes;

/// Sources of values, and the sender of notices.
#[derive(Debug, Clone)]
pub struct AlertSources {
    pub settings: Settings,
    pub rollups: Rollups,
    pub providers: Providers,
    pub hooks: Hooks,
    pub scheduler: Scheduler,
    pub notify: Notify,
    pub system: SystemProbe,
}

/// Alert with its value at the last evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertWithValue {
    pub alert: Alert,
    pub value: Option<f64>,
}

#[derive(Debug)]
struct LoadedAlert {
    alert: Alert,
    /// Parsed condition of an enabled alert; `None` if it does not parse under the current rules.
    condition: Option<Arc<CompiledCondition>>,
}

/// Last evaluation by this daemon.
#[derive(Debug, Default)]
struct Evaluated {
    at: Timestamp,
    /// Stored values by period.
    figures: BTreeMap<u32, Value>,
}

struct Inner {
    context: AppContext,
    sources: AlertSources,
    loaded: Snapshot<Vec<LoadedAlert>>,
    /// Parsed conditions by text.
    compiled: Mutex<HashMap<String, Arc<CompiledCondition>>>,
    minutes: tokio::sync::Mutex<Minutes>,
    evaluated: Mutex<Evaluated>,
    /// Lease of the evaluation while this daemon holds it.
    lease: Mutex<Option<HeldRow>>,
    next_evaluation: NextDue,
    wake: Arc<tokio::sync::Notify>,
}

/// Service for alerts. Cheap to clone.
#[derive(Clone)]
pub struct Alerts(Arc<Inner>);

impl std::fmt::Debug for Alerts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alerts").finish_non_exhaustive()
    }
}

impl Alerts {
    pub fn new(context: &AppContext, sources: AlertSources) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            loaded: Snapshot::new(&context.db, &[store::ALERTS]),
            context: context.clone(),
            sources,
            compiled: Mutex::default(),
            minutes: tokio::sync::Mutex::default(),
            evaluated: Mutex::default(),
            lease: Mutex::default(),
            next_evaluation: NextDue::default(),
            wake: Arc::default(),
        })))
    }

    pub(super) fn wake(&self) -> Arc<tokio::sync::Notify> {
        Arc::clone(&self.0.wake)
    }

    pub(super) fn next_evaluation(&self) -> Timestamp {
        self.0.next_evaluation.at()
    }

    /// Returns the parsed condition from the cache; `None` if it does not parse under the current rules.
    fn condition(&self, text: &str) -> Option<Arc<CompiledCondition>> {
        if let Some(known) = self.0.compiled.lock().get(text) {
            return Some(Arc::clone(known));
        }
        let compiled = Arc::new(CompiledCondition::compile(text).ok()?);
        self.0.compiled.lock().insert(text.to_owned(), Arc::clone(&compiled));
        Some(compiled)
    }

    async fn loaded(&self) -> Result<Arc<Vec<LoadedAlert>>, AlertError> {
        let this = self.clone();
        let load = async move |read: &mut Read| {
            let alerts = store::list_alerts(read).await?;
            let enabled_alerts = alerts.iter().filter(|alert| alert.enabled);
            let texts: HashSet<&str> = enabled_alerts.map(|alert| alert.condition.as_str()).collect();
            this.0.compiled.lock().retain(|text, _| texts.contains(text.as_str()));
            // Parsed here rather than at the start of the daemon, where it would cost milliseconds and memory.
            let load = |alert: Alert| LoadedAlert {
                condition: alert.enabled.then(|| this.condition(&alert.condition)).flatten(),
                alert,
            };
            Ok::<_, StoreError>(alerts.into_iter().map(load).collect())
        };
        Ok(self.0.loaded.get(load).await?)
    }

    /// Returns the value of the last evaluation; unknown for a disabled alert.
    fn value(&self, alert: &Alert, figures: Option<&Value>) -> Option<f64> {
        let figures = Figures::from_json(figures.filter(|_| alert.enabled)?);
        self.condition(&alert.condition)?.value(&figures)
    }

    async fn with_value(&self, read: &mut Read, alert: Alert) -> Result<AlertWithValue, StoreError> {
        let figures = store::find_figures(read, alert.period_minutes).await?;
        Ok(AlertWithValue { value: self.value(&alert, figures.as_ref()), alert })
    }

    /// Returns all alerts in order of creation.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self) -> Result<Vec<AlertWithValue>, AlertError> {
        let loaded = self.loaded().await?;
        let figures = store::list_figures(&mut self.0.context.db.read().await?).await?;
        let figures: BTreeMap<u32, Figures> =
            figures.iter().map(|(period, json)| (*period, Figures::from_json(json))).collect();
        let shown = |loaded: &LoadedAlert| {
            let known = figures.get(&loaded.alert.period_minutes).filter(|_| loaded.alert.enabled);
            let value = known.zip(loaded.condition.as_ref()).and_then(|(known, condition)| condition.value(known));
            AlertWithValue { alert: loaded.alert.clone(), value }
        };
        Ok(loaded.iter().map(shown).collect())
    }

    /// Returns the number of enabled alerts by state.
    ///
    /// # Errors
    /// The database fails.
    pub async fn count_by_state(&self) -> Result<Vec<(&'static str, u64)>, AlertError> {
        let loaded = self.loaded().await?;
        let count = |state: AlertState| {
            let of_state = loaded.iter().filter(|loaded| loaded.alert.enabled && loaded.alert.state() == state);
            (state.as_str(), of_state.count() as u64)
        };
        Ok(AlertState::ALL.into_iter().map(count).collect())
    }

    /// Returns an alert with its current value.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn get(&self, id: &AlertId) -> Result<AlertWithValue, AlertError> {
        let mut read = self.0.context.db.read().await?;
        let alert = store::find_alert(&mut read, id).await?.ok_or_else(|| AlertError::not_found(id.as_str()))?;
        Ok(self.with_value(&mut read, alert).await?)
    }

    /// Returns a page of firings, newest first, with the delivery outcome of each notice, and their total number.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn history(&self, id: &AlertId, page: Page) -> Result<(Vec<FiringWithOutcomes>, u64), AlertError> {
        let mut read = self.0.context.db.read_snapshot().await?;
        store::find_alert(&mut read, id).await?.ok_or_else(|| AlertError::not_found(id.as_str()))?;
        let (firings, total) = store::list_firings(&mut read, id, page).await?;
        let keys: Vec<String> = firings
            .iter()
            .flat_map(|firing| firing.notices.iter().map(|notice| notice_key(&firing.id, notice.ordinal)))
            .collect();
        let mut outcomes = self.0.sources.notify.outcomes(&mut read, &keys).await?;
        let with_outcomes = |firing: Firing| {
            let outcomes = firing.notices.iter().map(|notice| outcomes.remove(&notice_key(&firing.id, notice.ordinal)));
            FiringWithOutcomes { outcomes: outcomes.collect(), firing }
        };
        Ok((firings.into_iter().map(with_outcomes).collect(), total))
    }
}

/// Firing with the delivery outcomes of its notices, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct FiringWithOutcomes {
    pub firing: Firing,
    pub outcomes: Vec<Option<(NotificationStatus, Option<String>)>>,
}

async fn require_alert(tx: &mut Tx, id: &AlertId) -> Result<Alert, AlertError> {
    store::find_alert(tx, id).await?.ok_or_else(|| AlertError::not_found(id.as_str()))
}
