//! Slots for upward calls: created before the services, filled once all services exist.

use std::sync::Arc;

use agentd_automation::notify::Transport;
use agentd_core::parts::{DomainParts, ShutdownStep};
use agentd_core::runtime::{EmptySlots, Filler, MetricList, Slot, Slots, Worker};
use agentd_core::settings::{FindsNamed, PortableSection, SettingsSlots};
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::{DecidesApproval, Engine, EngineSlots, Recall, TurnObserver, TurnParts, TurnSink};
use agentd_engine::projects::NamesProjects;
use agentd_engine::tools::{JoinsBuiltin, ToolSource};
use agentd_integrations::devices::Devices;

type List<T> = Vec<Arc<T>>;

/// Slots that the constructors of services take.
pub(super) struct ServiceSlots {
    pub(super) settings: SettingsSlots,
    pub(super) agent_data: Slot<List<dyn OwnsAgentData>>,
    pub(super) project_names: Slot<List<dyn NamesProjects>>,
    pub(super) tools: Slot<List<dyn ToolSource>>,
    pub(super) builtin_tools: Slot<List<dyn JoinsBuiltin>>,
    pub(super) engine: EngineSlots,
    pub(super) transports: Slot<List<dyn Transport>>,
    /// Services that start turns; a restore pauses them.
    pub(super) turns: Slot<(Engine, Devices)>,
}

/// The fillers of [`ServiceSlots`].
pub(super) struct Fillers {
    slots: Slots,
    portable: Filler<List<dyn PortableSection>>,
    finders: Filler<List<dyn FindsNamed>>,
    agent_data: Filler<List<dyn OwnsAgentData>>,
    project_names: Filler<List<dyn NamesProjects>>,
    tools: Filler<List<dyn ToolSource>>,
    builtin_tools: Filler<List<dyn JoinsBuiltin>>,
    sinks: Filler<List<dyn TurnSink>>,
    observers: Filler<List<dyn TurnObserver>>,
    deciders: Filler<List<dyn DecidesApproval>>,
    recall: Filler<Arc<dyn Recall>>,
    transports: Filler<List<dyn Transport>>,
    turns: Filler<(Engine, Devices)>,
}

/// Creates all slots, empty.
pub(super) fn create() -> (ServiceSlots, Fillers) {
    let mut slots = Slots::default();
    let (portable_slot, portable) = slots.create("settings.portable");
    let (finders_slot, finders) = slots.create("settings.finders");
    let (agent_data_slot, agent_data) = slots.create("agents.owners");
    let (project_names_slot, project_names) = slots.create("projects.namers");
    let (tools_slot, tools) = slots.create("tools.sources");
    let (builtin_tools_slot, builtin_tools) = slots.create("tools.builtin");
    let (sinks_slot, sinks) = slots.create("engine.sinks");
    let (observers_slot, observers) = slots.create("engine.observers");
    let (deciders_slot, deciders) = slots.create("engine.deciders");
    let (recall_slot, recall) = slots.create("engine.recall");
    let (transports_slot, transports) = slots.create("notify.transports");
    let (turns_slot, turns) = slots.create("rest.turns");
    let services = ServiceSlots {
        settings: SettingsSlots { portable: portable_slot, finders: finders_slot },
        agent_data: agent_data_slot,
        project_names: project_names_slot,
        tools: tools_slot,
        builtin_tools: builtin_tools_slot,
        engine: EngineSlots {
            sinks: sinks_slot,
            observers: observers_slot,
            deciders: deciders_slot,
            recall: recall_slot,
        },
        transports: transports_slot,
        turns: turns_slot,
    };
    let fillers = Fillers {
        slots,
        portable,
        finders,
        agent_data,
        project_names,
        tools,
        builtin_tools,
        sinks,
        observers,
        deciders,
        recall,
        transports,
        turns,
    };
    (services, fillers)
}

/// The parts of all domains, in the order in which they were added.
#[derive(Default)]
pub(super) struct AllParts {
    pub(super) workers: Vec<Box<dyn Worker>>,
    pub(super) metrics: Vec<MetricList>,
    pub(super) shutdown: Vec<ShutdownStep>,
    pub(super) portable: List<dyn PortableSection>,
    pub(super) finders: List<dyn FindsNamed>,
    pub(super) agent_data: List<dyn OwnsAgentData>,
    pub(super) project_names: List<dyn NamesProjects>,
    pub(super) tools: List<dyn ToolSource>,
    pub(super) builtin_tools: List<dyn JoinsBuiltin>,
    pub(super) sinks: List<dyn TurnSink>,
    pub(super) observers: List<dyn TurnObserver>,
    pub(super) deciders: List<dyn DecidesApproval>,
    pub(super) transports: List<dyn Transport>,
}

impl AllParts {
    pub(super) fn add(&mut self, parts: DomainParts) {
        let DomainParts { workers, metrics, portable, finders, shutdown } = parts;
        self.workers.extend(workers);
        self.metrics.push(metrics);
        self.portable.extend(portable);
        self.finders.extend(finders);
        self.shutdown.extend(shutdown);
    }

    pub(super) fn add_with_turns(&mut self, (domain, turns): (DomainParts, TurnParts)) {
        let TurnParts { agent_data, project_names, tools, builtin_tools, sinks, observers, deciders } = turns;
        self.add(domain);
        self.agent_data.extend(agent_data);
        self.project_names.extend(project_names);
        self.tools.extend(tools);
        self.builtin_tools.extend(builtin_tools);
        self.sinks.extend(sinks);
        self.observers.extend(observers);
        self.deciders.extend(deciders);
    }

    /// Fills every slot and returns the remaining parts.
    ///
    /// # Errors
    /// A slot is still empty.
    pub(super) fn fill(
        self,
        fillers: Fillers,
        recall: Arc<dyn Recall>,
        starting_turns: (Engine, Devices),
    ) -> Result<Background, EmptySlots> {
        let Self {
            workers,
            metrics,
            shutdown,
            portable,
            finders,
            agent_data,
            project_names,
            tools,
            builtin_tools,
            sinks,
            observers,
            deciders,
            transports,
        } = self;
        fillers.portable.fill(portable);
        fillers.finders.fill(finders);
        fillers.agent_data.fill(agent_data);
        fillers.project_names.fill(project_names);
        fillers.tools.fill(tools);
        fillers.builtin_tools.fill(builtin_tools);
        fillers.sinks.fill(sinks);
        fillers.observers.fill(observers);
        fillers.deciders.fill(deciders);
        fillers.recall.fill(recall);
        fillers.transports.fill(transports);
        fillers.turns.fill(starting_turns);
        fillers.slots.check()?;
        Ok(Background { workers, metrics, shutdown })
    }
}

/// Parts that are not called upward.
pub(super) struct Background {
    pub(super) workers: Vec<Box<dyn Worker>>,
    pub(super) metrics: Vec<MetricList>,
    pub(super) shutdown: Vec<ShutdownStep>,
}
