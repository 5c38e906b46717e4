//! A daemon on a failing database: a faulty disk below SQLite, or a proxy in front of PostgreSQL. Tests the responses
//! during the fault, the recovery, and that acknowledged changes are stored exactly once.
//!
//! The tests of the store cover each fault separately.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Mutex;
use std::time::Duration;

use agentd_base::Secret;
use agentd_store::args;
use agentd_testing_llm::{Reply, Script};
use agentd_testing_store::faults::{Break, Commit, Fault, FaultKind, FaultyDisk, Proxy, Unsynced};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::hooks::receiver::Receiver;
use crate::hooks::settle;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{Eventually, TestApp};

/// Longer than any lease.
const LEASE_EXPIRY: Duration = Duration::from_secs(600);
/// Number of projects created concurrently during a fault.
const PROJECT_COUNT: u32 = 4;
/// Aborts hanging statements after a second.
const STATEMENT_TIMEOUT: &str = "options[statement_timeout]=1s";
/// Internal details that no response may contain.
const INTERNAL_DETAILS: [&str; 7] = ["Sqlite", "SQL", "agentd.db", "disk I/O", "extended_code", "127.0.0.1", "sqlx"];

enum FaultyDatabase {
    Disk(FaultyDisk),
    Server(Proxy),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseFault {
    /// Disk fault from this operation on until cleared.
    Disk(FaultKind, u64),
    Commit(Commit),
    Restart,
    FailOver,
    Hang,
    Slow,
}

impl DatabaseFault {
    /// Whether the daemon must detect the fault and report that its database is unavailable.
    fn is_seen(self) -> bool {
        match self {
            // The readiness check needs no disk space, and a failed sync is repaired by writing the log again.
            Self::Disk(kind, _) => !matches!(kind, FaultKind::NoSpace | FaultKind::SyncError),
            Self::Restart | Self::Hang => true,
            Self::Commit(_) | Self::FailOver | Self::Slow => false,
        }
    }
}

impl FaultyDatabase {
    fn all(&self) -> Vec<DatabaseFault> {
        match self {
            Self::Server(_) => {
                let commits = Commit::ALL.map(DatabaseFault::Commit);
                commits
                    .into_iter()
                    .chain([DatabaseFault::Restart, DatabaseFault::FailOver, DatabaseFault::Hang, DatabaseFault::Slow])
                    .collect()
            }
            Self::Disk(_) => {
                let kinds = [FaultKind::WriteError, FaultKind::SyncError, FaultKind::ShortWrite, FaultKind::NoSpace];
                kinds.iter().flat_map(|kind| [1, 4].map(|first| DatabaseFault::Disk(*kind, first))).collect()
            }
        }
    }

    fn break_by(&self, fault: DatabaseFault) {
        match (self, fault) {
            (Self::Disk(disk), DatabaseFault::Disk(kind, first)) => disk.plan(Fault { kind, first, times: u64::MAX }),
            (Self::Server(proxy), DatabaseFault::Commit(commit)) => proxy.plan(Break::Commit(commit)),
            (Self::Server(proxy), DatabaseFault::Restart) => proxy.stop(),
            (Self::Server(proxy), DatabaseFault::FailOver) => proxy.fail_over(),
            (Self::Server(proxy), DatabaseFault::Hang) => proxy.hang(),
            (Self::Server(proxy), DatabaseFault::Slow) => proxy.slow_down(Duration::from_millis(1)),
            _ => panic!("{fault:?} does not apply to this database"),
        }
    }

    fn clear(&self) {
        match self {
            Self::Disk(disk) => disk.clear(),
            Self::Server(proxy) => proxy.clear(),
        }
    }

    fn injected(&self) -> u64 {
        match self {
            Self::Disk(disk) => disk.injected(),
            Self::Server(proxy) => proxy.broken(),
        }
    }
}

async fn start() -> (ChatFixture, FaultyDatabase) {
    let mut database = None;
    let app = TestApp::start_with(|source| {
        database = Some(match &mut source.database_url {
            Some(url) => {
                let (proxy, behind) = Proxy::start(url.expose()).unwrap();
                *url = Secret::new(format!("{behind}?{STATEMENT_TIMEOUT}"));
                FaultyDatabase::Server(proxy)
            }
            None => {
                let folder = source.data_dir.as_deref().unwrap();
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
                FaultyDatabase::Disk(FaultyDisk::watch(folder, Unsynced::Lost).unwrap())
            }
        });
    })
    .await;
    let fixture = ChatFixture::on(app, Script::always(Reply::text(["All ", "is ", "well."], TEST_USAGE))).await;
    (fixture, database.unwrap())
}

/// Creates a project with an idempotency key; returns whether the request was acknowledged.
async fn create_project(app: &TestApp, name: &str) -> bool {
    let answer = app.post("/api/projects").header("Idempotency-Key", name).json(&json!({"name": name})).send().await;
    if answer.status.as_u16() == 201 {
        return true;
    }
    let text = answer.text();
    answer.expect_error(503, "database_unavailable");
    for detail in INTERNAL_DETAILS {
        assert!(!text.contains(detail), "{text}");
    }
    false
}

/// Waits until the readiness check reports the expected state.
async fn wait_for_readiness(app: &TestApp, expected: bool) {
    let mut eventually = Eventually::new();
    loop {
        // The result of the check is cached for a second.
        app.clock.advance(Duration::from_secs(1));
        let answer = app.get("/health/ready").send().await;
        if (answer.status.as_u16() == 200) == expected {
            if !expected {
                answer.expect_error(503, "database_unavailable");
            }
            return;
        }
        eventually.retry_with(&answer.text()).await;
    }
}

async fn projects(app: &TestApp) -> Vec<String> {
    let list = app.get("/api/projects?limit=200").send().await.expect_status(200).json();
    let projects = list["projects"].as_array().expect("projects");
    projects.iter().map(|project| project["name"].as_str().expect("a name").to_owned()).collect()
}

/// Counts the stored user messages with this content.
async fn count_messages(app: &TestApp, content: &str) -> u64 {
    let mut read = app.running().context().db.read().await.unwrap();
    let sql = "SELECT COUNT(*) FROM messages WHERE role = 'user' AND content = $1";
    read.fetch_one(sql, args![content]).await.unwrap().first().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_database_makes_the_daemon_unready_and_loses_nothing() {
    let (fixture, database) = start().await;
    let app = &fixture.app;
    let sink = Receiver::start().await;
    let hook = json!({
        "name": "sink", "event_type": "project.created", "hook_type": "http",
        "config": {"url": sink.url(), "queued": true},
    });
    app.post("/api/hooks").json(&hook).send().await.expect_status(201);
    let (mut made, mut refused) = (BTreeSet::new(), 0);
    for (number, fault) in database.all().into_iter().enumerate() {
        let before = database.injected();
        let acknowledged = Mutex::new(BTreeSet::new());
        let names: Vec<String> = (0..PROJECT_COUNT).map(|project| format!("{number}-{project}")).collect();
        let content = format!("How is it with {number}?");
        let (message, key) = (json!({"agent_id": "scout", "content": content}), format!("chat-{number}"));
        let ask = || fixture.send(&message).header("Idempotency-Key", &key);
        database.break_by(fault);
        let making = names.iter().map(async |name| {
            if create_project(app, name).await {
                acknowledged.lock().unwrap().insert(name.clone());
            }
        });
        let observing = async {
            if fault.is_seen() {
                wait_for_readiness(app, false).await;
                app.get("/health/live").send().await.expect_status(200);
                database.clear();
            }
        };
        let is_over = Notify::new();
        let chatting = async {
            let (status, reply) = ask().open().await;
            assert!([200, 503].contains(&status.as_u16()), "{fault:?}: {status}");
            // If the end of a reply cannot be stored, the reply ends when its lease expires. The client disconnects.
            tokio::select! {
                _ = reply.collect() => {}
                () = is_over.notified() => {}
            }
        };
        let recovering = async {
            tokio::join!(join_all(making), observing);
            database.clear();
            wait_for_readiness(app, true).await;
            is_over.notify_one();
        };
        tokio::join!(chatting, recovering);
        // Requests may share a commit, so too few operations may reach the fault; the log may have space left.
        let may_miss = matches!(
            fault,
            DatabaseFault::Hang
                | DatabaseFault::Slow
                | DatabaseFault::Disk(_, 2..)
                | DatabaseFault::Disk(FaultKind::NoSpace, _)
        );
        assert!(may_miss || database.injected() > before, "{fault:?}");

        let stored = projects(app).await;
        for name in &*acknowledged.lock().unwrap() {
            assert!(stored.contains(name), "{fault:?}: {name} was acknowledged but is missing");
        }
        refused += names.len() - acknowledged.lock().unwrap().len();
        for name in names {
            assert!(create_project(app, &name).await, "{fault:?}: {name} exists or is created now");
            made.insert(name);
        }
        // Interrupted work is completed or failed by the next worker after its lease expires.
        app.clock.advance(LEASE_EXPIRY);
        settle(app).await;
        ask().send().await.expect_status(200);
        assert_eq!(count_messages(app, &content).await, 1, "{fault:?}");
        let answer = fixture.exchange(&json!({"agent_id": "scout", "content": "Well again?"})).await;
        assert!(answer.iter().any(|event| event.event == "done"), "{fault:?}: {answer:?}");
    }
    settle(app).await;
    let stored = projects(app).await;
    assert_eq!(
        (stored.iter().cloned().collect(), stored.len()),
        (made.clone(), made.len()),
        "each project is stored once"
    );
    let delivered: BTreeSet<String> = sink.received().iter().map(|received| name_in(&received.event())).collect();
    assert!(delivered.is_superset(&made), "{:?}", made.difference(&delivered));
    println!("{} projects, {refused} refused at first, {} faults", made.len(), database.injected());
    assert!(refused > 0);
    if let FaultyDatabase::Disk(_) = database {
        let mut read = app.running().context().db.read().await.unwrap();
        let check = read.fetch_one("PRAGMA integrity_check", args![]).await.unwrap();
        assert_eq!(check.first::<String>().unwrap(), "ok");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_with_an_unacknowledged_start_is_created() {
    let (fixture, database) = start().await;
    let FaultyDatabase::Server(proxy) = database else { return };
    let app = &fixture.app;
    let begin = || app.post("/api/backups").header("Idempotency-Key", "once").json(&json!({}));
    proxy.plan(Break::Commit(Commit::NotAnswered));
    begin().send().await.expect_error(503, "database_unavailable");
    assert_eq!(proxy.broken(), 1);
    let begun = begin().send().await.expect_status(202).json();
    let mut eventually = Eventually::new();
    let work = loop {
        let work = app.get("/api/backups/work").send().await.expect_status(200).json()["work"].clone();
        if work["state"] != "running" {
            break work;
        }
        eventually.retry().await;
    };
    assert_eq!((&work["name"], &work["state"]), (&begun["name"], &json!("done")), "{work}");
}

fn name_in(event: &Value) -> String {
    event["data"]["name"].as_str().unwrap_or_default().to_owned()
}
