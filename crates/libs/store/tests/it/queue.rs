//! Leased queue: its state machine compared with a model, and fencing.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_store::{Db, Enqueued, ItemId, ItemStatus, Lease, NewItem, QueueStats, StoreError, Tx};
use agentd_testing_store::TestDb;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{dialects, on_each};

const LEASE: Duration = Duration::from_secs(30);

fn item(db: &Db, queue: &str, key: Option<&str>, max_attempts: u32) -> NewItem {
    NewItem {
        queue: queue.to_owned(),
        dedup_key: key.map(str::to_owned),
        payload: json!({"hello": "world"}),
        run_at: db.clock().now(),
        max_attempts,
    }
}

async fn enqueue(db: &Db, item: NewItem) -> Enqueued {
    db.write(async move |tx: &mut Tx| tx.enqueue(item.clone()).await).await.unwrap()
}

async fn with_lease<T: Send + 'static>(
    db: &Db,
    lease: &Lease,
    work: impl AsyncFn(&mut Tx, &Lease) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let lease = lease.clone();
    db.write(async move |tx: &mut Tx| work(tx, &lease).await).await
}

#[tokio::test]
async fn worker_with_an_expired_lease_changes_nothing() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let id = enqueue(db, item(db, "mail", None, 5)).await.id().clone();
        let late = db.claim("mail", "worker", 1, LEASE).await.unwrap().remove(0);
        assert_eq!((late.attempt, late.payload::<serde_json::Value>().unwrap()), (1, json!({"hello": "world"})));
        assert!(db.claim("mail", "other", 1, LEASE).await.unwrap().is_empty(), "it is leased");
        test_db.clock.advance(LEASE);
        // Uses the same owner on purpose: the name alone must not be sufficient.
        let new = db.claim("mail", "worker", 1, LEASE).await.unwrap().remove(0);
        assert_eq!((new.attempt, &new.id), (2, &id));

        let lost = |result: Result<(), StoreError>| assert!(matches!(result, Err(StoreError::LostLease { .. })));
        lost(with_lease(db, &late, async |tx, lease| tx.complete(lease).await).await);
        lost(with_lease(db, &late, async |tx, lease| tx.heartbeat(lease, LEASE).await).await);
        lost(with_lease(db, &late, async |tx, lease| tx.release(lease).await).await);
        lost(with_lease(db, &late, async |tx, lease| tx.dead_letter(lease, "late").await).await);
        let backoff = Backoff { base: LEASE, multiplier: 2.0, cap: LEASE, jitter: 0.0 };
        lost(with_lease(db, &late, async move |tx, lease| tx.fail(lease, "late", &backoff).await.map(|_| ())).await);

        let standing = db.read().await.unwrap().find_item(&id).await.unwrap().unwrap();
        assert_eq!((standing.status, standing.attempt, standing.due_at), (ItemStatus::Leased, 2, new.lease_until));
        with_lease(db, &new, async |tx, lease| tx.complete(lease).await).await.unwrap();
        lost(with_lease(db, &new, async |tx, lease| tx.complete(lease).await).await);
    })
    .await;
}

#[tokio::test]
async fn deduplication_key_is_occupied_until_purge() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let first = enqueue(db, item(db, "runs", Some("job at noon"), 1)).await;
        assert_eq!(enqueue(db, item(db, "runs", Some("job at noon"), 1)).await, Enqueued::Existing(first.id().clone()));
        assert!(matches!(enqueue(db, item(db, "others", Some("job at noon"), 1)).await, Enqueued::New(_)));
        let lease = db.claim("runs", "worker", 5, LEASE).await.unwrap().remove(0);
        with_lease(db, &lease, async |tx, lease| tx.complete(lease).await).await.unwrap();
        assert!(matches!(enqueue(db, item(db, "runs", Some("job at noon"), 1)).await, Enqueued::Existing(_)));
        test_db.clock.advance(LEASE);
        let now = db.clock().now();
        let purged = db.write(async move |tx: &mut Tx| tx.purge_queue("runs", ItemStatus::Done, now, 10).await).await;
        assert_eq!(purged.unwrap(), 1);
        assert!(matches!(enqueue(db, item(db, "runs", Some("job at noon"), 1)).await, Enqueued::New(_)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claimers_never_share_an_item() {
    on_each(async |test_db| {
        for _ in 0..60 {
            enqueue(&test_db.db, item(&test_db.db, "race", None, 1)).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..8 {
            let db = test_db.db.clone();
            tasks.spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let leases = db.claim("race", &format!("worker {worker}"), 3, LEASE).await.unwrap();
                    if leases.is_empty() {
                        return mine;
                    }
                    for lease in leases {
                        with_lease(&db, &lease, async |tx, lease| tx.complete(lease).await).await.unwrap();
                        mine.push(lease.id);
                    }
                }
            });
        }
        let mut all: Vec<ItemId> = tasks.join_all().await.into_iter().flatten().collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 60);
        let stats = test_db.db.read().await.unwrap().queue_stats("race").await.unwrap();
        assert_eq!(stats, QueueStats { done: 60, ..QueueStats::default() });
    })
    .await;
}

#[tokio::test]
async fn enqueue_wakes_only_its_queue() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let mut mine = db.watch_queue("mine");
        let mut other = db.watch_queue("other");
        // On PostgreSQL everything counts as changed once the listener starts.
        mine.mark_unchanged();
        enqueue(db, item(db, "mine", None, 1)).await;
        mine.changed().await.unwrap();
        if db.dialect() == agentd_store::Dialect::Sqlite {
            assert!(!other.has_changed().unwrap());
        }
        other.mark_unchanged();
    })
    .await;
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue { key: Option<u8>, max_attempts: u32, delay_seconds: u64 },
    Claim { owner: u8, limit: u32 },
    Complete(usize),
    Fail { lease: usize, delay_seconds: u64 },
    Heartbeat(usize),
    Release(usize),
    Bury(usize),
    Retry(usize),
    Advance { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (proptest::option::of(0u8..3), 1u32..4, 0u64..40)
            .prop_map(|(key, max_attempts, delay_seconds)| Step::Enqueue { key, max_attempts, delay_seconds }),
        4 => (0u8..2, 1u32..4).prop_map(|(owner, limit)| Step::Claim { owner, limit }),
        2 => any::<usize>().prop_map(Step::Complete),
        3 => (any::<usize>(), 0u64..40).prop_map(|(lease, delay_seconds)| Step::Fail { lease, delay_seconds }),
        1 => any::<usize>().prop_map(Step::Heartbeat),
        1 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Bury),
        1 => any::<usize>().prop_map(Step::Retry),
        3 => (0u64..40).prop_map(|seconds| Step::Advance { seconds }),
    ]
}

#[derive(Debug, Clone)]
struct Expected {
    status: ItemStatus,
    due_at: Timestamp,
    attempt: u32,
    max_attempts: u32,
    /// Number of the lease that holds the item.
    holder: Option<usize>,
}

#[derive(Default)]
struct Model {
    items: BTreeMap<ItemId, Expected>,
    keys: BTreeMap<u8, ItemId>,
    leases: Vec<Lease>,
}

impl Model {
    fn held(&mut self, lease: usize) -> Option<&mut Expected> {
        let id = &self.leases[lease].id;
        self.items.get_mut(id).filter(|expected| expected.holder == Some(lease))
    }

    async fn apply(&mut self, test_db: &TestDb, queue: &str, step: Step) {
        let db = &test_db.db;
        let now = db.clock().now();
        match step {
            Step::Advance { seconds } => test_db.clock.advance(Duration::from_secs(seconds)),
            Step::Enqueue { key, max_attempts, delay_seconds } => {
                let mut new = item(db, queue, key.map(|k| k.to_string()).as_deref(), max_attempts);
                new.run_at = now + Duration::from_secs(delay_seconds);
                let due_at = new.run_at;
                match (enqueue(db, new).await, key.and_then(|key| self.keys.get(&key))) {
                    (Enqueued::Existing(id), Some(known)) => assert_eq!(&id, known),
                    (Enqueued::New(id), None) => {
                        if let Some(key) = key {
                            self.keys.insert(key, id.clone());
                        }
                        let status = ItemStatus::Pending;
                        self.items.insert(id, Expected { status, due_at, attempt: 0, max_attempts, holder: None });
                    }
                    (got, known) => panic!("{got:?} where {known:?} was known"),
                }
            }
            Step::Claim { owner, limit } => {
                let leases = db.claim(queue, &format!("owner {owner}"), limit, LEASE).await.unwrap();
                let mut due: Vec<_> = self
                    .items
                    .iter()
                    .filter(|(_, e)| matches!(e.status, ItemStatus::Pending | ItemStatus::Leased) && e.due_at <= now)
                    .map(|(id, e)| (e.due_at, id.clone()))
                    .collect();
                due.sort();
                let mut got: BTreeMap<_, _> = leases.into_iter().map(|lease| (lease.id.clone(), lease)).collect();
                for (_, id) in due.into_iter().take(limit as usize) {
                    let expected = self.items.get_mut(&id).unwrap();
                    if expected.attempt == expected.max_attempts {
                        (expected.status, expected.holder) = (ItemStatus::DeadLetter, None);
                        continue;
                    }
                    let lease = got.remove(&id).expect("a due item is claimed");
                    expected.status = ItemStatus::Leased;
                    expected.attempt += 1;
                    expected.due_at = now + LEASE;
                    expected.holder = Some(self.leases.len());
                    assert_eq!((lease.attempt, lease.lease_until), (expected.attempt, expected.due_at));
                    self.leases.push(lease);
                }
                assert!(got.is_empty(), "claimed what was not due: {got:?}");
            }
            Step::Retry(pick) => {
                let Some(id) = self.items.keys().nth(pick % self.items.len().max(1)).cloned() else { return };
                let wanted = id.clone();
                let retried = db.write(async move |tx: &mut Tx| tx.retry_dead_letter(&wanted).await).await.unwrap();
                let expected = self.items.get_mut(&id).unwrap();
                assert_eq!(retried, expected.status == ItemStatus::DeadLetter);
                if retried {
                    (expected.status, expected.due_at, expected.attempt) = (ItemStatus::Pending, now, 0);
                }
            }
            Step::Complete(lease)
            | Step::Fail { lease, .. }
            | Step::Heartbeat(lease)
            | Step::Release(lease)
            | Step::Bury(lease) => {
                if self.leases.is_empty() {
                    return;
                }
                let number = lease % self.leases.len();
                let lease = self.leases[number].clone();
                self.apply_as_holder(db, number, &lease, step, now).await;
            }
        }
    }

    /// Performs an operation of a lease holder.
    async fn apply_as_holder(&mut self, db: &Db, number: usize, lease: &Lease, step: Step, now: Timestamp) {
        let action = step.clone();
        let result = with_lease(db, lease, async move |tx, lease| match action {
            Step::Complete(_) => tx.complete(lease).await,
            Step::Heartbeat(_) => tx.heartbeat(lease, LEASE).await,
            Step::Release(_) => tx.release(lease).await,
            Step::Bury(_) => tx.dead_letter(lease, "useless").await,
            Step::Fail { delay_seconds, .. } => {
                tx.fail_for(lease, "no luck", Duration::from_secs(delay_seconds)).await.map(|_| ())
            }
            _ => unreachable!(),
        })
        .await;
        let Some(expected) = self.held(number) else {
            assert!(matches!(result, Err(StoreError::LostLease { .. })), "{step:?} without the lease: {result:?}");
            return;
        };
        result.unwrap();
        match step {
            Step::Heartbeat(_) => return expected.due_at = now + LEASE,
            Step::Complete(_) => expected.status = ItemStatus::Done,
            Step::Bury(_) => expected.status = ItemStatus::DeadLetter,
            Step::Release(_) => {
                (expected.status, expected.due_at) = (ItemStatus::Pending, now);
                expected.attempt -= 1;
            }
            Step::Fail { delay_seconds, .. } if expected.attempt < expected.max_attempts => {
                (expected.status, expected.due_at) = (ItemStatus::Pending, now + Duration::from_secs(delay_seconds));
            }
            _ => expected.status = ItemStatus::DeadLetter,
        }
        expected.holder = None;
    }

    async fn compare(&self, db: &Db) {
        let mut read = db.read().await.unwrap();
        for (id, expected) in &self.items {
            let standing = read.find_item(id).await.unwrap().unwrap();
            assert_eq!((standing.status, standing.attempt), (expected.status, expected.attempt), "{id}");
            if matches!(expected.status, ItemStatus::Pending | ItemStatus::Leased) {
                assert_eq!(standing.due_at, expected.due_at, "{id}");
            }
            assert_eq!(standing.owner.is_some(), expected.holder.is_some(), "{id}");
        }
    }
}

#[test]
fn queue_behaves_like_its_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for dialect in dialects() {
        let test_db = runtime.block_on(crate::support::with_things(dialect));
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 48,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let case = std::cell::Cell::new(0);
        let result = runner.run(&proptest::collection::vec(step(), 1..40), |steps| {
            case.set(case.get() + 1);
            let queue = format!("case {}", case.get());
            runtime.block_on(async {
                let mut model = Model::default();
                for step in steps {
                    model.apply(&test_db, &queue, step).await;
                    model.compare(&test_db.db).await;
                }
            });
            Ok(())
        });
        result.unwrap();
        runtime.block_on(test_db.end()).unwrap();
    }
}

#[tokio::test]
async fn items_of_excluded_lanes_are_skipped() {
    on_each(async |test_db| {
        let db = &test_db.db;
        for key in [Some("a/1"), Some("a/2"), Some("ab/1"), None, Some("b/1")] {
            enqueue(db, item(db, "lanes", key, 3)).await;
        }
        let lanes = vec!["a".to_owned(), "c".to_owned()];
        let leases = db.claim_excluding_lanes("lanes", "worker", 10, LEASE, lanes).await.unwrap();
        let mut found: Vec<_> = leases.iter().map(Lease::lane).collect();
        found.sort_unstable();
        assert_eq!(found, [None, Some("ab"), Some("b")]);
        let rest = db.claim("lanes", "worker", 10, LEASE).await.unwrap();
        assert_eq!(rest.iter().map(Lease::lane).collect::<Vec<_>>(), [Some("a"), Some("a")]);
    })
    .await;
}
