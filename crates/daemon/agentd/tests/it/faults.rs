//! A whole daemon over a database that fails: a disk below SQLite, a proxy before PostgreSQL. What it answers meanwhile,
//! that it is well again by itself, and that what it acknowledged is there, once.
//!
//! The store's own tests try it step by step.

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
use crate::support::talk::{COUNTED, Talk};
use crate::support::{Eventually, TestApp};

/// Longer than any lease.
const LEASES_END: Duration = Duration::from_secs(600);
/// Asked for at once, while something is broken.
const PROJECTS: u32 = 4;
/// So that what hangs is given up soon.
const SHORT: &str = "options[statement_timeout]=1s";
/// What no answer may tell of the inside.
const INSIDE: [&str; 7] = ["Sqlite", "SQL", "agentd.db", "disk I/O", "extended_code", "127.0.0.1", "sqlx"];

enum Below {
    Disk(FaultyDisk),
    Server(Proxy),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    /// From this operation on until cleared.
    Disk(FaultKind, u64),
    Commit(Commit),
    Restart,
    FailOver,
    Hang,
    Slow,
}

impl Breaks {
    /// Whether the daemon must find out by itself, and say so, that its database is away.
    fn is_seen(self) -> bool {
        match self {
            // Whoever asks whether it is ready needs no room; and the log is written again past what fails here.
            Self::Disk(kind, _) => !matches!(kind, FaultKind::NoSpace | FaultKind::SyncError),
            Self::Restart | Self::Hang => true,
            Self::Commit(_) | Self::FailOver | Self::Slow => false,
        }
    }
}

impl Below {
    fn all(&self) -> Vec<Breaks> {
        match self {
            Self::Server(_) => {
                let commits = Commit::ALL.map(Breaks::Commit);
                commits.into_iter().chain([Breaks::Restart, Breaks::FailOver, Breaks::Hang, Breaks::Slow]).collect()
            }
            Self::Disk(_) => {
                let kinds = [FaultKind::WriteError, FaultKind::SyncError, FaultKind::ShortWrite, FaultKind::NoSpace];
                kinds.iter().flat_map(|kind| [1, 4].map(|first| Breaks::Disk(*kind, first))).collect()
            }
        }
    }

    fn break_by(&self, breaks: Breaks) {
        match (self, breaks) {
            (Self::Disk(disk), Breaks::Disk(kind, first)) => disk.plan(Fault { kind, first, times: u64::MAX }),
            (Self::Server(proxy), Breaks::Commit(commit)) => proxy.plan(Break::Commit(commit)),
            (Self::Server(proxy), Breaks::Restart) => proxy.stop(),
            (Self::Server(proxy), Breaks::FailOver) => proxy.fail_over(),
            (Self::Server(proxy), Breaks::Hang) => proxy.hang(),
            (Self::Server(proxy), Breaks::Slow) => proxy.slow_down(Duration::from_millis(1)),
            _ => panic!("{breaks:?} is of another database"),
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

async fn start() -> (Talk, Below) {
    let mut below = None;
    let app = TestApp::start_with(|source| {
        below = Some(match &mut source.database_url {
            Some(url) => {
                let (proxy, behind) = Proxy::before(url.expose()).unwrap();
                *url = Secret::new(format!("{behind}?{SHORT}"));
                Below::Server(proxy)
            }
            None => {
                let folder = source.data_dir.as_deref().unwrap();
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
                Below::Disk(FaultyDisk::under(folder, Unsynced::Lost).unwrap())
            }
        });
    })
    .await;
    let talk = Talk::on(app, Script::always(Reply::text(["All ", "is ", "well."], COUNTED))).await;
    (talk, below.unwrap())
}

/// Makes a project, with a key by which it can be asked for again; answers whether that was acknowledged.
async fn make(app: &TestApp, name: &str) -> bool {
    let answer = app.post("/api/projects").header("Idempotency-Key", name).json(&json!({"name": name})).send().await;
    if answer.status.as_u16() == 201 {
        return true;
    }
    let text = answer.text();
    answer.expect_error(503, "database_unavailable");
    for inside in INSIDE {
        assert!(!text.contains(inside), "{text}");
    }
    false
}

/// Asks whether it is ready until it says so, or that it is not.
async fn is_ready(app: &TestApp, expected: bool) {
    let mut eventually = Eventually::new();
    loop {
        // What was found is good for a second.
        app.clock.advance(Duration::from_secs(1));
        let answer = app.get("/health/ready").send().await;
        if (answer.status.as_u16() == 200) == expected {
            if !expected {
                answer.expect_error(503, "database_unavailable");
            }
            return;
        }
        eventually.look_again_at(&answer.text()).await;
    }
}

async fn projects(app: &TestApp) -> Vec<String> {
    let list = app.get("/api/projects?limit=200").send().await.expect_status(200).json();
    let projects = list["projects"].as_array().expect("projects");
    projects.iter().map(|project| project["name"].as_str().expect("a name").to_owned()).collect()
}

/// How often each of these was said.
async fn said(app: &TestApp, content: &str) -> u64 {
    let mut read = app.running().context().db.read().await.unwrap();
    let sql = "SELECT COUNT(*) FROM messages WHERE role = 'user' AND content = $1";
    read.fetch_one(sql, args![content]).await.unwrap().first().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_fails_makes_it_unready_and_loses_nothing() {
    let (talk, below) = start().await;
    let app = &talk.app;
    let sink = Receiver::start().await;
    let hook = json!({
        "name": "sink", "event_type": "project.created", "hook_type": "http",
        "config": {"url": sink.url(), "queued": true},
    });
    app.post("/api/hooks").json(&hook).send().await.expect_status(201);
    let (mut made, mut refused) = (BTreeSet::new(), 0);
    for (number, breaks) in below.all().into_iter().enumerate() {
        let before = below.injected();
        let acknowledged = Mutex::new(BTreeSet::new());
        let names: Vec<String> = (0..PROJECTS).map(|project| format!("{number}-{project}")).collect();
        let content = format!("How is it with {number}?");
        let (message, key) = (json!({"agent_id": "scout", "content": content}), format!("talk-{number}"));
        let ask = || talk.send(&message).header("Idempotency-Key", &key);
        below.break_by(breaks);
        let making = names.iter().map(async |name| {
            if make(app, name).await {
                acknowledged.lock().unwrap().insert(name.clone());
            }
        });
        let seeing = async {
            if breaks.is_seen() {
                is_ready(app, false).await;
                app.get("/health/live").send().await.expect_status(200);
                below.clear();
            }
        };
        let is_over = Notify::new();
        let talking = async {
            let (status, reply) = ask().open().await;
            assert!([200, 503].contains(&status.as_u16()), "{breaks:?}: {status}");
            // A reply whose end could not be stored is ended when its lease is over: who reads it goes away.
            tokio::select! {
                _ = reply.collect() => {}
                () = is_over.notified() => {}
            }
        };
        let mending = async {
            tokio::join!(join_all(making), seeing);
            below.clear();
            is_ready(app, true).await;
            is_over.notify_one();
        };
        tokio::join!(talking, mending);
        // Many requests share a commit, so there may not be as many operations; and the log may have room.
        let may_miss =
            matches!(breaks, Breaks::Hang | Breaks::Slow | Breaks::Disk(_, 2..) | Breaks::Disk(FaultKind::NoSpace, _));
        assert!(may_miss || below.injected() > before, "{breaks:?}");

        let there = projects(app).await;
        for name in &*acknowledged.lock().unwrap() {
            assert!(there.contains(name), "{breaks:?}: {name} was acknowledged and is gone");
        }
        refused += names.len() - acknowledged.lock().unwrap().len();
        for name in names {
            assert!(make(app, &name).await, "{breaks:?}: {name} is there, or is made now");
            made.insert(name);
        }
        // What was begun and lost its daemon's attention is ended by whoever comes next.
        app.clock.advance(LEASES_END);
        settle(app).await;
        ask().send().await.expect_status(200);
        assert_eq!(said(app, &content).await, 1, "{breaks:?}");
        let answer = talk.exchange(&json!({"agent_id": "scout", "content": "Well again?"})).await;
        assert!(answer.iter().any(|event| event.event == "done"), "{breaks:?}: {answer:?}");
    }
    settle(app).await;
    let there = projects(app).await;
    assert_eq!((there.iter().cloned().collect(), there.len()), (made.clone(), made.len()), "each once");
    let heard: BTreeSet<String> = sink.received().iter().map(|received| name_in(&received.event())).collect();
    assert!(heard.is_superset(&made), "{:?}", made.difference(&heard));
    println!("{} projects, {refused} of them refused at first, {} faults", made.len(), below.injected());
    assert!(refused > 0);
    if let Below::Disk(_) = below {
        let mut read = app.running().context().db.read().await.unwrap();
        let check = read.fetch_one("PRAGMA integrity_check", args![]).await.unwrap();
        assert_eq!(check.first::<String>().unwrap(), "ok");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_whose_beginning_was_kept_but_not_answered_is_made() {
    let (talk, below) = start().await;
    let Below::Server(proxy) = below else { return };
    let app = &talk.app;
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
        eventually.look_again().await;
    };
    assert_eq!((&work["name"], &work["state"]), (&begun["name"], &json!("done")), "{work}");
}

fn name_in(event: &Value) -> String {
    event["data"]["name"].as_str().unwrap_or_default().to_owned()
}
