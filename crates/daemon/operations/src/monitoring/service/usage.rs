//! Usage by agent, tool, source and key.

use std::collections::{BTreeMap, HashMap};

use agentd_core::rollups::{Counter, Period, UsageDimension, UsageSum};

use super::Monitoring;
use crate::monitoring::error::MonitoringError;
use crate::monitoring::model::{AgentUsage, KeyUsage, SourceUsage, ToolUsage, UsageTotals, UsageView};

/// Counts by label.
pub(super) type Counts = HashMap<Counter, BTreeMap<String, u64>>;

impl Monitoring {
    /// Returns the usage of the last days, including today, by agent, tool, source and key.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn usage(&self, days: u16) -> Result<UsageView, MonitoringError> {
        const BY_AGENT: [Counter; 2] = [Counter::Turns, Counter::ToolCallsByAgent];
        const TOTALS: [Counter; 3] = [Counter::TurnsByOrigin, Counter::ToolCalls, Counter::FailedToolCalls];
        self.sources.settings.refresh().await?;
        let (zone, now) = (self.sources.rollups.days(), self.context.clock.now());
        let period = zone.days(&zone.last_days(now, days)).period();
        let used = |dimension| self.used(period, dimension);
        // Run concurrently, because for a year some of these queries take tens of milliseconds.
        let (mut counts_by_agent, mut counts, agents, sources, keys) = tokio::try_join!(
            self.counts(period, &BY_AGENT),
            self.counts(period, &TOTALS),
            used(UsageDimension::Agent),
            used(UsageDimension::Origin),
            used(UsageDimension::Key),
        )?;
        let tools = tool_usage(&mut counts);
        let by_agent = self.agent_usage(agents, &mut counts_by_agent).await?;
        let (by_source, all, turns) = source_usage(sources, &mut counts);
        let tool_calls = tools.iter().map(|tool| tool.calls).sum();
        Ok(UsageView {
            days,
            totals: UsageTotals::of(&all, turns, tool_calls),
            by_agent,
            by_tool: tools,
            by_source,
            by_key: self.key_usage(keys).await?,
        })
    }

    async fn used(&self, period: Period, by: UsageDimension) -> Result<Vec<(String, UsageSum)>, MonitoringError> {
        Ok(self.sources.rollups.sum_usage_by(period, by).await?)
    }

    pub(super) async fn counts(&self, period: Period, counters: &[Counter]) -> Result<Counts, MonitoringError> {
        let mut counts = Counts::new();
        for (counter, label, count) in self.sources.rollups.sum_counters(period, counters).await? {
            counts.entry(counter).or_default().insert(label, count);
        }
        Ok(counts)
    }

    /// Returns the names of existing agents by id.
    pub(super) async fn agent_names(&self) -> Result<HashMap<String, String>, MonitoringError> {
        let agents = self.sources.agents.list().await?;
        Ok(agents.iter().map(|agent| (agent.id.to_string(), agent.svc_name.clone())).collect())
    }

    async fn agent_usage(
        &self,
        used: Vec<(String, UsageSum)>,
        counts: &mut Counts,
    ) -> Result<Vec<AgentUsage>, MonitoringError> {
        let mut agents: BTreeMap<String, (UsageSum, u64, u64)> = BTreeMap::new();
        for (agent, sum) in used {
            agents.entry(agent).or_default().0 = sum;
        }
        for (agent, turns) in counts.remove(&Counter::Turns).unwrap_or_default() {
            agents.entry(agent).or_default().1 = turns;
        }
        for (agent, calls) in counts.remove(&Counter::ToolCallsByAgent).unwrap_or_default() {
            agents.entry(agent).or_default().2 = calls;
        }
        let ids: Vec<&str> = agents.keys().map(String::as_str).filter(|id| !id.is_empty()).collect();
        let last: HashMap<_, _> = self.sources.providers.last_calls(&ids).await?.into_iter().collect();
        let names = self.agent_names().await?;
        let usage = |(id, (sum, turns, tool_calls)): (String, (UsageSum, u64, u64))| AgentUsage {
            svc_name: names.get(&id).cloned(),
            last_active_at: last.get(&id).copied(),
            agent_id: Some(id).filter(|id| !id.is_empty()),
            turns,
            tool_calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cost_estimate: sum.cost_usd(),
            unpriced_calls: sum.unpriced_calls,
        };
        let mut agents: Vec<AgentUsage> = agents.into_iter().map(usage).collect();
        agents.sort_by_key(|agent| std::cmp::Reverse(agent.input_tokens.saturating_add(agent.output_tokens)));
        Ok(agents)
    }

    async fn key_usage(&self, used: Vec<(String, UsageSum)>) -> Result<Vec<KeyUsage>, MonitoringError> {
        let keys = self.sources.auth.list_keys().await?;
        let names: HashMap<String, String> = keys.into_iter().map(|key| (key.id.to_string(), key.name)).collect();
        let usage = |(id, sum): (String, UsageSum)| KeyUsage {
            name: names.get(&id).cloned(),
            key_id: Some(id).filter(|id| !id.is_empty()),
            model_calls: sum.calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cost_estimate: sum.cost_usd(),
            unpriced_calls: sum.unpriced_calls,
        };
        let mut keys: Vec<KeyUsage> = used.into_iter().map(usage).collect();
        keys.sort_by(|left, right| {
            let tokens = |key: &KeyUsage| key.input_tokens.saturating_add(key.output_tokens);
            tokens(right).cmp(&tokens(left)).then_with(|| left.key_id.cmp(&right.key_id))
        });
        Ok(keys)
    }
}

/// Returns usage by source with totals: every call and every turn has exactly one source.
fn source_usage(used: Vec<(String, UsageSum)>, counts: &mut Counts) -> (Vec<SourceUsage>, UsageSum, u64) {
    let mut sources: BTreeMap<String, (UsageSum, u64)> = BTreeMap::new();
    for (source, sum) in used {
        sources.entry(source).or_default().0 = sum;
    }
    for (source, turns) in counts.remove(&Counter::TurnsByOrigin).unwrap_or_default() {
        sources.entry(source).or_default().1 = turns;
    }
    let (mut all, mut all_turns) = (UsageSum::default(), 0);
    for (sum, turns) in sources.values() {
        all.add(sum);
        all_turns += turns;
    }
    let usage = |(source, (sum, turns)): (String, (UsageSum, u64))| SourceUsage {
        source: Some(source).filter(|source| !source.is_empty()),
        turns,
        input_tokens: sum.input_tokens,
        output_tokens: sum.output_tokens,
        cost_estimate: sum.cost_usd(),
        unpriced_calls: sum.unpriced_calls,
    };
    let mut sources: Vec<SourceUsage> = sources.into_iter().map(usage).collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.input_tokens.saturating_add(source.output_tokens)));
    (sources, all, all_turns)
}

/// Returns tools by number of calls, highest first.
pub(super) fn tool_usage(counts: &mut Counts) -> Vec<ToolUsage> {
    let mut failed = counts.remove(&Counter::FailedToolCalls).unwrap_or_default();
    let tool_calls = counts.remove(&Counter::ToolCalls).unwrap_or_default();
    let usage =
        |(tool, calls): (String, u64)| ToolUsage { failed_calls: failed.remove(&tool).unwrap_or(0), tool, calls };
    let mut tools: Vec<ToolUsage> = tool_calls.into_iter().map(usage).collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls));
    tools
}
