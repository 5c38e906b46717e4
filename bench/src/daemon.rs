//! Daemon under test: the release binary on a fresh data directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;
use crate::load::request;

/// Running daemon; killed when dropped.
#[derive(Debug)]
pub struct DaemonUnderTest {
    child: Child,
    pub address: String,
    pub key: String,
    pub data_dir: PathBuf,
}

/// Returns the release binary next to this one, or that of `AGENTD_BINARY`.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("AGENTD_BINARY") {
        return path.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new(".")).join("agentd")
}

/// Returns a port that is currently free.
///
/// # Errors
/// No port is available.
pub fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl DaemonUnderTest {
    /// Starts the process without waiting for it.
    ///
    /// # Errors
    /// The binary does not exist.
    pub fn spawn(data_dir: &Path) -> Outcome<Self> {
        Self::spawn_with(data_dir, &[])
    }

    /// Like [`Self::spawn`], with more environment variables.
    ///
    /// # Errors
    /// The binary does not exist.
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
    pub fn spawn_with(data_dir: &Path, variables: &[(&str, &str)]) -> Outcome<Self> {
        let port = free_port()?;
        let child = Command::new(binary())
            // Models downloaded by `make models`.
            .env("SVC_MODELS_DIR", "models")
            .envs(variables.iter().copied())
            .env("SVC_PORT", port.to_string())
            .env("SVC_DATA_DIR", data_dir)
            .env("SVC_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| {
                format!("{}: {error}; build it with `cargo build --release -p agentd`", binary().display())
            })?;
        Ok(Self { child, address: format!("127.0.0.1:{port}"), key: String::new(), data_dir: data_dir.to_path_buf() })
    }

    /// Wraps a daemon that already runs in a child process.
    #[must_use]
    pub fn adopt(child: Child, address: &str, data_dir: &Path) -> Self {
        Self { child, address: address.to_owned(), key: String::new(), data_dir: data_dir.to_path_buf() }
    }

    /// Waits for the first 200 on `/health/ready` and returns the elapsed time.
    ///
    /// # Errors
    /// The daemon is not ready within ten seconds.
    pub fn wait_until_ready(&self) -> Outcome<Duration> {
        let started = Instant::now();
        loop {
            if let Ok((200, _)) = request(&self.address, "GET", "/health/ready", "", None) {
                return Ok(started.elapsed());
            }
            if started.elapsed() > Duration::from_secs(10) {
                return Err("the daemon did not become ready".into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Starts a daemon on an empty folder, with an account and a key.
    ///
    /// # Errors
    /// Any failure during startup.
    pub fn start_with_owner(data_dir: &Path) -> Outcome<Self> {
        Self::spawn(data_dir)?.with_owner()
    }

    /// Creates an account and a key on a daemon without an account.
    ///
    /// # Errors
    /// Any failure of the requests.
    pub fn with_owner(self) -> Outcome<Self> {
        let mut daemon = self;
        daemon.wait_until_ready()?;
        daemon.call("POST", "/api/auth/register", &json!({"username": "owner", "password": "correct horse"}))?;
        let key = daemon.call("POST", "/api/auth/keys", &json!({"name": "bench"}))?;
        daemon.key = key["key"].as_str().ok_or("no key in the answer")?.to_owned();
        Ok(daemon)
    }

    /// Calls the API; any status except success is an error.
    ///
    /// # Errors
    /// The connection fails or the status is not a success.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Outcome<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) =
            request(&self.address, method, path, &self.key, Some(body.as_str()).filter(|body| !body.is_empty()))?;
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// Returns the resident memory of the daemon and its children, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory().resident
    }

    /// Returns the memory of the daemon and its children.
    #[must_use]
    pub fn memory(&self) -> MemoryUsage {
        self.children().into_iter().map(MemoryUsage::of).fold(MemoryUsage::of(self.child.id()), MemoryUsage::add)
    }

    /// Returns the ids of its running child processes.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let of_task =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        tasks
            .map(of_task)
            .flat_map(|ids| ids.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the number of threads of the daemon without its children.
    #[must_use]
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).map_or(0, Iterator::count)
    }

    /// Returns the resident memory of the daemon without its children, in bytes.
    #[must_use]
    pub fn own_resident_bytes(&self) -> u64 {
        MemoryUsage::of(self.child.id()).resident
    }

    /// Returns the number of open files and sockets of the daemon without its children.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// Returns the CPU time used so far by the daemon without its children.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        processor_time_of(self.child.id())
    }

    /// Returns the number of voluntary context switches of the daemon without its children.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let count = |task: std::fs::DirEntry| -> Option<u64> {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
        };
        tasks.filter_map(count).sum()
    }

    /// Stops the daemon gracefully.
    ///
    /// # Errors
    /// Waiting for the process failed.
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
    pub fn stop(mut self) -> Outcome<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Returns user and system time of a process, which the kernel counts in hundredths of a second.
#[must_use]
pub fn processor_time_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may contain spaces; `utime` and `stime` are fields 14 and 15.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Memory of one or several processes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryUsage {
    pub resident: u64,
    /// Pages shared by several processes count proportionally.
    pub proportional: u64,
    /// Memory without a backing file: heap and stacks.
    pub anonymous: u64,
}

impl MemoryUsage {
    fn of(process: u32) -> Self {
        let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let kib = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
            line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default()
        };
        Self { resident: kib("Rss") * 1024, proportional: kib("Pss") * 1024, anonymous: kib("Anonymous") * 1024 }
    }

    fn add(self, other: Self) -> Self {
        Self {
            resident: self.resident + other.resident,
            proportional: self.proportional + other.proportional,
            anonymous: self.anonymous + other.anonymous,
        }
    }
}

impl Drop for DaemonUnderTest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
