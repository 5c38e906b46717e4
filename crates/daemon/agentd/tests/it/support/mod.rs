//! Runs a whole daemon in a test with a mock clock, seeded randomness and a real socket.
//! The test client validates every JSON response against the OpenAPI document.

pub mod chat_fixture;
pub mod database;
pub mod document;
pub mod eventually;
pub mod examples;
pub mod folder;
pub mod hold;
pub mod page;
pub mod process;
pub mod push_service;
pub mod record;
pub mod request;
pub mod smtp;
pub mod tools;
pub mod watchdog;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd::config::{AddDomain, Additions, Config, ConfigSource};
use agentd::lifecycle::{Running, StartError, WorkerMode};
use agentd_automation::notify::Transport;
use agentd_base::{Entropy, MockClock, Secret, Timestamp};
use agentd_core::runtime::Binding;
use agentd_engine::tools::ToolSource;
use agentd_inference::embedder::Embedder;
use agentd_store::{Dialect, StoreError};
use agentd_testing_inference::FakeEmbedder;
use serde_json::json;

pub use database::ScratchDatabase;
pub use eventually::Eventually;
pub use folder::TestFolder;
pub use page::TestPage;
pub use process::TestProcess;
pub use request::{TestRequest, TestResponse};
use tools::TestTools;

/// A Monday, 09:00 UTC.
pub const START: &str = "2026-01-05T09:00:00.000Z";

/// Maximum time to close the database of a dropped daemon.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// Settings for mail and push messages that are not part of the configuration.
#[derive(Debug, Clone, Default)]
pub struct MailLimits {
    /// Trusted root certificates (DER) for mail servers.
    pub roots: Vec<Vec<u8>>,
    /// Time limit for sending; `None` uses the default.
    pub time_limit: Option<Duration>,
}

pub struct TestApp {
    pub clock: MockClock,
    pub address: SocketAddr,
    /// API key of the owner, set by [`TestApp::with_owner`].
    pub key: Option<String>,
    client: reqwest::Client,
    running: Option<Running>,
    source: ConfigSource,
    mail: MailLimits,
    /// Maximum number of queued hook deliveries; `None` uses the default. Applies at the next start.
    pub hook_waiting_limit: Option<u64>,
    /// Maximum number of unread events before requests that add events are refused. Applies at the next start.
    pub event_backlog_limit: Option<u32>,
    /// Embedder of the daemon.
    pub embedder: Arc<FakeEmbedder>,
    /// Additional tools.
    pub tools: TestTools,
    /// Additional notification transports. Applies at the next start.
    pub transports: Vec<Arc<dyn Transport>>,
    /// Additional domains. Applies at the next start.
    pub domains: Vec<Arc<AddDomain>>,
    seed: u64,
    replicas: AtomicU64,
    folder: TestFolder,
    // Dropped last, because the daemon must stop before its database is removed.
    _database: Option<ScratchDatabase>,
}

impl Drop for TestApp {
    /// Closes the connections, because a dropped daemon would keep polling a PostgreSQL database that no longer
    /// exists.
    fn drop(&mut self) {
        let Some(running) = self.running.as_ref().filter(|running| running.context().db.dialect() == Dialect::Postgres)
        else {
            return;
        };
        let db = running.context().db.clone();
        // Uses a separate runtime, because the runtime of the test is busy dropping this value.
        let closed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // The writer is closed immediately; read connections may depend on the runtime of the test.
            let _ = runtime.block_on(async { tokio::time::timeout(CLOSE_TIMEOUT, db.close()).await });
        });
        let _ = closed.join();
    }
}

impl TestApp {
    /// Starts an empty daemon in bootstrap mode.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts an empty daemon with a modified configuration.
    pub async fn start_with(configure: impl FnOnce(&mut ConfigSource)) -> Self {
        watchdog::watch_this_test();
        let folder = TestFolder::create();
        let database = ScratchDatabase::create().await;
        let mut source = ConfigSource {
            port: Some("0".to_owned()),
            data_dir: Some(folder.path().join("data")),
            // This process is a test without subcommands.
            program: Some(process::BINARY.into()),
            database_url: database.as_ref().map(|database| Secret::new(database.url().to_owned())),
            ..ConfigSource::default()
        };
        configure(&mut source);
        let clock = MockClock::new(Timestamp::parse(START).expect("a time"));
        let mut app = Self {
            clock,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            key: None,
            client: reqwest::Client::builder().no_proxy().pool_max_idle_per_host(64).build().expect("a client"),
            running: None,
            source,
            mail: MailLimits::default(),
            hook_waiting_limit: None,
            event_backlog_limit: None,
            embedder: Arc::new(FakeEmbedder::new()),
            tools: TestTools::default(),
            transports: Vec::new(),
            domains: Vec::new(),
            seed: 0,
            replicas: AtomicU64::new(0),
            folder,
            _database: database,
        };
        app.boot().await;
        app
    }

    /// Starts a daemon with an account (`owner` / `correct horse`) and an API key that is sent with every request.
    pub async fn with_owner() -> Self {
        let mut app = Self::start().await;
        app.create_owner().await;
        app
    }

    pub async fn create_owner(&mut self) {
        let account = json!({"username": "owner", "password": "correct horse"});
        self.post("/api/auth/register").json(&account).send().await.expect_status(201);
        let answer = self.post("/api/auth/keys").json(&json!({"name": "test"})).send().await;
        self.key = answer.expect_status(200).json()["key"].as_str().map(str::to_owned);
    }

    /// Starts a second daemon on the same database; `None` on SQLite, which supports only one.
    pub async fn replica(&self) -> Option<Self> {
        let folder = TestFolder::create();
        let data_dir = folder.path().join("data");
        self.replica_in(folder, data_dir).await
    }

    /// Starts a replica that also shares the data directory, as documented.
    pub async fn replica_on_same_data_dir(&self) -> Option<Self> {
        let folder = TestFolder::create();
        self.replica_in(folder, self.data_dir().to_path_buf()).await
    }

    async fn replica_in(&self, folder: TestFolder, data_dir: PathBuf) -> Option<Self> {
        self.source.database_url.as_ref()?;
        let source = ConfigSource {
            data_dir: Some(data_dir),
            secret_key_file: Some(self.data_dir().join("secret.key")),
            ..self.source.clone()
        };
        let mut replica = Self {
            clock: self.clock.clone(),
            address: self.address,
            key: self.key.clone(),
            client: self.client.clone(),
            running: None,
            source,
            mail: self.mail.clone(),
            hook_waiting_limit: self.hook_waiting_limit,
            event_backlog_limit: self.event_backlog_limit,
            embedder: Arc::clone(&self.embedder),
            tools: self.tools.clone(),
            transports: self.transports.clone(),
            domains: self.domains.clone(),
            // A different seed, so that no ids collide with those of the first daemon and its other replicas.
            seed: self.seed + 1_000 * (1 + self.replicas.fetch_add(1, Ordering::Relaxed)),
            replicas: AtomicU64::new(0),
            folder,
            _database: None,
        };
        replica.boot().await;
        Some(replica)
    }

    async fn boot(&mut self) {
        self.try_start().await.expect("start the daemon");
    }

    /// Starts a stopped daemon, or returns the error.
    pub async fn try_start(&mut self) -> Result<(), String> {
        // A new seed for each start, so that ids and secrets are not repeated.
        self.seed += 1;
        let mut attempts = 0;
        let running = loop {
            let mut config = Config::from_source(self.source.clone()).expect("a valid configuration");
            config.extra_tls_roots.clone_from(&self.mail.roots);
            config.embedder = Some(Arc::clone(&self.embedder) as Arc<dyn Embedder>);
            config.additions = self.additions();
            config.hook_waiting_limit = self.hook_waiting_limit.unwrap_or(config.hook_waiting_limit);
            config.event_backlog_limit = self.event_backlog_limit.unwrap_or(config.event_backlog_limit);
            config.email_time_limit = self.mail.time_limit.unwrap_or(config.email_time_limit);
            let started =
                Running::start(config, self.clock.clock(), Entropy::seeded(self.seed), WorkerMode::Manual).await;
            match started {
                Ok(running) => break running,
                // A process that another test has just forked holds a copy of every lock until it executes its
                // program.
                Err(StartError::Store(StoreError::AlreadyRunning { .. })) if attempts < 3_000 => attempts += 1,
                Err(error) => return Err(error.to_string()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        self.address = running.address;
        self.running = Some(running);
        Ok(())
    }

    /// Returns the test doubles and the domains of the test.
    fn additions(&self) -> Additions {
        let (tools, transports) = (self.tools.clone(), self.transports.clone());
        let doubles: Arc<AddDomain> = Arc::new(move |_, domains| {
            domains.bind(Binding::new::<dyn ToolSource>(Arc::new(tools.clone())));
            transports.iter().cloned().for_each(|transport| domains.bind(Binding::new(transport)));
        });
        Additions(std::iter::once(doubles).chain(self.domains.iter().cloned()).collect())
    }

    /// Restarts with other mail settings.
    pub async fn restart_with_mail(&mut self, mail: MailLimits) {
        self.mail = mail;
        self.restart().await;
    }

    /// Stops the daemon gracefully and starts it again on the same data. Advances the clock by one millisecond,
    /// because ids of two generators are ordered only across milliseconds.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.clock.advance(Duration::from_millis(1));
        self.boot().await;
    }

    /// Stops the daemon gracefully.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shut_down().await;
        }
    }

    /// Stops the daemon gracefully with a shorter time limit.
    pub async fn stop_within(&mut self, limit: Duration) {
        if let Some(running) = self.running.take() {
            running.shut_down_within(limit).await;
        }
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("a running daemon")
    }

    pub fn data_dir(&self) -> &Path {
        self.source.data_dir.as_deref().unwrap_or(self.folder.path())
    }

    /// URL of the PostgreSQL database; `None` on SQLite.
    pub fn database_url(&self) -> Option<&str> {
        self.source.database_url.as_ref().map(Secret::expose)
    }

    /// Runs the background workers until they are idle.
    pub async fn run_workers(&self) {
        self.running().daemon.workers.run_until_idle().await.expect("the workers succeed");
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> TestRequest {
        TestRequest::new(&self.client, method, self.address, path, self.key.as_deref())
    }

    pub fn get(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::GET, path)
    }

    pub fn post(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::POST, path)
    }

    pub fn put(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::PUT, path)
    }

    pub fn patch(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::PATCH, path)
    }

    pub fn delete(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::DELETE, path)
    }
}
