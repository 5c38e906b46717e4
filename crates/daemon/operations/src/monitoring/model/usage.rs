//! Usage by agent, tool, source and key, and daily statistics.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_core::rollups::UsageSum;
use serde::Serialize;
use utoipa::ToSchema;

/// Totals of a period.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageTotals {
    /// Number of finished turns.
    pub turns: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Sum of `input_tokens` and `output_tokens`.
    pub total_tokens: u64,
    /// Part of `input_tokens` read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Part of `input_tokens` written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Part of `output_tokens` used for reasoning.
    pub reasoning_tokens: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
}

impl UsageTotals {
    pub(crate) fn of(sum: &UsageSum, turns: u64, tool_calls: u64) -> Self {
        Self {
            turns,
            tool_calls,
            model_calls: sum.calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            total_tokens: sum.total_tokens(),
            cache_read_tokens: sum.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens,
            reasoning_tokens: sum.reasoning_tokens,
            cost_estimate: sum.cost_usd(),
            unpriced_calls: sum.unpriced_calls,
        }
    }
}

/// Usage of one agent in the period.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AgentUsage {
    /// Id of the agent; `null` for calls without an agent or whose session was deleted before they ended.
    pub agent_id: Option<String>,
    /// `svc_name` of the agent; `null` if the agent was deleted.
    pub svc_name: Option<String>,
    /// Number of finished turns.
    pub turns: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
    /// Time of the last model call of the agent, regardless of the period; `null` if it never called a model.
    pub last_active_at: Option<Timestamp>,
}

/// Calls of one tool in the period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolUsage {
    /// Name of the tool.
    pub tool: String,
    /// Number of calls, including failed ones.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed_calls: u64,
}

/// Usage of turns with the same origin.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceUsage {
    /// Origin of the turns: `chat`, `scheduler`, `hook`, `webhook`, `channel`, `device`, `proactive` or `api`; `null`
    /// if it was not recorded.
    pub source: Option<String>,
    /// Number of finished turns.
    pub turns: u64,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
}

/// Usage of messages sent with one API key.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct KeyUsage {
    /// Id of the API key; `null` for usage without a key.
    pub key_id: Option<String>,
    /// Name of the API key; `null` if it was revoked.
    pub name: Option<String>,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
}

/// Response of `GET /api/monitoring/usage`. Each list is sorted by usage, highest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageView {
    /// Number of days of the period, including today.
    pub days: u16,
    /// Totals of the period.
    pub totals: UsageTotals,
    /// Usage by agent.
    pub by_agent: Vec<AgentUsage>,
    /// Calls by tool.
    pub by_tool: Vec<ToolUsage>,
    /// Usage by origin of the turns.
    pub by_source: Vec<SourceUsage>,
    /// Usage by API key.
    pub by_key: Vec<KeyUsage>,
}

/// Statistics of a day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct DayCounts {
    /// Number of created conversations.
    pub conversations: u64,
    /// Number of stored messages.
    pub messages: u64,
    /// Number of finished turns.
    pub turns: u64,
    /// Number of input and output tokens.
    pub tokens: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
    /// Number of tool calls, including failed ones.
    pub tool_calls: u64,
    /// Number of finished job runs.
    pub runs: u64,
    /// Number of job runs that failed.
    pub failed_runs: u64,
    /// Number of finished hook deliveries.
    pub deliveries: u64,
    /// Number of dead-lettered deliveries. A delivery that is retried manually and dead-lettered again counts again.
    pub dead_letters: u64,
    /// Number of stored episodes.
    pub episodes: u64,
}

/// Statistics of one day.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DayView {
    /// Date in the time zone of the profile.
    #[schema(example = "2026-01-31")]
    pub date: String,
    #[serde(flatten)]
    pub counts: DayCounts,
}

/// Agent with many turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TopAgent {
    /// Id of the agent.
    pub agent_id: String,
    /// `svc_name` of the agent; `null` if the agent was deleted.
    pub svc_name: Option<String>,
    /// Number of finished turns in the period.
    pub turns: u64,
}

/// Response of `GET /api/monitoring/analytics`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnalyticsView {
    /// First day, in the time zone of the profile.
    #[schema(example = "2026-01-01")]
    pub start: String,
    /// Last day, inclusive, in the time zone of the profile.
    #[schema(example = "2026-01-31")]
    pub end: String,
    /// Days, oldest first, including empty days.
    pub daily: Vec<DayView>,
    /// Totals of all days.
    pub totals: DayCounts,
    /// The ten agents with the most turns, most first.
    pub top_agents: Vec<TopAgent>,
    /// The ten tools with the most calls, most first.
    pub top_tools: Vec<ToolUsage>,
}

/// Recent event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecentEvent {
    /// Id of the event.
    pub id: String,
    /// Time of the event.
    pub at: Timestamp,
    /// Short summary of the event, truncated after 160 characters.
    pub summary: String,
}

/// Recent events of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TypeActivity {
    /// Number of events.
    pub count: u64,
    /// Time of the latest event.
    pub last_at: Timestamp,
    /// The five latest events, newest first.
    pub recent: Vec<RecentEvent>,
}

/// Response of `GET /api/monitoring/activity-summary`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ActivityView {
    /// Start of the period, which ends now.
    pub since: Timestamp,
    /// Number of events of all types.
    pub total: u64,
    /// Events by type, such as `alert.firing`.
    pub by_type: BTreeMap<String, TypeActivity>,
}

/// Fields of event data that describe the event best, in order of preference.
const SUMMARY_FIELDS: [&str; 11] =
    ["summary", "title", "name", "subject", "goal", "question", "query", "tool", "error", "reason", "content"];
const MAX_SUMMARY_CHARACTERS: usize = 160;

/// Summarizes an event by its subject, or by its id.
pub(crate) fn summary(event_type: &str, data: &serde_json::Value) -> String {
    let text = |field: &str| data.get(field).and_then(|value| value.as_str()).map(str::trim).filter(|s| !s.is_empty());
    let id = || {
        let fields = data.as_object()?;
        let (_, id) = fields.iter().find(|(name, value)| name.ends_with("_id") && value.is_string())?;
        id.as_str()
    };
    let subject = SUMMARY_FIELDS.iter().find_map(|field| text(field)).or_else(id);
    let Some(subject) = subject else { return event_type.to_owned() };
    let mut short: String = subject.chars().take(MAX_SUMMARY_CHARACTERS).collect();
    if subject.chars().nth(MAX_SUMMARY_CHARACTERS).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn summary_is_the_most_descriptive_field() {
        assert_eq!(summary("project.created", &json!({"project_id": "p", "name": "Garden"})), "Garden");
        assert_eq!(summary("task.started", &json!({"depth": 1, "session_id": "sess_1"})), "sess_1");
        assert_eq!(summary("task.started", &json!(null)), "task.started");
        assert_eq!(summary("x", &json!({"name": "ä".repeat(500)})).chars().count(), MAX_SUMMARY_CHARACTERS + 1);
    }
}
