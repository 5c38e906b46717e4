//! The daemon under test: the release binary on a fresh data directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;
use crate::load::request;

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct DaemonUnderTest {
    child: Child,
    pub address: String,
    pub key: String,
    pub data_dir: PathBuf,
}

/// The release binary beside this one, or the one that `AGENTD_BINARY` names.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("AGENTD_BINARY") {
        return path.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new(".")).join("agentd")
}

/// A port that is free now.
///
/// # Errors
/// None can be had.
pub fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl DaemonUnderTest {
    /// Starts the process; does not wait.
    ///
    /// # Errors
    /// The binary is not there.
    pub fn spawn(data_dir: &Path) -> Outcome<Self> {
        Self::spawn_with(data_dir, &[])
    }

    /// The same, with more environment variables.
    ///
    /// # Errors
    /// The binary is not there.
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
    pub fn spawn_with(data_dir: &Path, variables: &[(&str, &str)]) -> Outcome<Self> {
        let port = free_port()?;
        let child = Command::new(binary())
            // What `make models` fetched.
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

    /// A daemon that runs in a child process already.
    #[must_use]
    pub fn adopt(child: Child, address: &str, data_dir: &Path) -> Self {
        Self { child, address: address.to_owned(), key: String::new(), data_dir: data_dir.to_path_buf() }
    }

    /// Waits for the first 200 on `/health/ready` and answers how long it took from now.
    ///
    /// # Errors
    /// Not ready within ten seconds.
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

    /// Starts on an empty folder, with an account and a key.
    ///
    /// # Errors
    /// Whatever goes wrong on the way.
    pub fn start_with_owner(data_dir: &Path) -> Outcome<Self> {
        Self::spawn(data_dir)?.with_owner()
    }

    /// Makes an account and a key on a daemon that has none.
    ///
    /// # Errors
    /// Whatever goes wrong on the way.
    pub fn with_owner(self) -> Outcome<Self> {
        let mut daemon = self;
        daemon.wait_until_ready()?;
        daemon.call("POST", "/api/auth/register", &json!({"username": "owner", "password": "correct horse"}))?;
        let key = daemon.call("POST", "/api/auth/keys", &json!({"name": "bench"}))?;
        daemon.key = key["key"].as_str().ok_or("no key in the answer")?.to_owned();
        Ok(daemon)
    }

    /// Calls the API; anything but success is an error.
    ///
    /// # Errors
    /// The connection fails or the status is no success.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Outcome<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) =
            request(&self.address, method, path, &self.key, Some(body.as_str()).filter(|body| !body.is_empty()))?;
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// Resident memory of the daemon and its children, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory().resident
    }

    /// Memory of the daemon and its children.
    #[must_use]
    pub fn memory(&self) -> MemoryUsage {
        self.children().into_iter().map(MemoryUsage::of).fold(MemoryUsage::of(self.child.id()), MemoryUsage::add)
    }

    /// The processes that it started and that are still there.
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

    /// Threads of the daemon without its children.
    #[must_use]
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).map_or(0, Iterator::count)
    }

    /// Resident memory of the daemon without its children, in bytes.
    #[must_use]
    pub fn own_resident_bytes(&self) -> u64 {
        MemoryUsage::of(self.child.id()).resident
    }

    /// Open files and sockets of the daemon without its children.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// What the daemon without its children has used until now.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        processor_time_of(self.child.id())
    }

    /// How often the daemon without its children has gone to sleep until now.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let count = |task: std::fs::DirEntry| -> Option<u64> {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
        };
        tasks.filter_map(count).sum()
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// It could not be waited for.
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
    pub fn stop(mut self) -> Outcome<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

/// User and system time of a process, of which the kernel counts hundredths of a second.
#[must_use]
pub fn processor_time_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may hold spaces; `utime` and `stime` are the 14th and 15th field.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Memory of one or several processes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryUsage {
    pub resident: u64,
    /// Pages that several processes share count in proportion.
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
