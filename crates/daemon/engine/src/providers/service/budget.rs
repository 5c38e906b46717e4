//! Reserves tokens before a call and settles them after it.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::rollups;
use agentd_store::{Durability, Read, StoreError, Tx};
use tokio::time::Instant;

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{ASSUMED_OUTPUT, BudgetState, CallBound, Fit, until_midnight};
use crate::providers::store;

/// Lease duration of a reservation.
const LEASE_DURATION: Duration = Duration::from_secs(30);
/// Maximum time that a call waits for tokens of other calls.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Poll interval while waiting, in case a notification of another replica is lost.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Retry hint for clients if the remainder is reserved for other calls.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A call for which tokens are to be reserved.
#[derive(Debug, Clone)]
pub struct PlannedCall {
    /// Id of the reservation; one call at a time per id.
    pub id: String,
    pub agent_id: String,
    /// `daily_token_limit` of the agent.
    pub agent_limit: Option<u64>,
    /// Used tokens of this id that are not recorded yet.
    pub unrecorded: u64,
    pub provider: String,
    pub model: String,
    /// Size of the prompt in tokens.
    pub prompt: u64,
    /// Size of the messages within the prompt.
    pub messages: u64,
    pub max_output_tokens: Option<u32>,
}

/// Tokens reserved for consecutive calls under one id. Released on drop unless they were settled.
#[derive(Debug)]
pub struct Reservation {
    id: String,
    providers: Providers,
    is_settled: bool,
    /// Output limit of the call, if it is lower than requested.
    pub max_output_tokens: Option<u32>,
}

impl Reservation {
    /// Marks the reservation as settled after the transaction has committed.
    pub fn settled(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.providers.0.reservations.lock().remove(&self.id);
        // Without a runtime the daemon is exiting; the lease expires instead.
        let (false, Ok(runtime)) = (self.is_settled, tokio::runtime::Handle::try_current()) else { return };
        let (providers, id) = (self.providers.clone(), self.id.clone());
        runtime.spawn(async move {
            let release = async move |tx: &mut Tx| store::delete_reservation(tx, &id).await;
            if let Err(error) = providers.0.db.write_relaxed(release).await {
                tracing::debug!(%error, "failed to release a reservation; it expires with its lease");
            }
        });
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    total: Option<u64>,
    today: Option<u64>,
    agent_today: Option<u64>,
}

enum Attempt {
    Granted(u64),
    Busy,
    Refused(ProviderError),
}

impl Providers {
    /// Reserves the maximum usage of a call; replaces the previous reservation in `held`. Waits for a limited time
    /// while the remainder is reserved for other calls. Without a budget, nothing is reserved and the database is not
    /// accessed.
    ///
    /// # Errors
    /// A budget is exhausted, or its remainder is reserved for other calls.
    pub async fn reserve(&self, call: &PlannedCall, held: &mut Option<Reservation>) -> Result<(), ProviderError> {
        self.0.settings.refresh().await?;
        let Some(limits) = self.limits(call.agent_limit) else { return Ok(()) };
        let bound = self.bound(call).await?;
        let mut attempt = self.try_reserve(call, limits, bound).await?;
        if matches!(attempt, Attempt::Busy) {
            attempt =
                tokio::time::timeout(MAX_WAIT, self.reserve_after_others(call, bound)).await.unwrap_or(Ok(attempt))?;
        }
        match attempt {
            Attempt::Granted(output) => {
                let cut = u32::try_from(output).ok().filter(|_| output < bound.output);
                match held {
                    Some(held) => held.max_output_tokens = cut,
                    None => *held = Some(self.reservation(call.id.clone(), cut)),
                }
                Ok(())
            }
            Attempt::Busy => Err(ProviderError::BudgetReserved { retry_after: RETRY_AFTER }),
            Attempt::Refused(error) => Err(error),
        }
    }

    fn reservation(&self, id: String, max_output_tokens: Option<u32>) -> Reservation {
        self.0.reservations.lock().insert(id.clone());
        Reservation { id, providers: self.clone(), is_settled: false, max_output_tokens }
    }

    /// Waiters proceed one at a time so that they do not wake each other.
    async fn reserve_after_others(&self, call: &PlannedCall, bound: CallBound) -> Result<Attempt, ProviderError> {
        let _guard = self.0.waiting.lock().await;
        let mut changes = self.0.db.watch(store::RESERVATIONS);
        loop {
            changes.borrow_and_update();
            self.0.settings.refresh().await?;
            let limits =
                self.limits(call.agent_limit).unwrap_or(Limits { total: None, today: None, agent_today: None });
            let attempt = self.try_reserve(call, limits, bound).await?;
            if !matches!(attempt, Attempt::Busy) || self.0.draining.is_cancelled() {
                return Ok(attempt);
            }
            let poll = tokio::time::sleep_until(Instant::now() + POLL_INTERVAL);
            tokio::select! {
                _ = changes.changed() => {}
                () = poll => {}
            }
        }
    }

    /// Returns the limits; `None` without a budget.
    fn limits(&self, agent_today: Option<u64>) -> Option<Limits> {
        let settings = self.0.settings.agent();
        let limits = Limits { total: settings.total_token_limit, today: settings.daily_token_limit, agent_today };
        (limits.total.is_some() || limits.today.is_some() || agent_today.is_some()).then_some(limits)
    }

    async fn bound(&self, call: &PlannedCall) -> Result<CallBound, ProviderError> {
        let table = self.price_table().await?;
        let model_limit = table.max_output_tokens(&call.provider, &call.model);
        let wanted = call.max_output_tokens.map(u64::from);
        let output = wanted.into_iter().chain(model_limit).min().unwrap_or(ASSUMED_OUTPUT);
        Ok(CallBound { prompt: call.prompt, messages: call.messages, output })
    }

    async fn try_reserve(
        &self,
        call: &PlannedCall,
        limits: Limits,
        bound: CallBound,
    ) -> Result<Attempt, ProviderError> {
        let (providers, call) = (self.clone(), call.clone());
        // A reservation that is not durable is lost together with its call.
        let reserve = async move |tx: &mut Tx| {
            store::lock_budget(tx).await?;
            let now = tx.clock().now();
            store::delete_expired(tx, now).await?;
            match providers.fit(tx, &call, limits, &bound, now).await? {
                Attempt::Granted(output) => {
                    let tokens = call.unrecorded.saturating_add(bound.reserved(output));
                    store::put_reservation(tx, &call.id, &call.agent_id, tokens, now + LEASE_DURATION).await?;
                    Ok(Attempt::Granted(output))
                }
                other => Ok(other),
            }
        };
        self.0.db.write_locking(Durability::Relaxed, reserve).await
    }

    /// Reads the reservations first: usage settled concurrently is then counted twice, never missed.
    async fn fit(
        &self,
        read: &mut Read,
        call: &PlannedCall,
        limits: Limits,
        bound: &CallBound,
        now: Timestamp,
    ) -> Result<Attempt, ProviderError> {
        let (reserved, reserved_of_agent) = store::sum_reserved(read, &call.id, &call.agent_id).await?;
        let today = self.0.settings.day(now);
        let (used_today, total_used) = match (limits.today, limits.total) {
            (None, None) => (0, 0),
            _ => store::sum_tokens(read, today).await?,
        };
        let used_by_agent = match limits.agent_today {
            Some(_) => {
                let since = rollups::Zoned(self.0.settings.timezone()).start_of(today);
                rollups::sum_tokens_of_agent(read, &call.agent_id, since).await?
            }
            None => 0,
        };
        let retry_after = until_midnight(now, &self.0.settings.timezone());
        let budgets = [
            (limits.total, total_used, reserved, None),
            (limits.today, used_today, reserved, Some(false)),
            (limits.agent_today, used_by_agent, reserved_of_agent, Some(true)),
        ];
        let (mut granted, mut is_busy) = (bound.output, false);
        for (limit, used, reserved, of_agent) in budgets {
            let Some(limit) = limit else { continue };
            match (BudgetState { limit, used: used.saturating_add(call.unrecorded), reserved }).fit(bound) {
                Fit::Granted(output) => granted = granted.min(output),
                Fit::Busy => is_busy = true,
                Fit::Exhausted => {
                    return Ok(Attempt::Refused(match of_agent {
                        None => ProviderError::TotalBudget { limit },
                        Some(false) => ProviderError::DailyBudget { limit, retry_after },
                        Some(true) => ProviderError::AgentBudget { limit, retry_after },
                    }));
                }
            }
        }
        Ok(if is_busy { Attempt::Busy } else { Attempt::Granted(granted) })
    }

    /// Releases a reservation in the transaction that records the usage.
    ///
    /// # Errors
    /// A store error.
    pub async fn settle_reservation(&self, tx: &mut Tx, id: &str) -> Result<(), StoreError> {
        store::delete_reservation(tx, id).await
    }

    /// Renews the reservations of this process.
    ///
    /// # Errors
    /// A store error.
    pub async fn renew_reservations(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<String> = self.0.reservations.lock().iter().cloned().collect();
        store::renew_reservations(tx, &ids, LEASE_DURATION).await
    }

    /// Deletes stale reservations at startup, if the database is exclusive to this daemon.
    ///
    /// # Errors
    /// A store error.
    pub async fn delete_stale_reservations(&self) -> Result<(), StoreError> {
        if self.0.db.is_exclusive() {
            self.0.db.write_relaxed(async |tx: &mut Tx| store::delete_reservations(tx).await).await?;
        }
        Ok(())
    }
}
