//! Lifecycle of the daemon: listen, open the store, compose, serve, drain, close.
//!
//! Invariants: probes respond as soon as the process listens, even while a migration runs. The first signal drains
//! within [`DRAIN_LIMIT`]; a second one ends the process immediately. The database is closed only when nothing uses it.

mod allocator;
mod clock;
mod connection_limiter;
mod error;
mod listen;
mod local_socket;
mod offline;
mod open_files;
mod startup;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy};
use agentd_core::migrations::MIGRATIONS;
use agentd_core::runtime::{AppContext, DataDir, LiveFeed, Recorder, TaskPanics};
use agentd_operations::backup::WhileBusy;
use agentd_operations::monitoring::Readiness;
use agentd_store::{DatabaseUrl, Db, DbOptions};
use agentd_telemetry::{Meter, TelemetryConfig, Tracer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::compose::{Daemon, compose};
use crate::config::{Config, own_origin};

pub use allocator::share_allocator_arenas;
pub use clock::{ClockAgreement, compare_clocks, require_clock_agreement};
use connection_limiter::ConnectionLimiter;
pub use error::StartError;
use local_socket::LocalSocket;
pub use offline::Offline;
use startup::StartupSwitch;

/// Maximum time from the signal to the end of the process. The following constants are fractions of it, all counted
/// from the signal, so that unused time of one stage is available to the next.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// Deadline for running replies to finish.
const REPLY_DEADLINE: f64 = 0.45;
/// Deadline for unfinished replies to be marked as interrupted and for the local model to stop.
const TURN_DEADLINE: f64 = 0.75;
/// Deadline for connections and workers, which are aborted afterwards.
const CONNECTION_DEADLINE: f64 = 0.85;
/// Deadline for sending the last spans and metrics, which are lost afterwards.
const TELEMETRY_DEADLINE: f64 = 0.9;
/// Maximum time to flush spans and metrics to the collector at shutdown.
const MAX_FLUSH: Duration = Duration::from_secs(2);
/// Maximum time to flush log records, which are sent last.
const MAX_LOG_FLUSH: Duration = Duration::from_secs(1);
/// Deadline for closing the database. Afterwards it is left as after a kill, without data loss.
const DATABASE_DEADLINE: f64 = 0.95;

/// Whether background workers run in their own tasks or are run explicitly, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerMode {
    Spawned,
    Manual,
}

/// Opens and migrates the store of the data directory and builds the context.
async fn open_context(
    config: &Config,
    data_dir: DataDir,
    clock: Clock,
    entropy: Entropy,
) -> Result<AppContext, StartError> {
    let ids = IdGenerator::new(clock.clone(), entropy.clone());
    let db = Db::open(DbOptions {
        url: DatabaseUrl::parse(config.database_url.as_ref(), data_dir.root())?,
        data_dir: data_dir.root().to_path_buf(),
        clock: clock.clone(),
        ids: ids.clone(),
        entropy: entropy.clone(),
        migrations: MIGRATIONS,
    })
    .await?;
    let instance: Arc<str> = ids.next_ulid().into();
    let telemetry = config.telemetry.as_ref();
    let meter = telemetry.map_or_else(Meter::off, |config| Meter::new(config, config.resource(&instance)));
    Ok(AppContext {
        db,
        instance,
        clock,
        ids,
        entropy,
        data_dir: Arc::new(data_dir),
        draining: CancellationToken::new(),
        panics: TaskPanics::default(),
        feed: LiveFeed::default(),
        recorder: Recorder::new(meter),
        tracer: telemetry.map_or_else(Tracer::off, Tracer::new),
    })
}

/// Running daemon.
#[derive(Debug)]
pub struct Running {
    pub address: SocketAddr,
    pub daemon: Daemon,
    context: AppContext,
    readiness: Readiness,
    tracker: TaskTracker,
    stop_listening: CancellationToken,
}

impl Running {
    /// Starts everything and returns when the daemon is ready.
    ///
    /// # Errors
    /// `StartError` with the reason and the remedy.
    pub async fn start(
        config: Config,
        clock: Clock,
        entropy: Entropy,
        worker_mode: WorkerMode,
    ) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&config.data_dir)?;
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|source| StartError::Listen { address: config.listen, source })?;
        let address = listener.local_addr().map_err(|source| StartError::Listen { address: config.listen, source })?;
        let tracker = TaskTracker::new();
        let stop_listening = CancellationToken::new();
        let readiness = Readiness::starting();
        let startup = StartupSwitch::starting(readiness.clone());
        let open_files = open_files::raise_limit();
        let limiter =
            Arc::new(ConnectionLimiter::new(open_files::max_connections(open_files), config.trusted_proxies.clone()));
        tracker.spawn(listen::serve_tcp(listener, limiter, startup.clone(), tracker.clone(), stop_listening.clone()));

        let context = open_context(&config, data_dir, clock, entropy).await?;
        let daemon = match compose(context.clone(), &config, address, readiness.clone(), WhileBusy::Wait).await {
            Ok(daemon) => daemon,
            Err(error) => {
                // Closes the database now, so that the lock on the data directory is released before returning.
                context.draining.cancel();
                context.db.close().await;
                return Err(error.into());
            }
        };
        let socket = LocalSocket::claim(&context.data_dir)
            .map_err(|source| StartError::Socket { path: context.data_dir.socket(), source })?;
        tracker.spawn(local_socket::serve(
            socket,
            Arc::clone(&context.data_dir),
            Arc::clone(&daemon.local_router),
            tracker.clone(),
            stop_listening.clone(),
        ));
        if worker_mode == WorkerMode::Spawned {
            daemon.workers.spawn(&context.db, &tracker, &context.draining);
        }
        startup.set_router(daemon.router.clone());
        readiness.set_ready();
        Ok(Self { address, daemon, context, readiness, tracker, stop_listening })
    }

    #[must_use]
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    #[must_use]
    pub fn context(&self) -> &AppContext {
        &self.context
    }

    /// Shuts down within [`DRAIN_LIMIT`]: stops accepting connections, lets running replies finish or marks them, stops
    /// the workers and closes the database.
    pub async fn shut_down(self) {
        self.shut_down_within(DRAIN_LIMIT).await;
    }

    /// Variant of [`Self::shut_down`] with another limit. Work that has not ended by then is left for the next start,
    /// as after a kill.
    pub async fn shut_down_within(self, limit: Duration) {
        let started = Instant::now();
        self.readiness.set_draining();
        self.context.draining.cancel();
        let replies = self.daemon.drain(limit.mul_f64(REPLY_DEADLINE));
        if timeout_at(started + limit.mul_f64(TURN_DEADLINE), replies).await.is_err() {
            tracing::warn!("replies not finished in time; they are marked at the next start");
        }
        self.stop_listening.cancel();
        self.tracker.close();
        if timeout_at(started + limit.mul_f64(CONNECTION_DEADLINE), self.tracker.wait()).await.is_err() {
            tracing::warn!("connections or workers not finished in time; cutting them off");
        }
        let left = (started + limit.mul_f64(TELEMETRY_DEADLINE)).saturating_duration_since(Instant::now());
        let left = left.min(MAX_FLUSH);
        tokio::join!(self.context.tracer.shut_down(left), self.context.recorder.meter().shut_down(left));
        if timeout_at(started + limit.mul_f64(DATABASE_DEADLINE), self.context.db.close()).await.is_err() {
            tracing::warn!("database still in use; exiting without closing it");
        }
    }
}

/// Runs the daemon until a signal ends it. `clock` must be the system clock.
///
/// # Errors
/// `StartError` if the daemon cannot start.
pub async fn run(config: Config, clock: Clock, entropy: Entropy) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|source| StartError::Signals { source })?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|source| StartError::Signals { source })?;
    let base_url = config.base_url.clone();
    let listen = config.listen;
    let (telemetry, records) = (config.telemetry.clone(), config.log_records.clone());
    let sources = Sources::of(&config)?;
    let start = async {
        require_clock_agreement(&config, &clock).await?;
        Running::start(config, clock.clone(), entropy, WorkerMode::Spawned).await
    };
    let running = tokio::select! {
        running = start => running?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    if let Some(telemetry) = &telemetry {
        running.daemon.export_logs(running.context(), telemetry, &records);
    }
    log_ready(&running, &sources, listen, &base_url).await;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down: waiting for running replies; send a second signal to exit immediately");
    let shutdown = async {
        running.shut_down().await;
        records.shut_down(MAX_LOG_FLUSH).await;
    };
    tokio::select! {
        () = shutdown => {}
        _ = terminate.recv() => tracing::warn!("second signal received; exiting immediately"),
            _ = interrupt.recv() => tracing::warn!("second signal received; exiting immediately"),
    }
    Ok(())
}

/// Configuration that the log shows once the daemon is ready.
struct Sources {
    config_file: String,
    database: String,
    telemetry: String,
}

impl Sources {
    fn of(config: &Config) -> Result<Self, StartError> {
        Ok(Self {
            config_file: config.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string()),
            database: DatabaseUrl::parse(config.database_url.as_ref(), &config.data_dir)?.to_string(),
            telemetry: config.telemetry.as_ref().map_or_else(|| "off".to_owned(), TelemetryConfig::describe),
        })
    }
}

async fn log_ready(running: &Running, sources: &Sources, listen: SocketAddr, base_url: &str) {
    let shown = if listen.port() == 0 { own_origin(running.address) } else { base_url.to_owned() };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %running.address,
        config.file = %sources.config_file,
        data.directory = %running.context.data_dir.root().display(),
        database = %sources.database,
        telemetry = %sources.telemetry,
        "agentd is ready: open {shown}/"
    );
    if !running.address.ip().is_loopback() && running.daemon.is_bootstrapping().await {
        tracing::warn!(
            address = %running.address,
                        "NO API KEY EXISTS and the daemon listens beyond loopback: the first client to connect can become its owner. \
                         Create a key with `agentd keys create --name NAME`; anonymous access closes 15 minutes after the start"
        );
    }
}
