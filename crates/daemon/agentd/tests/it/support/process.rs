//! Runs the daemon as a separate process, to test kills, logs and exit codes.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use super::{Eventually, ScratchDatabase, TestFolder, TestRequest, watchdog};

pub const BINARY: &str = env!("CARGO_BIN_EXE_agentd");

pub struct TestProcess {
    pub key: String,
    pub address: SocketAddr,
    folder: TestFolder,
    child: Option<Child>,
    client: reqwest::Client,
    /// Data directory, shared with its replicas.
    data_dir: PathBuf,
    database_url: Option<String>,
    log_level: &'static str,
    /// Program to run.
    program: PathBuf,
    user: Option<u32>,
    _database: Option<ScratchDatabase>,
}

/// User id of `nobody`, for daemons that must not run as root.
pub const NOBODY: u32 = 65_534;

impl TestProcess {
    /// Prepares a daemon without starting it or writing to disk.
    pub async fn stopped() -> Self {
        watchdog::watch_this_test();
        let folder = TestFolder::create();
        let database = ScratchDatabase::create().await;
        Self {
            key: String::new(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: folder.path().join("data"),
            folder,
            child: None,
            // Connections to a killed process must not be reused for the next one.
            client: reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client"),
            database_url: database.as_ref().map(|database| database.url().to_owned()),
            log_level: "trace",
            program: PathBuf::from(BINARY),
            user: None,
            _database: database,
        }
    }

    /// Starts a daemon with an owner that never runs as root, even if the test does.
    pub async fn unprivileged() -> Self {
        let mut process = Self::stopped().await;
        if rustix::process::geteuid().is_root() {
            process.user = Some(NOBODY);
            std::os::unix::fs::chown(process.folder.path(), Some(NOBODY), Some(NOBODY))
                .expect("change the owner of the folder");
            // The build may be in a folder that only root can read.
            let probe = as_user(NOBODY, "test").args(["-x", BINARY]).status().expect("setpriv");
            if !probe.success() {
                process.program = process.folder.path().join("agentd");
                std::fs::copy(BINARY, &process.program).expect("a copy of the program");
            }
        }
        process.spawn().await;
        process.create_owner().await;
        process
    }

    async fn create_owner(&mut self) {
        let account = json!({"username": "owner", "password": "correct horse"});
        self.post("/api/auth/register").json(&account).send().await.expect_status(201);
        let key = self.post("/api/auth/keys").json(&json!({"name": "test"})).send().await.expect_status(200).json();
        self.key = key["key"].as_str().expect("a key").to_owned();
    }

    /// Prepares another daemon on the same database and data directory; `None` on SQLite, which supports only one.
    /// This process must outlive it. Both log at `info`, because traces of many daemons would fill the disk.
    pub fn replica(&mut self) -> Option<Self> {
        let database_url = Some(self.database_url.clone()?);
        self.log_level = "info";
        Some(Self {
            key: self.key.clone(),
            address: self.address,
            folder: TestFolder::create(),
            child: None,
            client: self.client.clone(),
            data_dir: self.data_dir.clone(),
            database_url,
            log_level: self.log_level,
            program: self.program.clone(),
            user: self.user,
            _database: None,
        })
    }

    /// Starts a new daemon with an owner.
    pub async fn with_owner() -> Self {
        let mut process = Self::stopped().await;
        process.spawn().await;
        process.create_owner().await;
        process
    }

    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// URL of the PostgreSQL database; `None` on SQLite.
    pub fn database_url(&self) -> Option<&str> {
        self.database_url.as_deref()
    }

    /// Returns the log of all runs of the process.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a command of the binary with the configuration of this daemon.
    pub fn command(&self) -> Command {
        let mut command = match self.user {
            Some(user) => as_user(user, &self.program),
            None => Command::new(&self.program),
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("SVC_DATA_DIR", self.data_dir()).env("SVC_PORT", self.address.port().to_string());
        if let Some(url) = &self.database_url {
            command.env("SVC_DATABASE_URL", url);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts the process and waits until it logs its address. The system chooses the port, because another test
    /// may
    /// take a port that was free before.
    pub async fn spawn(&mut self) {
        self.spawn_as(self.command()).await;
    }

    /// Starts the process after the shell has run `setting`.
    pub async fn spawn_after(&mut self, setting: &str) {
        let plain = self.command();
        let mut command = Command::new("sh");
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["-c", &format!("{setting} && exec \"$0\""), BINARY]).stdin(Stdio::null());
        self.spawn_as(command).await;
    }

    async fn spawn_as(&mut self, mut command: Command) {
        let before = self.log().len();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        command
            .env("SVC_PORT", "0")
            .env("SVC_LOG", self.log_level)
            .stdout(Stdio::null())
            .stderr(log.expect("a log file"));
        self.child = Some(command.spawn().expect("start the process"));
        let mut eventually = Eventually::new();
        loop {
            let log = self.log();
            let ready = log.get(before..).and_then(|new| new.split("agentd is ready: open http://").nth(1));
            if let Some(address) = ready.and_then(|rest| rest.split('/').next()?.parse().ok()) {
                self.address = address;
                return;
            }
            let exited = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(exited.is_none(), "the daemon exited at start: {}", self.last_lines());
            eventually.retry_with(&log.get(before..)).await;
        }
    }

    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Returns a line of the kernel limits of the process, such as `Max open files`.
    pub fn kernel_limit(&self, name: &str) -> String {
        let id = self.id();
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).expect("the limits");
        limits.lines().find(|line| line.starts_with(name)).expect("the limit").to_owned()
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("a running process").id()
    }

    /// `kill -9`
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    /// Sends SIGTERM and returns the exit status.
    pub async fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a running process");
        Command::new("kill").arg(child.id().to_string()).status().expect("kill");
        tokio::task::spawn_blocking(move || child.wait().expect("reaped")).await.expect("waited")
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> TestRequest {
        TestRequest::new(
            &self.client,
            method,
            self.address,
            path,
            Some(self.key.as_str()).filter(|key| !key.is_empty()),
        )
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

    pub fn delete(&self, path: &str) -> TestRequest {
        self.request(reqwest::Method::DELETE, path)
    }

    /// Returns the HTTP client, the address and the API key, for use without a borrow of the process.
    pub fn client(&self) -> (reqwest::Client, SocketAddr, String) {
        (self.client.clone(), self.address, self.key.clone())
    }

    pub async fn create_agent(&self, name: &str) -> Value {
        let agent = json!({"svc_name": name, "user_name": "Owner", "archetype": "assistant"});
        self.post("/api/agents").json(&agent).send().await.expect_status(201).json()
    }
}

/// Creates a command that runs without root privileges.
pub fn as_user(user: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}")]).args(["--clear-groups", "--"]).arg(program);
    command
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
