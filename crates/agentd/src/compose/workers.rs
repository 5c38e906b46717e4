//! What works in the background.

use super::Services;
use crate::agents::PurgeAgents;
use crate::auth::{KeyUseWriter, LoginPurge};
use crate::chat::PurgeConversations;
use crate::devices::PurgePairing;
use crate::engine::SessionMaintenance;
use crate::evolution::{CountTurns, ProposeChanges};
use crate::hooks::{DeliverHooks, ExecuteHooks, PurgeHooks, ReadEvents};
use crate::memory::{
    ConsolidateConversations, EmbedEpisodes, ExtractEntities, FlushIndex, ForgetEpisodes, PruneChanges,
    RememberConversations, WarmIndex, WriteRecalls,
};
use crate::notify::{DeliverNotifications, PurgeNotifications};
use crate::proactive::StartProactive;
use crate::projects::PurgeProjects;
use crate::runtime::{AppContext, CountEvents, EventBacklog, PruneEvents, PurgeAnswers, Workers};
use crate::scheduler::{RunMaintenance, StartRuns, Tick};
use crate::skills::{CheckSandbox, CodeRunner, ToolServerMaintenance};
use crate::webhooks::{PurgeDeliveries, StartTurns};

/// Every domain's workers.
pub(super) fn add_all(
    workers: &mut Workers,
    services: &Services,
    context: &AppContext,
    backlog: EventBacklog,
    runner: CodeRunner,
) {
    workers.add(PurgeAnswers(context.db.clone()));
    workers.add(PruneEvents(context.db.clone()));
    workers.add(CountEvents::new(context.db.clone(), backlog));
    workers.add(KeyUseWriter(services.auth.clone()));
    workers.add(LoginPurge(services.auth.clone()));
    workers.add(PurgeAgents(services.agents.clone()));
    workers.add(PurgeConversations(services.chat.clone()));
    workers.add(PurgeProjects(services.projects.clone()));
    workers.add(PurgePairing(services.devices.clone()));
    workers.add(SessionMaintenance(services.engine.clone()));
    workers.add(CheckSandbox(runner));
    workers.add(CountTurns(services.evolution.clone()));
    workers.add(ProposeChanges(services.evolution.clone()));
    workers.add(ToolServerMaintenance(services.tools.servers.clone()));
    workers.add(DeliverNotifications(services.notify.clone()));
    workers.add(PurgeNotifications(services.notify.clone()));
    workers.add(Tick(services.scheduler.clone()));
    workers.add(StartRuns::new(services.scheduler.clone()));
    workers.add(RunMaintenance::new(services.scheduler.clone()));
    workers.add(StartProactive(services.proactive.clone()));
    workers.add(WarmIndex(services.memory.clone()));
    workers.add(FlushIndex(services.memory.clone()));
    workers.add(EmbedEpisodes(services.memory.clone()));
    workers.add(PruneChanges(services.memory.clone()));
    workers.add(WriteRecalls(services.memory.clone()));
    workers.add(RememberConversations(services.memory.clone()));
    workers.add(ConsolidateConversations(services.memory.clone()));
    workers.add(ForgetEpisodes(services.memory.clone()));
    workers.add(ExtractEntities(services.memory.clone()));
    workers.add(StartTurns(services.webhooks.clone()));
    workers.add(PurgeDeliveries(services.webhooks.clone()));
    workers.add(ReadEvents::new(services.hooks.clone()));
    workers.add(DeliverHooks::new(services.hooks.clone()));
    workers.add(ExecuteHooks(services.hooks.clone()));
    workers.add(PurgeHooks::new(services.hooks.clone()));
}
