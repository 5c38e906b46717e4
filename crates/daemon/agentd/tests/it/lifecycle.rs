//! Startup and shutdown, and replicas that share a data directory.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::{ClockAgreement, DRAIN_LIMIT, StartError, compare_clocks, require_clock_agreement};
use agentd_base::{Clock, MockClock, Secret};
use agentd_store::{NewEvent, StoreError, Tx, args};
use agentd_testing_llm::{Gate, Reply, Script};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::middleware::begin_slow_request;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, read_tokens};
use crate::support::{ScratchDatabase, TestApp, TestProcess};

/// Requests `/health` over the private socket of the data directory; `None` if no daemon listens.
async fn health_over_socket(app: &TestApp) -> Option<Value> {
    let stream = tokio::net::UnixStream::connect(app.data_dir().join("agentd.sock")).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = http::Request::get("/health").header("host", "localhost").body(axum::body::Body::empty());
    let answer = sender.send_request(request.expect("a request")).await.ok()?;
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}

#[tokio::test]
async fn replica_on_the_same_data_directory_does_not_take_the_socket() {
    let mut first = TestApp::with_owner().await;
    assert!(health_over_socket(&first).await.is_some());
    let Some(mut second) = first.replica_on_same_data_dir().await else { return };
    let mut third = first.replica_on_same_data_dir().await.expect("a third daemon");
    assert!(health_over_socket(&first).await.is_some());
    // A replica without the socket does not remove it.
    third.stop().await;
    assert!(health_over_socket(&first).await.is_some());
    first.stop().await;
    // The second replica takes over the socket.
    while health_over_socket(&first).await.is_none() {
        tokio::task::yield_now().await;
    }
    second.stop().await;
    assert!(!second.data_dir().join("agentd.sock").exists());
}

#[tokio::test]
async fn shutdown_does_not_exceed_the_drain_limit() {
    let gate = Gate::new();
    let mut fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    // An endless reply, an incomplete request, and a database reader that is not released.
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    read_tokens(&mut stream, 1).await;
    let _request = begin_slow_request(&fixture.app).await;
    let reader = fixture.app.running().context().db.read().await.expect("a connection");
    // From here on, time advances when all tasks are idle.
    tokio::time::pause();
    let begun = Instant::now();
    let stopped = tokio::time::timeout(DRAIN_LIMIT * 10, fixture.app.stop()).await;
    assert!(stopped.is_ok() && begun.elapsed() <= DRAIN_LIMIT, "shutdown took {:?}", begun.elapsed());
    drop(reader);
}

#[tokio::test]
async fn clock_agreement_is_required_if_replicas_share_leases() {
    let database = ScratchDatabase::create().await;
    let source = ConfigSource {
        database_url: database.as_ref().map(|database| Secret::new(database.url().to_owned())),
        ..ConfigSource::default()
    };
    let config = Config::from_source(source).expect("valid");
    let moved = MockClock::new(Clock::system().now());
    if database.is_none() {
        moved.advance(Duration::from_secs(3600));
        assert_eq!(compare_clocks(&config, &moved.clock()).await.expect("asked"), ClockAgreement::Alone);
        return;
    }
    let found = compare_clocks(&config, &Clock::system()).await.expect("asked");
    assert!(matches!(found, ClockAgreement::Good(_)), "{found:?}");
    moved.set(Clock::system().now() + Duration::from_secs(5));
    let found = compare_clocks(&config, &moved.clock()).await.expect("asked");
    assert!(matches!(&found, ClockAgreement::Warning(text) if text.contains("ahead of the database")), "{found:?}");
    require_clock_agreement(&config, &moved.clock()).await.expect("a warning is accepted");
    moved.set(Clock::system().now() - Duration::from_secs(3600));
    let refused = require_clock_agreement(&config, &moved.clock()).await.expect_err("refused");
    assert!(matches!(refused, StartError::ClocksDisagree { .. }));
    let text = refused.to_string();
    assert!(text.contains("seconds behind the database server's") && text.contains("NTP"), "{text}");

    let process = TestProcess::stopped().await;
    let mut doctor = process.command();
    doctor.args(["doctor", "--json"]);
    let output = tokio::task::spawn_blocking(move || doctor.output().expect("the command runs"))
        .await
        .expect("the command ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let clock = checks.iter().find(|found| found["check"] == "database clock").expect("a comparison");
    assert_eq!(clock["verdict"], "good", "{clock}");
}

#[tokio::test]
async fn old_events_are_purged() {
    let app = TestApp::start().await;
    let db = &app.running().context().db;
    let emit = async || {
        let event = async |tx: &mut Tx| tx.emit(NewEvent::new("thing.made", json!({}))).await;
        db.write::<_, StoreError, _>(event).await.expect("emitted")
    };
    let count_events = async || {
        let mut read = db.read().await.expect("a connection");
        let row = read
            .fetch_one("SELECT COUNT(*) AS count FROM outbox WHERE event_type = 'thing.made'", args![])
            .await
            .expect("a count");
        row.get::<i64>("count").expect("a number")
    };
    emit().await;
    app.clock.advance(Duration::from_secs(6 * 24 * 3600));
    app.run_workers().await;
    emit().await;
    assert_eq!(count_events().await, 2);
    app.clock.advance(Duration::from_secs(2 * 24 * 3600));
    // Transactions of other tests on a shared server may be older than the event.
    while count_events().await == 2 {
        app.run_workers().await;
    }
    assert_eq!(count_events().await, 1);
}

#[tokio::test]
async fn shared_directory_is_rejected_and_left_unchanged() {
    let process = TestProcess::stopped().await;
    let shared = process.folder().join("srv");
    std::fs::create_dir(&shared).expect("made");
    std::fs::write(shared.join("index.html"), "page of a web server").expect("written");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).expect("changed");
    let mut command = process.command();
    command.env("SVC_DATA_DIR", &shared).env("SVC_PORT", "0");
    let output = tokio::task::spawn_blocking(move || command.output().expect("the command runs"))
        .await
        .expect("the command ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("SVC_DATA_DIR=") && stderr.contains("chmod 700"), "{stderr}");
    assert_eq!(std::fs::metadata(&shared).expect("there").permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(&shared).expect("readable").count(), 1);
}

#[tokio::test]
async fn connections_do_not_exhaust_open_files() {
    let mut process = TestProcess::stopped().await;
    process.spawn_after("ulimit -n 300").await;
    let mut connections = Vec::new();
    for _ in 0..400 {
        connections.push(tokio::net::TcpStream::connect(process.address).await.expect("a connection"));
    }
    // The private socket and the database still have file descriptors.
    let mut command = process.command();
    command.args(["keys", "create", "--name", "test"]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("the command runs"))
        .await
        .expect("the command ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!process.log().contains("failed to accept"));
    drop(connections);
    process.get("/health").send().await.expect_status(200);
}

#[tokio::test]
async fn open_file_limit_is_raised() {
    let mut process = TestProcess::stopped().await;
    process.spawn_after("ulimit -Sn 256").await;
    let line = process.kernel_limit("Max open files");
    let soft: u64 = line.split_whitespace().nth(3).and_then(|text| text.parse().ok()).expect("a number");
    assert!(soft > 256, "{line}");
}

/// Every worker declares when it is idle, or is listed here with the reason why it never is.
#[tokio::test]
async fn idle_daemon_has_no_active_workers() {
    let app = TestApp::with_owner().await;
    app.run_workers().await;
    let never_idle = app.running().daemon.workers.never_idle();
    // `memory.embed` polls for a model file, which may be added at any time.
    assert!(never_idle.iter().all(|worker| *worker == "memory.embed"), "{never_idle:?}");
}
