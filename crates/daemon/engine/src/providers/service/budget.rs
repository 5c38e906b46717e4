//! Setting tokens aside before a call, and settling them after it.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::rollups;
use agentd_store::{Durability, Read, StoreError, Tx};
use tokio::time::Instant;

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{ASSUMED_OUTPUT, BudgetState, CallBound, Fit, until_midnight};
use crate::providers::store;
use crate::providers::store::reservations;

/// How long tokens stay set aside without a sign of life.
const LEASE: Duration = Duration::from_secs(30);
/// A call waits so long for what others give back.
const WAIT: Duration = Duration::from_secs(5);
/// Looks again after so long, should the word of another replica not have come through.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// When to try again, where others have set aside what is left.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct PlannedCall {
    /// Names what is set aside: one call at a time under each name.
    pub id: String,
    pub agent_id: String,
    /// `daily_token_limit` of the agent.
    pub agent_limit: Option<u64>,
    /// Tokens used under this name that are not recorded yet.
    pub unrecorded: u64,
    pub provider: String,
    pub model: String,
    /// Of the prompt, in tokens.
    pub prompt: u64,
    /// The messages among them.
    pub messages: u64,
    pub max_output_tokens: Option<u32>,
}

/// Tokens set aside for one call after the other under one name. Given back when dropped, unless they were settled.
#[derive(Debug)]
pub struct Reservation {
    id: String,
    providers: Providers,
    is_settled: bool,
    /// How much the call may write, where that is less than it wants.
    pub max_output_tokens: Option<u32>,
}

impl Reservation {
    /// The transaction that settled it is through.
    pub fn settled(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.providers.0.reservations.lock().remove(&self.id);
        // Without a runtime the daemon is at its end, and the lease does it.
        let (false, Ok(runtime)) = (self.is_settled, tokio::runtime::Handle::try_current()) else { return };
        let (providers, id) = (self.providers.clone(), self.id.clone());
        runtime.spawn(async move {
            let release = async move |tx: &mut Tx| reservations::delete_reservation(tx, &id).await;
            if let Err(error) = providers.0.db.write_relaxed(release).await {
                tracing::debug!(%error, "tokens that were set aside are given back when their lease ends");
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
    /// Sets aside what a call can use at most, in the place of what `held` has set aside before under the same
    /// name. Waits a little while others have set aside what is left. Without any budget nothing is set aside, and
    /// the database is not asked.
    ///
    /// # Errors
    /// A budget that is used up, or the rest of which is set aside for others.
    pub async fn reserve(&self, call: &PlannedCall, held: &mut Option<Reservation>) -> Result<(), ProviderError> {
        self.0.settings.refresh().await?;
        let Some(limits) = self.limits(call.agent_limit) else { return Ok(()) };
        let bound = self.bound(call).await?;
        let mut attempt = self.try_reserve(call, limits, bound).await?;
        if matches!(attempt, Attempt::Busy) {
            attempt =
                tokio::time::timeout(WAIT, self.reserve_after_others(call, bound)).await.unwrap_or(Ok(attempt))?;
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
            Attempt::Busy => Err(ProviderError::BudgetReserved { retry_after: TRY_AGAIN }),
            Attempt::Refused(error) => Err(error),
        }
    }

    fn reservation(&self, id: String, max_output_tokens: Option<u32>) -> Reservation {
        self.0.reservations.lock().insert(id.clone());
        Reservation { id, providers: self.clone(), is_settled: false, max_output_tokens }
    }

    /// One after the other, so that those who wait do not wake each other.
    async fn reserve_after_others(&self, call: &PlannedCall, bound: CallBound) -> Result<Attempt, ProviderError> {
        let _turn = self.0.waiting.lock().await;
        let mut changes = self.0.db.watch(reservations::RESERVATIONS);
        loop {
            changes.borrow_and_update();
            self.0.settings.refresh().await?;
            let limits =
                self.limits(call.agent_limit).unwrap_or(Limits { total: None, today: None, agent_today: None });
            let attempt = self.try_reserve(call, limits, bound).await?;
            if !matches!(attempt, Attempt::Busy) || self.0.draining.is_cancelled() {
                return Ok(attempt);
            }
            let look_again = tokio::time::sleep_until(Instant::now() + LOOK_AGAIN);
            tokio::select! {
                _ = changes.changed() => {}
                () = look_again => {}
            }
        }
    }

    /// `None`: there is no budget.
    fn limits(&self, agent_today: Option<u64>) -> Option<Limits> {
        let settings = self.0.settings.agent();
        let limits = Limits { total: settings.total_token_limit, today: settings.daily_token_limit, agent_today };
        (limits.total.is_some() || limits.today.is_some() || agent_today.is_some()).then_some(limits)
    }

    async fn bound(&self, call: &PlannedCall) -> Result<CallBound, ProviderError> {
        let table = self.price_table().await?;
        let writes = table.max_output_tokens(&call.provider, &call.model);
        let wanted = call.max_output_tokens.map(u64::from);
        let output = wanted.into_iter().chain(writes).min().unwrap_or(ASSUMED_OUTPUT);
        Ok(CallBound { prompt: call.prompt, messages: call.messages, output })
    }

    async fn try_reserve(
        &self,
        call: &PlannedCall,
        limits: Limits,
        bound: CallBound,
    ) -> Result<Attempt, ProviderError> {
        let (providers, call) = (self.clone(), call.clone());
        // What is not durable is lost together with the call that it was for.
        let reserve = async move |tx: &mut Tx| {
            reservations::take_turn(tx).await?;
            let now = tx.clock().now();
            reservations::delete_expired(tx, now).await?;
            match providers.fit(tx, &call, limits, &bound, now).await? {
                Attempt::Granted(output) => {
                    let tokens = call.unrecorded.saturating_add(bound.reserved(output));
                    reservations::put_reservation(tx, &call.id, &call.agent_id, tokens, now + LEASE).await?;
                    Ok(Attempt::Granted(output))
                }
                other => Ok(other),
            }
        };
        self.0.db.write_locking(Durability::Relaxed, reserve).await
    }

    /// Reads first what is set aside: what is settled meanwhile counts twice then, and never not at all.
    async fn fit(
        &self,
        read: &mut Read,
        call: &PlannedCall,
        limits: Limits,
        bound: &CallBound,
        now: Timestamp,
    ) -> Result<Attempt, ProviderError> {
        let (reserved, reserved_of_agent) = reservations::sum_reserved(read, &call.id, &call.agent_id).await?;
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
                Fit::UsedUp => {
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

    /// Gives back what is set aside under a name, in the transaction that records what was used.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn settle_reservation(&self, tx: &mut Tx, id: &str) -> Result<(), StoreError> {
        reservations::delete_reservation(tx, id).await
    }

    /// Keeps what this process has set aside.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn renew_reservations(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<String> = self.0.reservations.lock().iter().cloned().collect();
        reservations::renew_reservations(tx, &ids, LEASE).await
    }

    /// At the start: with a database for this daemon alone, whatever is set aside belonged to an earlier life of it.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn forget_reservations(&self) -> Result<(), StoreError> {
        if self.0.db.is_exclusive() {
            self.0.db.write_relaxed(async |tx: &mut Tx| reservations::delete_reservations(tx).await).await?;
        }
        Ok(())
    }
}
