//! Which service gets what, and which trait is implemented by whom: everything of a daemon but its doors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_automation::hooks::{HookDependencies, HookError, Hooks};
use agentd_automation::notify::{Notify, NotifyOptions};
use agentd_automation::proactive::Proactive;
use agentd_automation::scheduler::{ACTIVITY_QUARTER_MICROS, Activity, ActivitySource, Scheduler};
use agentd_automation::webhooks::Webhooks;
use agentd_base::Timestamp;
use agentd_conversation::chat::Chat;
use agentd_conversation::evolution::Evolution;
use agentd_conversation::memory::Memory;
use agentd_core::auth::{Auth, AuthOptions};
use agentd_core::events::Events;
use agentd_core::parts::{ShutdownPhase, ShutdownStep};
use agentd_core::rollups::Rollups;
use agentd_core::runtime::{AppContext, Base, EventBacklog, HealthCheck, Workers};
use agentd_core::settings::{Settings, SettingsRoutes};
use agentd_core::vault::Vault;
use agentd_engine::agents::Agents;
use agentd_engine::code_runner::{CodeRunner, CodeRunnerRoutes};
use agentd_engine::engine::Engine;
use agentd_engine::files::Files;
use agentd_engine::projects::Projects;
use agentd_engine::providers::{LocalOptions, PriceTable, Providers};
use agentd_engine::tool_servers::{ToolServerRoutes, ToolServers};
use agentd_engine::tools::{BuiltinTools, CustomTools, ToolRoutes, Tools};
use agentd_inference::embedder::{EmbedderOptions, LocalEmbedder};
use agentd_inference::{LocalModel, LocalModelOptions};
use agentd_integrations::browser::{Browser, BrowserDependencies};
use agentd_integrations::channels::{ChannelDependencies, Channels, transports};
use agentd_integrations::devices::Devices;
use agentd_operations::alerts::{AlertSources, Alerts};
use agentd_operations::backup::{Backup, Backups, WhileBusy};
use agentd_operations::monitoring::{FigureSources, Monitoring, QueueDepth, Readiness, ReportsQueue, SystemProbe};
use agentd_operations::setup::Setup;
use agentd_process::Spawner;
use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::access::Bootstrap;
use super::collector::log_record_metrics;
use super::registry::{registry, validators};
use super::slots::{AllParts, Background};
use super::{collector, rest, slots};
use crate::config::{Additions, Config};
use crate::lifecycle::StartError;

/// Services and workers of a daemon, without its HTTP routers.
pub struct Inside {
    pub workers: Workers,
    pub(super) services: Services,
    pub(super) shutdown: Vec<ShutdownStep>,
    pub(super) backlog: EventBacklog,
    pub(super) hashing_key: [u8; 32],
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Every service, cheap to clone.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) monitoring: Monitoring,
    pub(super) rollups: Rollups,
    pub(super) backup: Backup,
    pub(super) backups: Backups,
    pub(super) settings: SettingsRoutes,
    pub(super) auth: Auth,
    pub(super) providers: Providers,
    pub(super) agents: Agents,
    pub(super) files: Files,
    pub(super) projects: Projects,
    pub(super) tools: Tools,
    pub(super) tool_routes: ToolRoutes,
    pub(super) tool_servers: ToolServerRoutes,
    pub(super) code_runner: CodeRunnerRoutes,
    pub(super) engine: Engine,
    pub(super) chat: Chat,
    pub(super) evolution: Evolution,
    pub(super) events: Events,
    pub(super) devices: Devices,
    pub(super) setup: Setup,
    pub(super) notify: Notify,
    pub(super) scheduler: Scheduler,
    pub(super) proactive: Proactive,
    pub(super) memory: Memory,
    pub(super) webhooks: Webhooks,
    pub(super) channels: Channels,
    pub(super) hooks: Hooks,
    pub(super) alerts: Alerts,
    pub(super) browser: Browser,
    pub(super) embedder: LocalEmbedder,
}

impl Services {
    /// The parts of every domain. Their order is the order in which data of a deleted agent is purged:
    /// conversations before sessions, because purging a conversation deletes the logs of its sessions.
    fn parts(&self, additions: &Additions) -> AllParts {
        let Self {
            monitoring: _,
            rollups,
            backup: _,
            backups,
            settings: _,
            auth,
            providers,
            agents,
            files: _,
            projects,
            tools: _,
            tool_routes,
            tool_servers,
            code_runner,
            engine,
            chat,
            evolution,
            events: _,
            devices,
            setup: _,
            notify,
            scheduler,
            proactive,
            memory,
            webhooks,
            channels,
            hooks,
            alerts,
            browser,
            embedder,
        } = self;
        let mut parts = AllParts::default();
        parts.tools.push(Arc::new(tool_routes.builtin.clone()));
        parts.tools.push(Arc::new(tool_routes.custom.clone()));
        parts.tools.push(Arc::new(tool_servers.servers.clone()));
        parts.add(rollups.parts());
        parts.add(auth.parts());
        parts.add(providers.parts());
        parts.add(agents.parts());
        parts.add_with_turns(chat.parts());
        parts.add(projects.parts());
        parts.add_with_turns(engine.parts());
        parts.add(code_runner.runner.parts());
        parts.add(tool_servers.parts());
        parts.add_with_turns(evolution.parts());
        parts.add(notify.parts());
        // Before the scheduler: the order of the built-in tools is part of prompts.
        parts.add_with_turns(memory.parts());
        parts.add_with_turns(scheduler.parts());
        parts.add_with_turns(proactive.parts());
        parts.add_with_turns(webhooks.parts());
        parts.add_with_turns(channels.parts());
        parts.add_with_turns(devices.parts());
        parts.add_with_turns(hooks.parts());
        parts.add(alerts.parts());
        parts.add_with_turns(browser.parts());
        parts.add(backups.parts());
        parts
            .shutdown
            .push(ShutdownStep::new(ShutdownPhase::Processes, embedder, async |embedder, _| embedder.shutdown().await));
        parts.transports.extend(transports(channels));
        parts.tools.extend(additions.tool_sources.iter().cloned());
        parts.transports.extend(additions.transports.iter().cloned());
        parts
    }
}

/// The model inside is unloaded after this long without work.
const IDLE_UNLOAD: Duration = Duration::from_secs(300);

/// Wires everything over an open context. `while_busy` is what to do while another daemon on the
/// same data directory restores.
///
/// # Errors
/// What a domain cannot start without is missing.
pub async fn wire(
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
    readiness: Readiness,
    while_busy: WhileBusy,
) -> Result<Inside, StartError> {
    let key_file = config.secret_key_file.clone().unwrap_or_else(|| context.data_dir.secret_key());
    let vault = Vault::open(&context.db, &context.entropy, &key_file).await.map_err(|e| StartError::domain(&e))?;
    let hashing_key = vault.hashing_key();
    let (slots, fillers) = slots::create();
    let mut workers = Workers::new(context.panics.clone(), context.clock.clone());
    let rest = rest::Rest::new(readiness.clone(), workers.pause(), slots.turns);
    let registry = registry();
    let backup = Backup::new(context, vault.clone(), Arc::new(rest.clone()), validators(&registry));
    // Before anybody reads what it may still have to put in place.
    backup.finish_interrupted(while_busy).await.map_err(|e| StartError::domain(&e))?;
    let settings =
        Settings::open(context, vault, registry, slots.settings).await.map_err(|e| StartError::domain(&e))?;
    if let Some(exchange) = &config.exchange {
        settings.policy().set_exchange(Arc::clone(exchange));
    }
    let options = AuthOptions {
        api_key_required: config.api_key_required,
        listens_beyond_loopback: !address.ip().is_loopback(),
        own_origins: config.setup_origins(address),
    };
    let rollups = Rollups::new(context, settings.clone());
    let auth = Auth::new(context.clone(), settings.clone(), options);
    if let Some(path) = &config.bootstrap_api_key_file {
        auth.adopt_bootstrap_key_file(path).await.map_err(|e| StartError::domain(&e))?;
    }
    let program = match &config.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|e| StartError::domain(&e))?,
    };
    let spawner = Spawner::start().map_err(|e| StartError::domain(&e))?;
    let browser_spawner = spawner.clone();
    let runner = CodeRunner::new(context, settings.clone(), spawner.clone(), program.clone());
    let inference_worker = || vec!["inference-worker".into()];
    let local_embedder = LocalEmbedder::new(EmbedderOptions::new(
        config.embedding_model_paths(),
        program.clone(),
        inference_worker(),
        spawner.clone(),
        context.entropy.clone(),
    ));
    let mut local = LocalModelOptions::new(program, inference_worker(), spawner, context.entropy.clone());
    local.idle_unload = IDLE_UNLOAD;
    let local = LocalOptions { model: LocalModel::new(local), folders: config.model_dirs() };
    let prices = PriceTable::load(&context.data_dir.root().join("prices.toml")).map_err(|e| StartError::domain(&e))?;
    let providers = Providers::new(context, settings.clone(), local, prices);
    let agents = Agents::new(context.clone(), settings.clone(), slots.agent_data);
    let files = Files::new(agents.clone(), runner.room().clone());
    let tools = Tools::new(runner.room(), slots.tools);
    let builtin = BuiltinTools::new(context, &settings, runner.clone(), slots.builtin_tools);
    let custom = CustomTools::new(context, &settings, runner.clone(), tools.clone());
    let servers = ToolServers::new(context, &settings, runner.clone(), tools.clone());
    let tool_routes = ToolRoutes { builtin: builtin.clone(), custom: custom.clone() };
    let tool_servers = ToolServerRoutes { servers, builtin, custom };
    let browser_dependencies = BrowserDependencies {
        settings: settings.clone(),
        agents: agents.clone(),
        tools: tools.clone(),
        spawner: browser_spawner,
        executable: config.browser_path.clone(),
    };
    let browser = Browser::new(context, browser_dependencies);
    let engine =
        Engine::new(context.clone(), settings.clone(), agents.clone(), providers.clone(), tools.clone(), slots.engine);
    let projects = Projects::new(context.clone(), slots.project_names);
    let chat = Chat::new(context.clone(), agents.clone(), projects.clone(), engine.clone());
    let evolution = Evolution::new(context.clone(), agents.clone(), engine.clone(), Arc::new(chat.clone()));
    let base_url = config.reached_at(address);
    let notify_options = NotifyOptions {
        extra_tls_roots: config.extra_tls_roots.clone(),
        email_time_limit: config.email_time_limit,
        base_url: base_url.clone(),
    };
    let notify = Notify::new(context, settings.clone(), notify_options, slots.transports);
    let scheduler = Scheduler::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        projects.clone(),
        engine.clone(),
        notify.clone(),
        Arc::new(WrittenMessages(chat.clone())),
    );
    let proactive = Proactive::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        engine.clone(),
        notify.clone(),
        scheduler.clone(),
    );
    let webhooks = Webhooks::new(context, settings.vault().clone(), agents.clone(), engine.clone(), base_url.clone());
    let channel_dependencies = ChannelDependencies {
        settings: settings.clone(),
        agents: agents.clone(),
        engine: engine.clone(),
        chat: chat.clone(),
        tools: tools.clone(),
        notify: notify.clone(),
        base_url,
        public_url: config.configured_base_url(),
    };
    let channels = Channels::new(context, channel_dependencies);
    let devices = Devices::new(context.clone(), chat.clone());
    let embedder = config.embedder.clone().unwrap_or_else(|| Arc::new(local_embedder.clone()));
    let source = Arc::new(chat.clone());
    let memory = Memory::new(context.clone(), settings.clone(), agents.clone(), engine.clone(), source, embedder);
    let setup = Setup::new(context.db.clone(), settings.clone(), auth.clone(), providers.clone(), agents.clone());
    let dependencies = HookDependencies {
        settings: settings.clone(),
        agents: agents.clone(),
        engine: engine.clone(),
        memory: memory.clone(),
        notify: notify.clone(),
        runner: runner.clone(),
        waiting_limit: config.hook_waiting_limit,
    };
    let hooks = Hooks::new(context, dependencies);
    let sources = FigureSources {
        settings: settings.clone(),
        rollups: rollups.clone(),
        providers: providers.clone(),
        agents: agents.clone(),
        projects: projects.clone(),
        auth: auth.clone(),
        records: workers.records(),
        queues: vec![Arc::new(HookDeliveries(hooks.clone()))],
    };
    let bootstrap = Arc::new(Bootstrap(auth.clone()));
    let checks: Vec<Arc<dyn HealthCheck>> = vec![Arc::new(memory.clone())];
    let monitoring = Monitoring::new(context, readiness.clone(), bootstrap, checks, sources);
    collector::start_export(context, &settings, config.telemetry.as_ref(), monitoring.metrics());
    let alert_sources = AlertSources {
        settings: settings.clone(),
        rollups: rollups.clone(),
        providers: providers.clone(),
        hooks: hooks.clone(),
        scheduler: scheduler.clone(),
        notify: notify.clone(),
        system: SystemProbe::new(context.data_dir.root()),
    };
    let alerts = Alerts::new(context, alert_sources);
    let backlog = EventBacklog::new(config.event_backlog_limit);
    let backups = Backups::new(context, backup.clone(), settings.clone());
    let code_runner = CodeRunnerRoutes { runner, settings: settings.clone() };
    let settings = SettingsRoutes { settings, clock: context.clock.clone() };
    let services = Services {
        monitoring,
        rollups,
        backup,
        backups,
        settings,
        auth,
        providers,
        agents,
        files,
        projects,
        tools,
        tool_routes,
        tool_servers,
        code_runner,
        engine,
        chat,
        evolution,
        events: Events::new(context),
        devices,
        setup,
        notify,
        scheduler,
        proactive,
        memory,
        webhooks,
        channels,
        hooks,
        alerts,
        browser,
        embedder: local_embedder,
    };
    let base = Base {
        db: context.db.clone(),
        data_dir: Arc::clone(&context.data_dir),
        backlog: backlog.clone(),
        panics: context.panics.clone(),
        records: workers.records(),
        tracer: context.tracer.clone(),
    };
    let parts = services.parts(&config.additions);
    let recall = Arc::new(services.memory.clone());
    let Background { workers: of_domains, metrics, shutdown } = parts
        .fill(fillers, recall, (services.engine.clone(), services.devices.clone()))
        .map_err(|e| StartError::domain(&e))?;
    workers.add(base.workers());
    workers.add(of_domains);
    let shown = services.monitoring.metrics();
    for metrics in [base.metrics(), log_record_metrics(&config.log_records)].into_iter().chain(metrics) {
        shown.add(metrics);
    }
    // Turns that were cut off are counted, too, and heard of by whoever observes.
    services.engine.recover().await.map_err(|e| StartError::domain(&e))?;
    Ok(Inside { workers, services, shutdown, backlog, hashing_key })
}

/// Reports the owner's activity to the scheduler from the messages that the owner wrote.
struct WrittenMessages(Chat);

impl ActivitySource for WrittenMessages {
    fn activity_since(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Activity>, StoreError>> {
        Box::pin(async move {
            let written = self.0.count_written(since, ACTIVITY_QUARTER_MICROS).await?;
            Ok(written.into_iter().map(|(at, count)| Activity { at, count }).collect())
        })
    }
}

/// Reports the depth of the hook delivery queue, which has a table of its own.
struct HookDeliveries(Hooks);

impl ReportsQueue for HookDeliveries {
    fn depth(&self) -> BoxFuture<'_, Result<QueueDepth, StoreError>> {
        async {
            let counts = self.0.queue_stats().await.map_err(|error| match error {
                HookError::Store(error) => error,
                _ => StoreError::Aborted,
            })?;
            Ok(QueueDepth {
                queue: "hook_deliveries".to_owned(),
                pending: counts.pending + counts.failed,
                leased: counts.processing,
                dead_letter: counts.dead_letter,
            })
        }
        .boxed()
    }
}
