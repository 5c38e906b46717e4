//! What the metrics read of the domains.

use std::sync::Arc;

use crate::auth::Auth;
use crate::devices::Devices;
use crate::engine::{Engine, Session, SessionStatus, TurnObserver};
use crate::hooks::Hooks;
use crate::monitoring::{CountBy, Family, FamilyKind, Metrics, Sample, source};
use crate::providers::Providers;
use crate::runtime::{EventBacklog, TaskPanics, WorkerRecord, WorkerRecords};
use crate::scheduler::{RunStatus, Scheduler};
use crate::skills::ToolServers;
use crate::webhooks::Webhooks;

const ENDS: &[&str] = &["completed", "failed", "timeout", "cancelled", "interrupted"];

/// Counts the turns of this process, and those that it found cut off, by how they ended.
struct CountTurns(Arc<CountBy>);

impl TurnObserver for CountTurns {
    fn turn_ended(&self, _session: &Session, status: SessionStatus, reason: Option<&str>) {
        self.0.count(match status {
            // A run whose time is up is stopped as if somebody had cancelled it.
            SessionStatus::Cancelled if reason == Some("timeout") => "timeout",
            SessionStatus::Done => "completed",
            SessionStatus::Failed => "failed",
            SessionStatus::Cancelled => "cancelled",
            SessionStatus::Interrupted => "interrupted",
            SessionStatus::Running => return,
        });
    }
}

/// Registers the contract's figures.
pub(super) fn register(metrics: &Metrics, auth: &Auth, providers: &Providers, engine: &Engine) {
    engine.observe(Arc::new(CountTurns(metrics.add_counter(
        Family {
            name: "svc_tasks_total",
            help: "Turns of agents by how they ended, since the daemon started.",
            kind: FamilyKind::Counter,
            labels: &["status"],
        },
        ENDS,
    ))));
    let auth = auth.clone();
    metrics.add_source(source(
        Family {
            name: "svc_active_sessions",
            help: "Sessions of people that are logged in.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let auth = auth.clone();
            async move { Ok(Sample::plain(float(u64::try_from(auth.active_sessions().await?)?))) }
        },
    ));
    let providers = providers.clone();
    metrics.add_source(source(
        Family {
            name: "svc_token_usage_total",
            help: "Tokens by model and type (input, output), from the usage of every model call.",
            kind: FamilyKind::Counter,
            labels: &["model", "type"],
        },
        move || {
            let providers = providers.clone();
            async move {
                let totals = providers.token_totals().await?;
                // The other types are parts of these two and would be counted twice in a sum.
                let totals = totals.into_iter().filter(|total| matches!(total.kind, "input" | "output"));
                let samples = totals.map(|total| Sample {
                    labels: vec![total.model, total.kind.to_owned()],
                    value: float(total.tokens),
                });
                Ok(samples.collect())
            }
        },
    ));
}

/// Registers what the scheduler does.
pub(super) fn register_scheduler(metrics: &Metrics, scheduler: &Scheduler) {
    let active = scheduler.clone();
    metrics.add_source(source(
        Family {
            name: "svc_scheduler_jobs_active",
            help: "Jobs of the scheduler that wait for their next run.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let scheduler = active.clone();
            async move { Ok(Sample::plain(float(scheduler.count_active().await?))) }
        },
    ));
    let ended = scheduler.clone();
    metrics.add_source(source(
        Family {
            name: "svc_scheduler_runs_total",
            help: "Runs of jobs by how they ended here, since the daemon started.",
            kind: FamilyKind::Counter,
            labels: &["status"],
        },
        move || {
            let counts = ended.counts().ended();
            async move {
                let sample = |(status, runs): (RunStatus, u64)| Sample {
                    labels: vec![status.as_str().to_owned()],
                    value: float(runs),
                };
                Ok(counts.into_iter().map(sample).collect())
            }
        },
    ));
    let late = scheduler.clone();
    metrics.add_source(source(
        Family {
            name: "svc_scheduler_lateness_seconds",
            help: "How long after its slot the newest run was taken up here.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let lateness = late.counts().lateness().as_secs_f64();
            async move { Ok(Sample::plain(lateness)) }
        },
    ));
}

/// Registers what tool servers are asked.
pub(super) fn register_tool_servers(metrics: &Metrics, servers: &ToolServers) {
    let connected = servers.clone();
    metrics.add_source(source(
        Family {
            name: "svc_tool_servers_connected",
            help: "Tool servers that this daemon has a session with.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let count = u64::try_from(connected.connected());
            async move { Ok(Sample::plain(float(count?))) }
        },
    ));
    let servers = servers.clone();
    metrics.add_source(source(
        Family {
            name: "svc_tool_server_calls_total",
            help: "Calls of tools of tool servers by how they ended, since the daemon started.",
            kind: FamilyKind::Counter,
            labels: &["status"],
        },
        move || {
            let counts = servers.call_counts();
            let sample = |status: &str, count| Sample { labels: vec![status.to_owned()], value: float(count) };
            let samples = vec![
                sample("ok", counts.ok),
                sample("failed", counts.failed),
                sample("timed_out", counts.timed_out),
                sample("cancelled", counts.cancelled),
            ];
            async move { Ok(samples) }
        },
    ));
}

/// Registers what devices do at this daemon.
pub(super) fn register_devices(metrics: &Metrics, devices: &Devices) {
    let connected = devices.clone();
    metrics.add_source(source(
        Family {
            name: "svc_devices_connected",
            help: "Devices whose socket is open at this daemon.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let connected = connected.connected();
            async move { Ok(Sample::plain(float(u64::try_from(connected)?))) }
        },
    ));
    let devices = devices.clone();
    metrics.add_source(source(
        Family {
            name: "svc_device_calls_total",
            help: "Calls of devices' tools by how they ended (done, failed, abandoned), since the daemon started.",
            kind: FamilyKind::Counter,
            labels: &["status"],
        },
        move || {
            let counts = devices.call_counts().read();
            let sample = |(status, count): (&str, u64)| Sample { labels: vec![status.to_owned()], value: float(count) };
            async move { Ok(counts.into_iter().map(sample).collect()) }
        },
    ));
}

/// Registers what comes through webhooks.
pub(super) fn register_webhooks(metrics: &Metrics, webhooks: &Webhooks) {
    let counted = webhooks.clone();
    metrics.add_source(source(
        Family {
            name: "svc_webhook_requests_total",
            help: "Requests to inbound webhooks by what became of them (accepted, repeated, unsigned, disabled, \
                   rate_limited, overloaded, invalid, failed), since the daemon started.",
            kind: FamilyKind::Counter,
            labels: &["outcome"],
        },
        move || {
            let counts = counted.request_counts();
            let sample =
                |(outcome, count): (&str, u64)| Sample { labels: vec![outcome.to_owned()], value: float(count) };
            async move { Ok(counts.into_iter().map(sample).collect()) }
        },
    ));
    let waiting = webhooks.clone();
    metrics.add_source(source(
        Family {
            name: "svc_webhook_turns_waiting",
            help: "Deliveries of inbound webhooks whose agent has still to begin.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let waiting = waiting.clone();
            async move { Ok(Sample::plain(float(waiting.waiting_turns().await?))) }
        },
    ));
}

/// Registers how deliveries of hooks stand.
pub(super) fn register_hooks(metrics: &Metrics, hooks: &Hooks) {
    let gauge = |name, help, labels| Family { name, help, kind: FamilyKind::Gauge, labels };
    let queue = hooks.clone();
    let family = gauge("svc_hook_queue", "Deliveries of hooks that are kept, by their status.", &["status"]);
    metrics.add_source(source(family, move || {
        let queue = queue.clone();
        async move {
            let counts = queue.queue_stats().await?;
            let sample = |status: &str, count| Sample { labels: vec![status.to_owned()], value: float(count) };
            Ok(vec![
                sample("pending", counts.pending),
                sample("processing", counts.processing),
                sample("success", counts.success),
                sample("failed", counts.failed),
                sample("dead_letter", counts.dead_letter),
            ])
        }
    }));
    let ends = hooks.clone();
    let family = Family {
        name: "svc_hook_deliveries_total",
        help: "Attempts of deliveries of hooks by what came of them, since the daemon started.",
        kind: FamilyKind::Counter,
        labels: &["status"],
    };
    metrics.add_source(source(family, move || {
        let ends = ends.delivery_ends();
        let sample = |status: &str, count| Sample { labels: vec![status.to_owned()], value: float(count) };
        let samples = vec![
            sample("success", ends.success),
            sample("failed", ends.failed),
            sample("dead_letter", ends.dead_letter),
        ];
        async move { Ok(samples) }
    }));
    let reader = hooks.clone();
    let family = gauge("svc_hook_reader_lag_seconds", "The age of the oldest event that no hook has looked at.", &[]);
    metrics.add_source(source(family, move || {
        let reader = reader.clone();
        async move { Ok(Sample::plain(reader.reader_lag().await?.as_secs_f64())) }
    }));
    let paused = hooks.clone();
    let help = "1 while so much waits to be delivered that events are left where they are.";
    metrics.add_source(source(gauge("svc_hook_reader_paused", help, &[]), move || {
        let paused = f64::from(u8::from(paused.is_reader_paused()));
        async move { Ok(Sample::plain(paused)) }
    }));
    let behind = hooks.clone();
    let help = "Hooks for which so much waits without getting on that what further comes for them is given up.";
    metrics.add_source(source(gauge("svc_hooks_behind", help, &[]), move || {
        let behind = float(behind.hooks_behind());
        async move { Ok(Sample::plain(behind)) }
    }));
    let circuits = hooks.clone();
    let help = "Receivers that nothing is sent to for a while because they failed.";
    metrics.add_source(source(gauge("svc_hook_open_circuits", help, &[]), move || {
        let circuits = circuits.clone();
        async move { Ok(Sample::plain(float(circuits.open_circuits().await?))) }
    }));
}

/// Registers how many events wait to be read.
pub(super) fn register_backlog(metrics: &Metrics, backlog: &EventBacklog) {
    let backlog = backlog.clone();
    metrics.add_source(source(
        Family {
            name: "svc_events_unread",
            help: "Events that wait for the hooks that hear them, counted up to what makes requests be refused.",
            kind: FamilyKind::Gauge,
            labels: &[],
        },
        move || {
            let unread = float(backlog.unread());
            async move { Ok(Sample::plain(unread)) }
        },
    ));
}

/// Registers how often background tasks panicked.
pub(super) fn register_panics(metrics: &Metrics, panics: &TaskPanics) {
    let panics = panics.clone();
    metrics.add_source(source(
        Family {
            name: "svc_worker_panics_total",
            help: "Panics of background workers, each of which began anew; more than none is a mistake in the program.",
            kind: FamilyKind::Counter,
            labels: &["worker"],
        },
        move || {
            let counts = panics.counts();
            let sample = |(task, count): (&str, u64)| Sample { labels: vec![task.to_owned()], value: float(count) };
            async move { Ok(counts.into_iter().map(sample).collect()) }
        },
    ));
}

/// Registers what background workers did.
pub(super) fn register_workers(metrics: &Metrics, records: &WorkerRecords) {
    let family = |name, help, kind| Family { name, help, kind, labels: &["worker"] };
    type Read = fn(&WorkerRecord) -> Option<f64>;
    let families: [(Family, Read); 3] = [
        (
            family(
                "svc_worker_items_total",
                "What background workers handled: items claimed, written or purged, since the daemon started.",
                FamilyKind::Counter,
            ),
            |record| Some(float(record.items)),
        ),
        (
            family(
                "svc_worker_failures_total",
                "Passes of background workers that failed and were begun again, since the daemon started.",
                FamilyKind::Counter,
            ),
            |record| Some(float(record.failures)),
        ),
        (
            family(
                "svc_worker_last_success_timestamp_seconds",
                "When a background worker last ended a pass without a failure.",
                FamilyKind::Gauge,
            ),
            |record| record.last_success.map(|at| at.as_micros() as f64 / 1e6),
        ),
    ];
    for (family, read) in families {
        let records = records.clone();
        metrics.add_source(source(family, move || {
            let sample = |(worker, record): (&str, WorkerRecord)| {
                read(&record).map(|value| Sample { labels: vec![worker.to_owned()], value })
            };
            let samples: Vec<Sample> = records.all().into_iter().filter_map(sample).collect();
            async move { Ok(samples) }
        }));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people and graphs")]
fn float(number: u64) -> f64 {
    number as f64
}
