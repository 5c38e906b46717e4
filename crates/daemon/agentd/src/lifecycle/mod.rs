//! From start to end: listen, open the store, compose, serve, drain, close.
//!
//! Invariants: the probes answer from the first moment, also while a migration runs; the first
//! signal drains within [`DRAIN_LIMIT`], a second one ends the process at once; the database is
//! closed only when nothing uses it any more.

mod allocator;
mod clock;
mod error;
mod front;
mod listen;
mod local_socket;
mod offline;
mod open_files;
mod peers;

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
use agentd_telemetry::{Meter, Tracer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::compose::{Daemon, compose};
use crate::config::{Config, own_origin};

pub use allocator::share_allocator_arenas;
pub use clock::{ClockAgreement, compare_clocks, require_clock_agreement};
pub use error::StartError;
use front::Front;
use local_socket::LocalSocket;
pub use offline::Offline;
use peers::PeerGate;

/// From the signal to the end of the process, at most. What follows are shares of it, each counted
/// from the signal, so that time which one stage did not need is the next one's.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// Running replies have until then to reach their end.
const REPLIES_END_BY: f64 = 0.45;
/// Those that did not are marked, and the model inside has ended.
const TURNS_STOP_BY: f64 = 0.75;
/// Connections and workers are cut off.
const CONNECTIONS_END_BY: f64 = 0.85;
/// The last spans and metrics are sent, or lost.
const TELEMETRY_SENT_BY: f64 = 0.9;
/// Maximum time to flush spans and metrics to the collector at shutdown.
const MAX_FLUSH: Duration = Duration::from_secs(2);
/// Maximum time to flush log records, which are sent last.
const MAX_LOG_FLUSH: Duration = Duration::from_secs(1);
/// The database is closed, or left as a killed daemon would leave it, which loses nothing.
const CLOSED_BY: f64 = 0.95;

/// Whether background workers run by themselves or are driven by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerMode {
    Spawned,
    ByHand,
}

/// Opens the data directory's store, migrating it, and what stands around it.
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

/// A daemon that serves.
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
    /// What kept it from starting, with the remedy.
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
        let front = Front::starting(readiness.clone());
        let open_files = open_files::raise_limit();
        let gate = Arc::new(PeerGate::new(open_files::connection_places(open_files), config.trusted_proxies.clone()));
        tracker.spawn(listen::serve_tcp(listener, gate, front.clone(), tracker.clone(), stop_listening.clone()));

        let context = open_context(&config, data_dir, clock, entropy).await?;
        let daemon = match compose(context.clone(), &config, address, readiness.clone(), WhileBusy::Wait).await {
            Ok(daemon) => daemon,
            Err(error) => {
                // The lock on the data directory goes with the database, and not some time later.
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
        front.open(daemon.router.clone());
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

    /// Drains and closes within [`DRAIN_LIMIT`]: no new connections, running replies get their end or
    /// are marked, workers stop, the database is closed.
    pub async fn shut_down(self) {
        self.shut_down_within(DRAIN_LIMIT).await;
    }

    /// [`Self::shut_down`] with another limit. What has not ended by then is left as it is: the next
    /// start finds it as after a kill.
    pub async fn shut_down_within(self, limit: Duration) {
        let begun = Instant::now();
        self.readiness.set_draining();
        self.context.draining.cancel();
        let replies = self.daemon.drain(limit.mul_f64(REPLIES_END_BY));
        if timeout_at(begun + limit.mul_f64(TURNS_STOP_BY), replies).await.is_err() {
            tracing::warn!("some replies did not end in time and are marked at the next start");
        }
        self.stop_listening.cancel();
        self.tracker.close();
        if timeout_at(begun + limit.mul_f64(CONNECTIONS_END_BY), self.tracker.wait()).await.is_err() {
            tracing::warn!("some connections or workers did not end in time and are cut off");
        }
        let left = (begun + limit.mul_f64(TELEMETRY_SENT_BY)).saturating_duration_since(Instant::now());
        let left = left.min(MAX_FLUSH);
        tokio::join!(self.context.tracer.shut_down(left), self.context.recorder.meter().shut_down(left));
        if timeout_at(begun + limit.mul_f64(CLOSED_BY), self.context.db.close()).await.is_err() {
            tracing::warn!("the database is still in use and is left without closing it; nothing is lost by that");
        }
    }
}

/// Runs until a signal ends it. `clock` is the machine's.
///
/// # Errors
/// What kept it from starting.
pub async fn run(config: Config, clock: Clock, entropy: Entropy) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|source| StartError::Signals { source })?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|source| StartError::Signals { source })?;
    let base_url = config.base_url.clone();
    let listen = config.listen;
    let (telemetry, records) = (config.telemetry.clone(), config.log_records.clone());
    let starting = async {
        require_clock_agreement(&config, &clock).await?;
        Running::start(config, clock.clone(), entropy, WorkerMode::Spawned).await
    };
    let running = tokio::select! {
        running = starting => running?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    if let Some(telemetry) = &telemetry {
        running.daemon.export_logs(running.context(), telemetry, &records);
    }
    announce(&running, listen, &base_url).await;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(
        "going down: no new work is taken, running replies are brought to their end; a second signal ends at once"
    );
    let ending = async {
        running.shut_down().await;
        records.shut_down(MAX_LOG_FLUSH).await;
    };
    tokio::select! {
        () = ending => {}
        _ = terminate.recv() => tracing::warn!("second signal: ending at once"),
        _ = interrupt.recv() => tracing::warn!("second signal: ending at once"),
    }
    Ok(())
}

async fn announce(running: &Running, listen: SocketAddr, base_url: &str) {
    let shown = if listen.port() == 0 { own_origin(running.address) } else { base_url.to_owned() };
    tracing::info!(address = %running.address, data = %running.context.data_dir.root().display(), "agentd is ready: open {shown}/");
    if !running.address.ip().is_loopback() && running.daemon.is_bootstrapping().await {
        tracing::warn!(
            "NO API KEY EXISTS YET AND THIS DAEMON LISTENS BEYOND THIS MACHINE: whoever reaches {} first can become its owner. \
             Make a key now with `agentd keys create --name NAME`; anonymous access closes 15 minutes after this start",
            running.address
        );
    }
}
