//! How much is let in: messages a minute, and how much may wait to be worked off. Counted in this
//! process; of several daemons each lets so much in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Db, StoreError};
use parking_lot::Mutex;

use super::rate::{Bucket, Rate};
use crate::runtime::AppContext;

/// Events that somebody has still to read.
const MAX_UNREAD: u32 = 100_000;
/// How long what was found out about a backlog holds.
const BACKLOG_AGE: Duration = Duration::from_secs(1);

/// The bounds of one way in.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one sender.
    pub of_one: Rate,
    /// Of all together.
    pub in_all: Rate,
    /// How many senders there are at most.
    pub senders: usize,
    /// Where what was let in waits, and how much of it may.
    pub queue: &'static str,
    pub max_waiting: u64,
    /// What is said when more would wait there.
    pub queue_is_full: &'static str,
}

/// Why something is not let in.
#[derive(Debug)]
pub enum Refusal {
    TooFast {
        retry_after: Duration,
    },
    TooFastInAll {
        retry_after: Duration,
    },
    /// What was let in before is not worked off yet.
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

/// The bounds for senders that `S` tells apart, and what is left of them.
#[derive(Debug)]
pub struct RateLimiter<S> {
    limits: Limits,
    buckets: Mutex<Buckets<S>>,
    /// When the backlog was last looked at, and what of it is too long.
    backlog: tokio::sync::Mutex<Option<(Timestamp, Option<&'static str>)>>,
}

impl<S: Clone + Eq + Hash> RateLimiter<S> {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let buckets = Mutex::new(Buckets { of: HashMap::new(), in_all: None });
        Self { limits, buckets, backlog: tokio::sync::Mutex::default() }
    }

    /// Lets one message of a sender in.
    ///
    /// # Errors
    /// Too many came of it, or of all together.
    pub fn admit(&self, sender: &S, now: Timestamp) -> Result<(), Refusal> {
        let Limits { of_one, in_all: of_all, senders, .. } = self.limits;
        let mut buckets = self.buckets.lock();
        let Buckets { of, in_all } = &mut *buckets;
        // Those that other daemons deleted are never asked for again.
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

    /// Takes back that a message was let in: it could not be kept, so it comes again.
    pub fn put_back(&self, sender: &S) {
        let mut buckets = self.buckets.lock();
        let Buckets { of, in_all } = &mut *buckets;
        for bucket in of.get_mut(sender).into_iter().chain(in_all) {
            bucket.put_back();
        }
    }

    /// A sender that is there no more.
    pub fn forget(&self, sender: &S) {
        self.buckets.lock().of.remove(sender);
    }

    /// Refuses while too much waits to be worked off. The database is asked once a second, however many
    /// messages come.
    ///
    /// # Errors
    /// Too much waits, or the database cannot say.
    pub async fn check_backlog(&self, context: &AppContext) -> Result<(), Refusal> {
        let now = context.clock.now();
        let mut known = self.backlog.lock().await;
        let is_known = known.is_some_and(|(at, _)| at <= now && now.since(at) < BACKLOG_AGE);
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
        Ok((unread >= u64::from(MAX_UNREAD)).then_some("too many events wait for those who react to them"))
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
    fn one_sender_does_not_use_up_the_others() {
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
    fn all_together_have_a_bound() {
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
        // What the others used up is not counted against one that was not let in.
        let later = now + Duration::from_secs(1);
        admission.admit(&"sender 19".to_owned(), later).unwrap();
    }
}
