//! How much is let in: requests a minute, and how much may wait to be worked off. Counted in this
//! process; of several daemons each lets so much in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Db;
use parking_lot::Mutex;

use super::error::WebhookError;
use super::model::{Bucket, MAX_WEBHOOKS, QUEUE, Rate, WebhookId};
use crate::runtime::AppContext;

/// Of one webhook.
const RATE: Rate = Rate { per_minute: 600 };
/// Of all together.
const RATE_IN_ALL: Rate = Rate { per_minute: 6_000 };
/// Turns that wait for their beginning.
const MAX_WAITING: u64 = 10_000;
/// Events that somebody has still to read.
const MAX_UNREAD: u32 = 100_000;
/// How long what was found out about a backlog holds.
const BACKLOG_AGE: Duration = Duration::from_secs(1);

/// What became of requests to webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    Repeated,
    /// The signature is missing, wrong or too old.
    Unsigned,
    Disabled,
    RateLimited,
    Overloaded,
    /// No such webhook, or a header that cannot be read or came with another body before.
    Invalid,
    /// The daemon could not store it.
    Failed,
}

const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Accepted, "accepted"),
    (Outcome::Repeated, "repeated"),
    (Outcome::Unsigned, "unsigned"),
    (Outcome::Disabled, "disabled"),
    (Outcome::RateLimited, "rate_limited"),
    (Outcome::Overloaded, "overloaded"),
    (Outcome::Invalid, "invalid"),
    (Outcome::Failed, "failed"),
];

impl Outcome {
    pub(super) fn of(error: &WebhookError) -> Self {
        match error {
            WebhookError::Signature(_) => Self::Unsigned,
            WebhookError::Disabled => Self::Disabled,
            WebhookError::TooFast { .. } | WebhookError::TooFastInAll { .. } => Self::RateLimited,
            WebhookError::Overloaded { .. } => Self::Overloaded,
            WebhookError::NotFound { .. } | WebhookError::Invalid { .. } | WebhookError::KeyReused => Self::Invalid,
            _ => Self::Failed,
        }
    }
}

/// Requests since the daemon started.
#[derive(Debug, Default)]
pub(super) struct RequestCounts([AtomicU64; OUTCOMES.len()]);

impl RequestCounts {
    pub(super) fn count(&self, outcome: Outcome) {
        if let Some(count) = OUTCOMES.iter().position(|(known, _)| *known == outcome).and_then(|at| self.0.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Vec<(&'static str, u64)> {
        OUTCOMES.iter().zip(&self.0).map(|((_, name), count)| (*name, count.load(Ordering::Relaxed))).collect()
    }
}

#[derive(Debug, Default)]
struct Buckets {
    of: HashMap<WebhookId, Bucket>,
    in_all: Option<Bucket>,
}

/// The bounds, and what is left of them.
#[derive(Debug, Default)]
pub(super) struct Admission {
    buckets: Mutex<Buckets>,
    /// When the backlog was last looked at, and what of it is too long.
    backlog: tokio::sync::Mutex<Option<(Timestamp, Option<&'static str>)>>,
}

impl Admission {
    /// Lets one request of a webhook in.
    pub(super) fn admit(&self, webhook: &WebhookId, now: Timestamp) -> Result<(), WebhookError> {
        let mut buckets = self.buckets.lock();
        let Buckets { of, in_all } = &mut *buckets;
        // Those of webhooks that other daemons deleted are never asked for again.
        if of.len() > 2 * MAX_WEBHOOKS {
            of.clear();
        }
        let own = of.entry(webhook.clone()).or_insert_with(|| Bucket::full(RATE, now));
        own.take(RATE, now).map_err(|retry_after| WebhookError::TooFast { retry_after })?;
        let all = in_all.get_or_insert_with(|| Bucket::full(RATE_IN_ALL, now));
        all.take(RATE_IN_ALL, now).map_err(|retry_after| {
            own.put_back();
            WebhookError::TooFastInAll { retry_after }
        })
    }

    pub(super) fn forget(&self, webhook: &WebhookId) {
        self.buckets.lock().of.remove(webhook);
    }

    /// Refuses while too much waits to be worked off. The database is asked once a second, however many
    /// requests come.
    pub(super) async fn check_backlog(&self, context: &AppContext) -> Result<(), WebhookError> {
        let now = context.clock.now();
        let mut known = self.backlog.lock().await;
        let is_known = known.is_some_and(|(at, _)| at <= now && now.since(at) < BACKLOG_AGE);
        if !is_known {
            *known = Some((now, find_backlog(&context.db).await?));
        }
        match *known {
            Some((_, Some(backlog))) => Err(WebhookError::Overloaded { backlog }),
            _ => Ok(()),
        }
    }
}

async fn find_backlog(db: &Db) -> Result<Option<&'static str>, WebhookError> {
    let mut read = db.read().await?;
    let queue = read.queue_stats(QUEUE).await?;
    if queue.pending + queue.leased >= MAX_WAITING {
        return Ok(Some("too many deliveries wait for their agents"));
    }
    let unread = read.count_unread_events(MAX_UNREAD).await?;
    Ok((unread >= u64::from(MAX_UNREAD)).then_some("too many events wait for those who react to them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_webhook_does_not_use_up_the_others() {
        let (admission, now) = (Admission::default(), Timestamp::from_micros(0));
        let flood = WebhookId::from("whk_flood");
        for _ in 0..RATE.per_minute {
            admission.admit(&flood, now).unwrap();
        }
        for _ in 0..10_000 {
            assert!(matches!(admission.admit(&flood, now), Err(WebhookError::TooFast { .. })));
        }
        admission.admit(&WebhookId::from("whk_calm"), now).unwrap();
        admission.forget(&flood);
        admission.admit(&flood, now).unwrap();
    }

    #[test]
    fn all_together_have_a_bound() {
        let (admission, now) = (Admission::default(), Timestamp::from_micros(0));
        let mut admitted = 0;
        let mut refused = None;
        for number in 0..20 {
            let id = WebhookId::from(format!("whk_{number}"));
            for _ in 0..RATE.per_minute {
                match admission.admit(&id, now) {
                    Ok(()) => admitted += 1,
                    Err(error) => refused = Some(error),
                }
            }
        }
        assert_eq!(admitted, RATE_IN_ALL.per_minute);
        assert!(matches!(refused, Some(WebhookError::TooFastInAll { .. })));
        // What the others used up is not counted against one that was not let in.
        let later = now + Duration::from_secs(1);
        admission.admit(&WebhookId::from("whk_19"), later).unwrap();
    }

    #[test]
    fn every_outcome_has_a_name_of_its_own() {
        let counts = RequestCounts::default();
        for (outcome, _) in OUTCOMES {
            counts.count(outcome);
        }
        assert!(counts.read().iter().all(|(_, count)| *count == 1));
    }
}
