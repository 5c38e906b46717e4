//! PostgreSQL behind a proxy that breaks connections: in the middle of a commit, at any byte, all at once; or hangs.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_store::{DatabaseUrl, Db, DbOptions, Dialect, OWN_MIGRATIONS, StoreError, Topic, Tx, args};
use agentd_testing_store::TestDb;
use agentd_testing_store::faults::{Break, Commit, Proxy};

use super::check::{After, look, repeat};
use super::load::{Load, PARTS, TABLES, write_again, write_once};
use super::{runtime, seed, spread, tries_all};
use crate::support::dialects;

const BOUND: Duration = Duration::from_secs(30);
/// So that what hangs is given up after two seconds, not after 35.
const SHORT: &str = "options[statement_timeout]=1s";

/// A database with the tables of the load, a proxy in front of it, and a store that goes through that.
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
        let (proxy, url) = Proxy::before(url.expose()).unwrap();
        let db = Db::open(another(direct.options(), format!("{url}&{SHORT}"))).await.unwrap();
        Self { direct, proxy: Arc::new(proxy), db }
    }

    /// Nobody does anything about it.
    async fn ready_again(&self) {
        let ready = async {
            while self.db.check().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(BOUND, ready).await.expect("ready again by itself");
    }

    /// What is wrong with what the load left, and with what is there when all who got no answer ask again.
    async fn violations(&self, load: &Load) -> Vec<String> {
        let mut ledger = std::mem::take(&mut *load.ledger.lock());
        let mut found = std::mem::take(&mut ledger.violations);
        found.extend(look(&self.direct.db, &ledger, After::Kill).await.unwrap());
        found.extend(repeat(&self.db, &mut ledger).await.unwrap());
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

fn is_there() -> bool {
    dialects().contains(&Dialect::Postgres)
}

#[test]
fn a_commit_without_an_answer_is_never_called_a_success_and_is_safe_to_repeat() {
    if !is_there() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        for (number, commit) in Commit::ALL.into_iter().enumerate() {
            let key = format!("{number}.cut");
            behind.proxy.plan(Break::Commit(commit));
            let error = write_once(&behind.db, &key).await.expect_err("nobody knows what came of it");
            assert!(error.is_unavailable(), "{commit:?}: {error:?}");
            assert_eq!(behind.parts(&key).await, if commit.is_carried_out() { PARTS } else { 0 }, "{commit:?}");
            write_again(&behind.db, &key).await.unwrap();
            assert_eq!(behind.parts(&key).await, PARTS, "{commit:?}");
            behind.ready_again().await;
        }
        assert_eq!(behind.proxy.broken(), 4);
        println!("| commit without an answer | 4 ways | | 4 | 4 | 0 | |");
        behind.end().await;
    });
}

/// Those who wait for what such a commit did are woken: it may be there.
#[test]
fn a_commit_without_an_answer_wakes_those_who_wait_for_it() {
    const THINGS: Topic = Topic::new("things");
    if !is_there() {
        return;
    }
    runtime().block_on(async {
        let behind = Behind::start().await;
        let mut changed = behind.db.watch(THINGS);
        // The listener's beginning counts as a change of everything.
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
    if !is_there() {
        return;
    }
    let seed = seed();
    runtime().block_on(async {
        let carry_out = async |at: u64| {
            let behind = Behind::start().await;
            behind.proxy.plan(plan(at));
            let load = Load::new(false, false);
            load.carry_out(&behind.db, 0).await;
            let bytes = behind.proxy.bytes();
            behind.proxy.clear();
            behind.ready_again().await;
            let found = behind.violations(&load).await;
            let broken = behind.proxy.broken();
            behind.end().await;
            (bytes, broken, found)
        };
        let (count, _, found) = carry_out(u64::MAX).await;
        assert_eq!(found, Vec::<String>::new(), "without a fault");
        let (mut tried, mut injected) = (0, 0);
        for byte in spread(count, if tries_all() { many } else { a_few }, seed) {
            let (_, broken, found) = carry_out(byte).await;
            (tried, injected) = (tried + 1, injected + broken);
            assert_eq!(found, Vec::<String>::new(), "at byte {byte}, seed {seed}");
        }
        println!("| {name} | once | {count} | {tried} | {injected} | 0 | {seed} |");
        assert!(injected > 0);
    });
}

#[test]
fn connections_that_end_at_any_byte_lose_nothing() {
    at_bytes("connection ends at a byte", Break::EndAtByte, 6, 300);
}

#[test]
fn connections_that_hang_at_any_byte_are_given_up_and_lose_nothing() {
    at_bytes("connection hangs at a byte", Break::HangAtByte, 3, 100);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Restart,
    FailOver,
    Hang,
    Slow,
}

/// Each in the middle of a load, until somebody was told of it.
#[test]
fn a_server_that_restarts_fails_over_hangs_or_is_slow_loses_nothing() {
    if !is_there() {
        return;
    }
    let seed = seed();
    runtime().block_on(async {
        for fault in [Fault::Restart, Fault::FailOver, Fault::Hang, Fault::Slow] {
            let (mut tried, mut injected, mut told) = (0, 0, 0);
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
                    load.carry_out(&behind.db, 0).await;
                    load.carry_out(&behind.db, 1).await;
                };
                let both = async { tokio::join!(loading, breaking) };
                tokio::time::timeout(3 * BOUND, both).await.unwrap_or_else(|_| panic!("{fault:?} does not end"));
                behind.ready_again().await;
                told += load.ledger.lock().errors.values().sum::<u32>();
                let found = behind.violations(&load).await;
                assert_eq!(found, Vec::<String>::new(), "{fault:?} after {kilobytes} KiB, seed {seed}");
                (tried, injected) = (tried + 1, injected + behind.proxy.broken());
                behind.end().await;
            }
            println!("| {fault:?} ({told} errors told) | | 80 | {tried} | {injected} | 0 | {seed} |");
            assert!(told > 0 || fault == Fault::Slow, "{fault:?}");
        }
    });
}

/// Nobody tells a listener that its server is gone.
#[test]
fn a_listener_that_hears_nothing_any_more_listens_anew() {
    if !is_there() {
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
            // Who listens again counts everything as changed.
            tokio::time::timeout(BOUND, heard.changed()).await.expect("listens again").unwrap();
            behind.ready_again().await;
        }
        behind.end().await;
    });
}

/// Longer than the server may work on a statement, and than its answer is waited for.
const LONG: &str = "SELECT CAST(pg_sleep(2.5) AS TEXT)";

#[test]
fn a_statement_is_limited_and_what_takes_long_by_nature_is_not() {
    if !is_there() {
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
