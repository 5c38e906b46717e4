//! Rate limit per sender and in total, and a limit on the backlog. Counted per process: several daemons each admit up
//! to the limits.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Db, StoreError};
use parking_lot::Mutex;

use super::rate::{Bucket, Rate};
use crate::runtime::AppContext;

/// Maximum number of unread events.
const MAX_UNREAD: u32 = 100_000;
/// Time for which a backlog check is reused.
const BACKLOG_CACHE_TTL: Duration = Duration::from_secs(1);

/// Limits of one kind of inbound messages.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rate of one sender.
    pub of_one: Rate,
    /// Rate of all senders together.
    pub in_all: Rate,
    /// Maximum number of senders.
    pub senders: usize,
    /// Queue of admitted messages.
    pub queue: &'static str,
    /// Maximum number of messages in `queue`.
    pub max_waiting: u64,
    /// Error message when `queue` is full.
    pub queue_is_full: &'static str,
}

/// Reason for rejecting a message.
#[derive(Debug)]
pub enum Refusal {
    TooFast {
        retry_after: Duration,
    },
    TooFastInAll {
        retry_after: Duration,
    },
    /// The backlog of admitted messages is too large.
    Overloaded {
        backlog: &'static str,
    },
    Store(StoreError),
}

#[derive(Debug)]
struct Buckets<S> {
    of: HashMap<S, Bucket>,
    in_all: Option<Bucket>,
}

/// Rate limiter with token buckets for senders identified by `S`.
#[derive(Debug)]
pub struct RateLimiter<S> {
    limits: Limits,
    buckets: Mutex<Buckets<S>>,
    /// Time and result of the last backlog check.
    backlog: tokio::sync::Mutex<Option<(Timestamp, Option<&'static str>)>>,
}

impl<S: Clone + Eq + Hash> RateLimiter<S> {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let buckets = Mutex::new(Buckets { of: HashMap::new(), in_all: None });
        Self { limits, buckets, backlog: tokio::sync::Mutex::default() }
    }

    /// Admits one message of a sender.
    ///
    /// # Errors
    /// `Refusal::TooFast` or `Refusal::TooFastInAll` if a rate is exceeded.
    pub fn admit(&self, sender: &S, now: Timestamp) -> Result<(), Refusal> {
        let Limits { of_one, in_all: of_all, senders, .. } = self.limits;
        let mut buckets = self.buckets.lock();
        let Buckets { of, in_all } = &mut *buckets;
        // Senders deleted by other daemons never come back, so stale entries are dropped all at once.
        if of.len() > 2 * senders {
            of.clear();
        }
        let own = of.entry(sender.clone()).or_insert_with(|| Bucket::full(of_one, now));
        own.take(of_one, now).map_err(|retry_after| Refusal::TooFast { retry_after })?;
        let all = in_all.get_or_insert_with(|| Bucket::full(of_all, now));
        all.take(of_all, now).map_err(|retry_after| {
            own.put_back();
            Refusal::TooFastInAll { retry_after }
        })
    }

    /// Returns the tokens of an admitted message that could not be stored and will be sent again.
    pub fn put_back(&self, sender: &S) {
        let mut buckets = self.buckets.lock();
        let Buckets { of, in_all } = &mut *buckets;
        for bucket in of.get_mut(sender).into_iter().chain(in_all) {
            bucket.put_back();
        }
    }

    /// Removes the state of a deleted sender.
    pub fn forget(&self, sender: &S) {
        self.buckets.lock().of.remove(sender);
    }

    /// Rejects messages while the backlog is too large. Queries the database at most once per second.
    ///
    /// # Errors
    /// `Refusal::Overloaded` if the backlog is too large, `Refusal::Store` if it cannot be queried.
    pub async fn check_backlog(&self, context: &AppContext) -> Result<(), Refusal> {
        let now = context.clock.now();
        let mut known = self.backlog.lock().await;
        let is_known = known.is_some_and(|(at, _)| at <= now && now.since(at) < BACKLOG_CACHE_TTL);
        if !is_known {
            *known = Some((now, self.find_backlog(&context.db).await.map_err(Refusal::Store)?));
        }
        match *known {
            Some((_, Some(backlog))) => Err(Refusal::Overloaded { backlog }),
            _ => Ok(()),
        }
    }

    async fn find_backlog(&self, db: &Db) -> Result<Option<&'static str>, StoreError> {
        let mut read = db.read().await?;
        let queue = read.queue_stats(self.limits.queue).await?;
        if queue.pending + queue.leased >= self.limits.max_waiting {
            return Ok(Some(self.limits.queue_is_full));
        }
        let unread = read.count_unread_events(MAX_UNREAD).await?;
        Ok((unread >= u64::from(MAX_UNREAD)).then_some("too many unread events"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        of_one: Rate { per_minute: 600 },
        in_all: Rate { per_minute: 6_000 },
        senders: 1_000,
        queue: "test",
        max_waiting: 1,
        queue_is_full: "",
    };

    #[test]
    fn fast_sender_does_not_limit_other_senders() {
        let (admission, now) = (RateLimiter::new(LIMITS), Timestamp::from_micros(0));
        let flood = "flood".to_owned();
        for _ in 0..LIMITS.of_one.per_minute {
            admission.admit(&flood, now).unwrap();
        }
        for _ in 0..10_000 {
            assert!(matches!(admission.admit(&flood, now), Err(Refusal::TooFast { .. })));
        }
        admission.admit(&"calm".to_owned(), now).unwrap();
        admission.forget(&flood);
        admission.admit(&flood, now).unwrap();
    }

    #[test]
    fn senders_share_a_total_rate() {
        let (admission, now) = (RateLimiter::new(LIMITS), Timestamp::from_micros(0));
        let mut admitted = 0;
        let mut refused = None;
        for number in 0..20 {
            let id = format!("sender {number}");
            for _ in 0..LIMITS.of_one.per_minute {
                match admission.admit(&id, now) {
                    Ok(()) => admitted += 1,
                    Err(error) => refused = Some(error),
                }
            }
        }
        assert_eq!(admitted, LIMITS.in_all.per_minute);
        assert!(matches!(refused, Some(Refusal::TooFastInAll { .. })));
        // A message rejected by the total rate does not use up the sender's own rate.
        let later = now + Duration::from_secs(1);
        admission.admit(&"sender 19".to_owned(), later).unwrap();
    }
}
