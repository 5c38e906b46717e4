//! One daemon of the simulation without HTTP, on its own paused runtime with its own clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd::compose::{DaemonServices, wire};
use agentd::config::{Config, ConfigSource};
use agentd_base::id::IdGenerator;
use agentd_base::{Entropy, MockClock, Timestamp};
use agentd_core::migrations::MIGRATIONS;
use agentd_core::runtime::{AppContext, DataDir, LiveFeed, Recorder, TaskPanics};
use agentd_operations::backup::WhileBusy;
use agentd_operations::monitoring::Readiness;
use agentd_store::testing::open_simulated;
use agentd_store::{DatabaseUrl, DbOptions};
use agentd_telemetry::Tracer;
use agentd_testing_inference::FakeEmbedder;
use futures_util::FutureExt;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, LocalSet};
use tokio_util::sync::CancellationToken;

use super::world::{Life, World};
use crate::support::process;

/// Background workers that hold leases or monitor them.
pub const WORKERS: [&str; 12] = [
    "hooks.read",
    "hooks.deliver",
    "hooks.execute",
    "hooks.purge",
    "notify.deliver",
    "notify.purge",
    "scheduler.tick",
    "scheduler.runs",
    "scheduler.keep",
    "alerts.evaluate",
    "proactive.start",
    TURN_RECOVERY,
];
const TURN_RECOVERY: &str = "engine.sessions";

/// Folder with the files of a seed.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    pub folder: &'p Path,
}

impl Place<'_> {
    pub fn database(&self) -> std::path::PathBuf {
        self.folder.join("agentd.db")
    }

    pub fn key(&self) -> std::path::PathBuf {
        self.folder.join("secret.key")
    }
}

pub struct Node {
    pub life: Life,
    pub context: AppContext,
    pub inside: Arc<DaemonServices>,
    pub clock: MockClock,
    /// Clock drift in parts per million, and offset in microseconds.
    pub drift: i64,
    pub ahead: i64,
    /// Latest time on its clock since it began to look for abandoned turns; it may take turns based on this time.
    latest: Timestamp,
    /// Real time that has passed since it last ran.
    owed: Duration,
    passes: BTreeMap<&'static str, JoinHandle<Result<(), String>>>,
    local: LocalSet,
    runtime: Option<Runtime>,
}

/// Stage up to which a node runs.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// Runs every ready task this many times.
    Rounds(u64),
    /// Runs until all tasks are waiting.
    Idle,
}

/// Creates a runtime with `turns` task polls per round.
fn runtime(turns: u32) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).event_interval(turns).build().expect("a runtime")
}

impl Node {
    /// Starts a daemon up to the point where it would open its listener.
    pub fn boot(place: Place<'_>, slot: usize, life: Life, seed: u64, now: Timestamp, world: &World) -> Self {
        // Most lives use short rounds, so that they can be interrupted between any two operations.
        let turns = [61, 1, 1, 3][usize::try_from(seed % 4).expect("a small number")];
        let (runtime, local, clock) = (runtime(turns), LocalSet::new(), MockClock::new(now));
        let data_dir = place.folder.join(format!("node-{slot}"));
        let source = ConfigSource {
            port: Some("0".to_owned()),
            data_dir: Some(data_dir.clone()),
            program: Some(process::BINARY.into()),
            secret_key_file: Some(place.key()),
            ..ConfigSource::default()
        };
        let mut config = Config::from_source(source).expect("a valid configuration");
        config.embedder = Some(Arc::new(FakeEmbedder::new()));
        config.exchange = Some(world.connection(life));
        let (entropy, path) = (Entropy::seeded(seed), place.database());
        let booting = async {
            let ids = IdGenerator::new(clock.clock(), entropy.clone());
            let data_dir = DataDir::open(&data_dir).expect("a data directory");
            let options = DbOptions {
                url: DatabaseUrl::Sqlite { path },
                data_dir: data_dir.root().to_path_buf(),
                clock: clock.clock(),
                ids: ids.clone(),
                entropy: entropy.clone(),
                migrations: MIGRATIONS,
            };
            let context = AppContext {
                db: open_simulated(options).await.expect("open the database"),
                instance: ids.next_ulid().into(),
                clock: clock.clock(),
                ids,
                entropy,
                data_dir: Arc::new(data_dir),
                draining: CancellationToken::new(),
                panics: TaskPanics::default(),
                feed: LiveFeed::default(),
                recorder: Recorder::default(),
                tracer: Tracer::off(),
            };
            let readiness = Readiness::starting();
            let wired = wire(&context, &config, config.listen, readiness.clone(), WhileBusy::Refuse).await;
            readiness.set_ready();
            (context, Arc::new(wired.expect("start the daemon")))
        };
        let (context, inside) = local.block_on(&runtime, booting);
        let (drift, ahead, owed, passes) = (0, 0, Duration::ZERO, BTreeMap::new());
        Self { life, context, inside, clock, drift, ahead, latest: now, owed, passes, local, runtime: Some(runtime) }
    }

    /// Begins a pass of a worker unless one is running; returns whether it did.
    pub fn begin(&mut self, worker: &'static str) -> bool {
        if self.passes.get(worker).is_some_and(|pass| !pass.is_finished()) {
            return false;
        }
        if worker == TURN_RECOVERY {
            self.latest = self.context.clock.now();
        }
        let found = self.inside.workers.find(worker).expect("a worker of this name");
        let pass = async move { found.run_once().await.map(|_| ()).map_err(|error| error.to_string()) };
        self.passes.insert(worker, self.spawn(pass));
        true
    }

    /// Spawns a task on the runtime of this daemon.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime().spawn(work)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a running daemon")
    }

    /// Records elapsed real time, whether the daemon runs or not.
    pub fn elapse(&mut self, by: Duration) {
        self.owed += by;
    }

    /// Sets the clock to its value at the real time `elapsed` after `start`.
    pub fn set_clock(&mut self, start: i64, elapsed: Duration) {
        let true_micros = i64::try_from(elapsed.as_micros()).expect("a short elapsed time");
        let shown = true_micros + true_micros / 1_000_000 * self.drift + self.ahead;
        let now = Timestamp::from_micros(start + shown);
        self.clock.set(now);
        self.latest = self.latest.max(now);
    }

    pub fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Runs the daemon. Timers that became due meanwhile fire immediately, as in a resumed process.
    pub fn run(&mut self, how: Run) {
        let owed = std::mem::take(&mut self.owed);
        self.local.block_on(self.runtime(), async {
            if !owed.is_zero() {
                tokio::time::advance(owed).await;
            }
            match how {
                Run::Rounds(rounds) => {
                    for _ in 0..rounds {
                        tokio::task::yield_now().await;
                    }
                }
                // Time is paused and advances only when all tasks are waiting.
                Run::Idle => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        });
    }

    /// Returns the errors of completed passes.
    pub fn failures(&mut self) -> Vec<String> {
        let ended: Vec<_> = self.passes.iter().filter(|(_, pass)| pass.is_finished()).map(|(name, _)| *name).collect();
        let mut failures = Vec::new();
        for name in ended {
            let Some(pass) = self.passes.remove(name) else { continue };
            match pass.now_or_never() {
                Some(Ok(Err(error))) => failures.push(format!("{name}: {error}")),
                Some(Err(error)) => failures.push(format!("{name}: {error}")),
                Some(Ok(Ok(()))) | None => {}
            }
        }
        failures
    }
}

impl Drop for Node {
    /// Behaves like `kill -9`: running tasks and memory are lost.
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        {
            // Dropped values may need the runtime.
            let _entered = runtime.enter();
            self.passes.clear();
            drop(std::mem::take(&mut self.local));
        }
        runtime.shutdown_background();
    }
}
