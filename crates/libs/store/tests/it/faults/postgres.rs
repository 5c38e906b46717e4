//! PostgreSQL behind a proxy that breaks connections (during a commit, at any byte, all at once) or hangs.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_store::{DatabaseUrl, Db, DbOptions, Dialect, OWN_MIGRATIONS, StoreError, Topic, Tx, args};
use agentd_testing_store::TestDb;
use agentd_testing_store::faults::{Break, Commit, Proxy};

use super::check::{After, check, repeat_unanswered};
use super::load::{Load, PARTS, TABLES, write_again, write_once};
use super::{runtime, seed, spread, tries_all};
use crate::support::dialects;

const BOUND: Duration = Duration::from_secs(30);
/// Shortens the time limit for hanging connections from 35 to two seconds.
const SHORT: &str = "options[statement_timeout]=1s";

/// Database with the tables of the load, a proxy in front of it, and a store that uses the proxy.
struct Behind {
    direct: TestDb,
    proxy: Arc<Proxy>,
    db: Db,
}

fn another(options: &DbOptions, url: String) -> DbOptions {
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let ids = IdGenerator::new(clock.clone(), entropy.clone());
    DbOptions { url: DatabaseUrl::Postgres(Secret::new(url)), clock, ids, entropy, ..options.clone() }
}

impl Behind {
    async fn start() -> Self {
        let direct = TestDb::start_on(Dialect::Postgres, OWN_MIGRATIONS).await.unwrap();
        for table in TABLES {
            let made: Result<u64, StoreError> =
                direct.db.write(async |tx: &mut Tx| tx.execute(*table, args![]).await).await;
            made.unwrap();
        }
        let DatabaseUrl::Postgres(url) = &direct.options().url else { panic!("another database") };
        let (proxy, url) = Proxy::start(url.expose()).unwrap();
        let db = Db::open(another(direct.options(), format!("{url}&{SHORT}"))).await.unwrap();
        Self { direct, proxy: Arc::new(proxy), db }
    }

    /// Waits until the store has recovered by itself.
    async fn ready_again(&self) {
        let ready = async {
            while self.db.check().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(BOUND, ready).await.expect("store recovers by itself");
    }

    /// Returns the violations after the load, and after unanswered requests were repeated.
    async fn violations(&self, load: &Load) -> Vec<String> {
        let mut ledger = std::mem::take(&mut *load.ledger.lock());
        let mut found = std::mem::take(&mut ledger.violations);
        found.extend(check(&self.direct.db, &ledger, After::Kill).await.unwrap());
        found.extend(repeat_unanswered(&self.db, &mut ledger).await.unwrap());
        found
    }

    async fn parts(&self, key: &str) -> i64 {
        let sql = "SELECT COUNT(*) FROM parts WHERE write_key = $1";
        self.direct.db.read().await.unwrap().fetch_one(sql, args![key]).await.unwrap().first().unwrap()
    }

    async fn end(self) {
        self.db.close().await;
        self.direct.end().await.unwrap();
    }
}

fn is_available() -> bool {
    dialects().contains(&Dialect::Postgres)
}

#[test]
fn unanswered_commit_is_reported_as_failure_and_safe_to_repeat() {
    if !is_available() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        for (number, commit) in Commit::ALL.into_iter().enumerate() {
            let key = format!("{number}.cut");
            behind.proxy.plan(Break::Commit(commit));
            let error = write_once(&behind.db, &key).await.expect_err("outcome is unknown");
            assert!(error.is_unavailable(), "{commit:?}: {error:?}");
            assert_eq!(behind.parts(&key).await, if commit.is_committed() { PARTS } else { 0 }, "{commit:?}");
            write_again(&behind.db, &key).await.unwrap();
            assert_eq!(behind.parts(&key).await, PARTS, "{commit:?}");
            behind.ready_again().await;
        }
        assert_eq!(behind.proxy.broken(), 4);
        println!("| commit without an answer | 4 ways | | 4 | 4 | 0 | |");
        behind.end().await;
    });
}

/// Watchers are woken after such a commit, because it may have taken effect.
#[test]
fn unanswered_commit_wakes_watchers() {
    const THINGS: Topic = Topic::new("things");
    if !is_available() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        let mut changed = behind.db.watch(THINGS);
        // The start of the listener counts as a change of everything.
        behind.db.count_other_daemons().await.unwrap();
        changed.mark_unchanged();
        behind.proxy.plan(Break::Commit(Commit::NotAnswered));
        let cut: Result<(), StoreError> = behind
            .db
            .write(async |tx: &mut Tx| {
                tx.touch(THINGS);
                Ok(())
            })
            .await;
        assert!(cut.unwrap_err().is_unavailable());
        assert!(changed.has_changed().unwrap());
        behind.end().await;
    });
}

fn at_bytes(name: &str, plan: fn(u64) -> Break, a_few: u64, many: u64) {
    if !is_available() {
        return;
    }
    let seed = seed();
    runtime().block_on(async {
        let run_part = async |at: u64| {
            let behind = Behind::start().await;
            behind.proxy.plan(plan(at));
            let load = Load::new(false, false);
            load.run_part(&behind.db, 0).await;
            let bytes = behind.proxy.bytes();
            behind.proxy.clear();
            behind.ready_again().await;
            let found = behind.violations(&load).await;
            let broken = behind.proxy.broken();
            behind.end().await;
            (bytes, broken, found)
        };
        let (count, _, found) = run_part(u64::MAX).await;
        assert_eq!(found, Vec::<String>::new(), "without a fault");
        let (mut tried, mut injected) = (0, 0);
        for byte in spread(count, if tries_all() { many } else { a_few }, seed) {
            let (_, broken, found) = run_part(byte).await;
            (tried, injected) = (tried + 1, injected + broken);
            assert_eq!(found, Vec::<String>::new(), "at byte {byte}, seed {seed}");
        }
        println!("| {name} | once | {count} | {tried} | {injected} | 0 | {seed} |");
        assert!(injected > 0);
    });
}

#[test]
fn connections_closed_at_any_byte_lose_nothing() {
    at_bytes("connection ends at a byte", Break::EndAtByte, 6, 300);
}

#[test]
fn connections_hanging_at_any_byte_are_abandoned_and_lose_nothing() {
    at_bytes("connection hangs at a byte", Break::HangAtByte, 3, 100);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Restart,
    FailOver,
    Hang,
    Slow,
}

/// Each fault occurs during a load and lasts until a caller got an error.
#[test]
fn restarting_failing_over_hanging_or_slow_server_loses_nothing() {
    if !is_available() {
        return;
    }
    let seed = seed();
    runtime().block_on(async {
        for fault in [Fault::Restart, Fault::FailOver, Fault::Hang, Fault::Slow] {
            let (mut tried, mut injected, mut reported) = (0, 0, 0);
            for kilobytes in spread(80, if tries_all() { 25 } else { 1 }, seed) {
                let behind = Behind::start().await;
                behind.proxy.plan(Break::EndAtByte(u64::MAX));
                let load = Load::new(false, false);
                let passes = async |bytes: u64| {
                    while behind.proxy.bytes() < bytes {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                let breaking = async {
                    passes(kilobytes << 10).await;
                    match fault {
                        Fault::Restart => behind.proxy.stop(),
                        Fault::FailOver => behind.proxy.fail_over(),
                        Fault::Hang => behind.proxy.hang(),
                        Fault::Slow => behind.proxy.slow_down(Duration::from_millis(2)),
                    }
                    match fault {
                        Fault::Slow => passes((kilobytes << 10) + (16 << 10)).await,
                        _ => {
                            while load.ledger.lock().errors.is_empty() {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                        }
                    }
                    behind.proxy.clear();
                };
                let loading = async {
                    load.run_part(&behind.db, 0).await;
                    load.run_part(&behind.db, 1).await;
                };
                let both = async { tokio::join!(loading, breaking) };
                tokio::time::timeout(3 * BOUND, both).await.unwrap_or_else(|_| panic!("{fault:?} does not end"));
                behind.ready_again().await;
                reported += load.ledger.lock().errors.values().sum::<u32>();
                let found = behind.violations(&load).await;
                assert_eq!(found, Vec::<String>::new(), "{fault:?} after {kilobytes} KiB, seed {seed}");
                (tried, injected) = (tried + 1, injected + behind.proxy.broken());
                behind.end().await;
            }
            println!("| {fault:?} ({reported} errors reported) | | 80 | {tried} | {injected} | 0 | {seed} |");
            assert!(reported > 0 || fault == Fault::Slow, "{fault:?}");
        }
    });
}

/// The listener is not told that its server is gone.
#[test]
fn silent_listener_reconnects() {
    if !is_available() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        let mut heard = behind.db.watch(Topic::new("any"));
        behind.db.count_other_daemons().await.unwrap();
        for fault in [Fault::Restart, Fault::FailOver] {
            heard.mark_unchanged();
            match fault {
                Fault::Restart => behind.proxy.stop(),
                _ => behind.proxy.fail_over(),
            }
            behind.proxy.clear();
            // After a reconnect of the listener everything counts as changed.
            tokio::time::timeout(BOUND, heard.changed()).await.expect("listener reconnects").unwrap();
            behind.ready_again().await;
        }
        behind.end().await;
    });
}

/// Longer than both the server's statement timeout and the client's time limit.
const LONG: &str = "SELECT CAST(pg_sleep(2.5) AS TEXT)";

#[test]
fn statements_are_time_limited_except_long_operations() {
    if !is_available() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        let written: Result<(), StoreError> =
            behind.db.write(async |tx: &mut Tx| tx.fetch_all(LONG, args![]).await.map(drop)).await;
        let error = written.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("took too long"), "{error:?}");
        let read = behind.db.read().await.unwrap().fetch_all(LONG, args![]).await.unwrap_err();
        assert!(read.is_unavailable() && read.to_string().contains("took too long"), "{read:?}");

        let mut dump = Vec::new();
        behind.db.dump(&mut dump, &[]).await.unwrap();
        let slowly = async |tx: &mut Tx| tx.fetch_all(LONG, args![]).await.map(drop);
        behind.db.load_validated(&mut dump.as_slice(), slowly).await.unwrap();

        let proxy = Arc::clone(&behind.proxy);
        let hanging = async move |tx: &mut Tx| {
            proxy.hang();
            tx.fetch_all(LONG, args![]).await.map(drop)
        };
        let error = behind.db.load_validated(&mut dump.as_slice(), hanging).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        behind.proxy.clear();
        behind.ready_again().await;
        behind.end().await;
    });
}
