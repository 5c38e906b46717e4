//! Construction of all services and their bindings.

use std::net::SocketAddr;
use std::sync::Arc;

use agentd_automation::hooks::{HookDependencies, Hooks};
use agentd_automation::notify::{Notify, NotifyOptions};
use agentd_automation::proactive::Proactive;
use agentd_automation::scheduler::Scheduler;
use agentd_automation::webhooks::Webhooks;
use agentd_conversation::chat::Chat;
use agentd_conversation::evolution::Evolution;
use agentd_conversation::memory::Memory;
use agentd_core::auth::{Auth, AuthOptions};
use agentd_core::events::Events;
use agentd_core::parts::{DaemonParts, Domain, Domains, ShutdownPhase, ShutdownStep};
use agentd_core::rollups::Rollups;
use agentd_core::runtime::{AppContext, Base, Binding, EventBacklog, HealthCheck, Slots, Workers};
use agentd_core::settings::Settings;
use agentd_core::vault::Vault;
use agentd_engine::agents::Agents;
use agentd_engine::code_runner::CodeRunner;
use agentd_engine::engine::Engine;
use agentd_engine::files::Files;
use agentd_engine::projects::Projects;
use agentd_engine::providers::{PriceTable, Providers};
use agentd_engine::tool_servers::{ToolServerRoutes, ToolServers};
use agentd_engine::tools::{BuiltinTools, CustomTools, ToolRoutes, Tools};
use agentd_integrations::browser::{Browser, BrowserDependencies};
use agentd_integrations::channels::{ChannelDependencies, Channels};
use agentd_integrations::devices::Devices;
use agentd_operations::alerts::{AlertSources, Alerts};
use agentd_operations::backup::{Backup, Backups, WhileBusy};
use agentd_operations::monitoring::{Monitoring, Readiness, StatisticsSources, SystemProbe};
use agentd_operations::setup::Setup;
use agentd_operations::web_ui::{DescribeApi, Pages};
use agentd_process::Spawner;

use super::adapters::{Bootstrap, HookDeliveries, WrittenMessages};
use super::collector::{log_record_metrics, start_export};
use super::daemon::{DaemonServices, Services};
use super::document::describe;
use super::error::ComposeError;
use super::models::{BuiltInModels, built_in_models};
use super::quiesce::QuiesceDaemon;
use super::registry::{registry, validators};
use crate::config::Config;

/// Constructs all services over an open context. `while_busy` decides whether to wait while another daemon on the same
/// data directory restores a backup.
///
/// # Errors
/// `ComposeError` if a domain fails to start.
pub async fn wire(
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
    readiness: Readiness,
    while_busy: WhileBusy,
) -> Result<DaemonServices, ComposeError> {
    wire_domains(context, config, address, readiness, while_busy).await.map_err(|error| ComposeError::new(&*error))
}

async fn wire_domains(
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
    readiness: Readiness,
    while_busy: WhileBusy,
) -> Result<DaemonServices, Box<dyn std::error::Error + Send + Sync>> {
    let key_file = config.secret_key_file.clone().unwrap_or_else(|| context.data_dir.secret_key());
    let vault = Vault::open(&context.db, &context.entropy, &key_file).await?;
    let hashing_key = vault.hashing_key();
    let mut slots = Slots::default();
    let mut workers = Workers::new(context.panics.clone(), context.clock.clone());
    let quiesce = QuiesceDaemon::new(readiness.clone(), workers.pause(), &mut slots);
    let registry = registry();
    let backup = Backup::new(context, vault.clone(), Arc::new(quiesce), validators(&registry));
    // An interrupted restore is finished before any other service reads the data.
    backup.finish_interrupted(while_busy).await?;
    let backlog = EventBacklog::new(config.event_backlog_limit);
    let base = Base {
        db: context.db.clone(),
        data_dir: Arc::clone(&context.data_dir),
        backlog: backlog.clone(),
        panics: context.panics.clone(),
        records: workers.records(),
        tracer: context.tracer.clone(),
    };
    let program = config.program.clone().map_or_else(std::env::current_exe, Ok)?;
    let spawner = Spawner::start()?;
    let BuiltInModels { embedder: local_embedder, local } = built_in_models(context, config, &program, &spawner);
    let embedder = config.embedder.clone().unwrap_or_else(|| Arc::new(local_embedder.clone()));
    let prices = PriceTable::load(&context.data_dir.root().join("prices.toml"))?;
    let base_url = config.public_url(address);

    // All domains, each after the ones it depends on.
    let mut domains = Domains::default();
    domains.add_parts(base.parts());
    domains.add(Pages::new(&mut slots));
    domains.add(Events::new(context));
    let settings = domains.add(Settings::open(context, vault.clone(), registry, &mut slots).await?);
    if let Some(exchange) = &config.exchange {
        settings.policy().set_exchange(Arc::clone(exchange));
    }
    let rollups = domains.add(Rollups::new(context, settings.clone()));
    let options = AuthOptions {
        api_key_required: config.api_key_required,
        listens_beyond_loopback: !address.ip().is_loopback(),
        own_origins: config.setup_origins(address),
    };
    let auth = domains.add(Auth::new(context.clone(), settings.clone(), options));
    if let Some(path) = &config.bootstrap_api_key_file {
        auth.adopt_bootstrap_key_file(path).await?;
    }
    let runner = domains.add(CodeRunner::new(context, settings.clone(), spawner.clone(), program));
    let providers = domains.add(Providers::new(context, settings.clone(), local, prices));
    let agents = domains.add(Agents::new(context.clone(), settings.clone(), &mut slots));
    domains.add(Files::new(agents.clone(), runner.quota().clone()));
    domains.add(Setup::new(context.db.clone(), settings.clone(), auth.clone(), providers.clone(), agents.clone()));
    let tools = Tools::new(runner.quota(), &mut slots);
    let builtin = BuiltinTools::new(context, &settings, runner.clone(), &mut slots);
    let custom = CustomTools::new(context, &settings, runner.clone(), tools.clone());
    domains.add(ToolRoutes::new(builtin.clone(), custom.clone()));
    let engine = domains.add(Engine::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        providers.clone(),
        tools.clone(),
        &mut slots,
    ));
    let servers = ToolServers::new(context, &settings, runner.clone(), tools.clone());
    domains.add(ToolServerRoutes::new(servers, builtin, custom));
    let projects = domains.add(Projects::new(context.clone(), &mut slots));
    let chat = domains.add(Chat::new(context.clone(), agents.clone(), projects.clone(), engine.clone()));
    domains.add(Evolution::new(context.clone(), agents.clone(), engine.clone(), Arc::new(chat.clone())));
    let notify_options = NotifyOptions {
        extra_tls_roots: config.extra_tls_roots.clone(),
        email_time_limit: config.email_time_limit,
        base_url: base_url.clone(),
    };
    let notify = domains.add(Notify::new(context, settings.clone(), notify_options, &mut slots));
    // Before the scheduler: the order of the built-in tools is part of prompts.
    let memory = domains.add(Memory::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        engine.clone(),
        Arc::new(chat.clone()),
        embedder,
    ));
    let scheduler = domains.add(Scheduler::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        projects.clone(),
        engine.clone(),
        notify.clone(),
        Arc::new(WrittenMessages(chat.clone())),
    ));
    domains.add(Proactive::new(
        context.clone(),
        settings.clone(),
        agents.clone(),
        engine.clone(),
        notify.clone(),
        scheduler.clone(),
    ));
    domains.add(Webhooks::new(context, vault, agents.clone(), engine.clone(), base_url.clone()));
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
    domains.add(Channels::new(context, channel_dependencies));
    let devices = domains.add(Devices::new(context.clone(), chat.clone()));
    let hook_dependencies = HookDependencies {
        settings: settings.clone(),
        agents: agents.clone(),
        engine: engine.clone(),
        memory: memory.clone(),
        notify: notify.clone(),
        runner,
        waiting_limit: config.hook_waiting_limit,
    };
    let hooks = domains.add(Hooks::new(context, hook_dependencies));
    let statistics_sources = StatisticsSources {
        settings: settings.clone(),
        rollups: rollups.clone(),
        providers: providers.clone(),
        agents: agents.clone(),
        projects,
        auth: auth.clone(),
        records: workers.records(),
        queues: vec![Arc::new(HookDeliveries(hooks.clone()))],
    };
    let bootstrap = Arc::new(Bootstrap(auth.clone()));
    let checks = vec![Arc::new(memory.clone()) as Arc<dyn HealthCheck>];
    let monitoring = domains.add(Monitoring::new(context, readiness, bootstrap, checks, statistics_sources));
    let alert_sources = AlertSources {
        settings: settings.clone(),
        rollups,
        providers,
        hooks,
        scheduler: scheduler.clone(),
        notify: notify.clone(),
        system: SystemProbe::new(context.data_dir.root()),
    };
    domains.add(Alerts::new(context, alert_sources));
    let executable = config.browser_path.clone();
    let browser_dependencies =
        BrowserDependencies { settings: settings.clone(), agents, tools: tools.clone(), spawner, executable };
    domains.add(Browser::new(context, browser_dependencies));
    domains.add(Backups::new(context, backup.clone(), settings.clone()));
    for add_domain in &config.additions.0 {
        add_domain(context, &mut domains);
    }

    domains.bind(Binding::new(Arc::new((engine.clone(), devices))));
    let describe: Arc<DescribeApi> = Arc::new(describe(domains.routes()));
    domains.bind(Binding::new(Arc::clone(&describe)));
    let DaemonParts { routes, workers: domain_workers, metrics: domain_metrics, mut shutdown } =
        domains.finish(slots)?;
    workers.add(domain_workers);
    let metrics = Arc::clone(monitoring.metrics());
    for list in domain_metrics.into_iter().chain([log_record_metrics(&config.log_records)]) {
        metrics.add(list);
    }
    shutdown.push(ShutdownStep::new(ShutdownPhase::Processes, &local_embedder, async |embedder, _| {
        embedder.shutdown().await
    }));
    start_export(context, &settings, config.telemetry.as_ref(), &metrics);
    // Last, so that interrupted turns appear in the metrics and reach the bound observers.
    engine.recover().await?;
    let services = Services { metrics, backup, settings, auth, tools, engine, chat, memory, notify, scheduler };
    Ok(DaemonServices { workers, services, routes, describe, shutdown, backlog, hashing_key })
}
