//! Who used what, and what came of it over the days.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_core::rollups::UsageSum;
use serde::Serialize;
use utoipa::ToSchema;

/// Sums over a period.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageTotals {
    pub turns: u64,
    pub tool_calls: u64,
    /// Calls of models.
    pub model_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Of `output_tokens`.
    pub reasoning_tokens: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    /// Calls whose price is not known.
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

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AgentUsage {
    /// `null`: calls for no agent, or for one whose session was gone when they ended.
    pub agent_id: Option<String>,
    /// `null` where the agent was deleted.
    pub svc_name: Option<String>,
    pub turns: u64,
    pub tool_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    pub unpriced_calls: u64,
    /// When a model last answered it, in whatever period.
    pub last_active_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolUsage {
    pub tool: String,
    pub calls: u64,
    /// Of them, those that failed.
    pub failed_calls: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceUsage {
    /// What began it: `chat`, `scheduler`, `hook`, `webhook`, `channel`, `device`, `proactive` or `api`; `null` for
    /// calls from before this was noted.
    pub source: Option<String>,
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    pub unpriced_calls: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct KeyUsage {
    /// The API key with which a message was sent; `null` for whatever was asked for without one.
    pub key_id: Option<String>,
    /// `null` where the key was revoked.
    pub name: Option<String>,
    pub model_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    pub unpriced_calls: u64,
}

/// Answer of `GET /api/monitoring/usage`. Each list has those with the most first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageView {
    pub days: u16,
    pub totals: UsageTotals,
    pub by_agent: Vec<AgentUsage>,
    pub by_tool: Vec<ToolUsage>,
    pub by_source: Vec<SourceUsage>,
    pub by_key: Vec<KeyUsage>,
}

/// What happened on a day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct DayCounts {
    /// Conversations that were begun.
    pub conversations: u64,
    pub messages: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Input and output.
    pub tokens: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    pub unpriced_calls: u64,
    pub tool_calls: u64,
    /// Runs of jobs that ended.
    pub runs: u64,
    pub failed_runs: u64,
    /// Deliveries of hooks that came to an end.
    pub deliveries: u64,
    /// Of them, those that were given up. One that is retried by hand and given up again counts again.
    pub dead_letters: u64,
    /// Episodes that were stored.
    pub episodes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DayView {
    #[schema(example = "2026-01-31")]
    pub date: String,
    #[serde(flatten)]
    pub counts: DayCounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TopAgent {
    pub agent_id: String,
    /// `null` where the agent was deleted.
    pub svc_name: Option<String>,
    pub turns: u64,
}

/// Answer of `GET /api/monitoring/analytics`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnalyticsView {
    /// The first day.
    #[schema(example = "2026-01-01")]
    pub start: String,
    /// The last day, itself included.
    #[schema(example = "2026-01-31")]
    pub end: String,
    /// The oldest first, days without anything included.
    pub daily: Vec<DayView>,
    pub totals: DayCounts,
    /// The ten with the most turns.
    pub top_agents: Vec<TopAgent>,
    /// The ten with the most calls.
    pub top_tools: Vec<ToolUsage>,
}

/// What happened lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecentEvent {
    pub id: String,
    pub at: Timestamp,
    /// In a few words.
    pub summary: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TypeActivity {
    pub count: u64,
    pub last_at: Timestamp,
    /// The last five, the newest first.
    pub recent: Vec<RecentEvent>,
}

/// Answer of `GET /api/monitoring/activity-summary`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ActivityView {
    pub since: Timestamp,
    pub total: u64,
    pub by_type: BTreeMap<String, TypeActivity>,
}

/// Fields of an event's data that say to a person what it is about, the best first.
const TELLING: [&str; 11] =
    ["summary", "title", "name", "subject", "goal", "question", "query", "tool", "error", "reason", "content"];
const MAX_SUMMARY: usize = 160;

/// An event in a few words: what it is about, or which thing.
pub(crate) fn summary(event_type: &str, data: &serde_json::Value) -> String {
    let text = |field: &str| data.get(field).and_then(|value| value.as_str()).map(str::trim).filter(|s| !s.is_empty());
    let id = || {
        let fields = data.as_object()?;
        let (_, id) = fields.iter().find(|(name, value)| name.ends_with("_id") && value.is_string())?;
        id.as_str()
    };
    let about = TELLING.iter().find_map(|field| text(field)).or_else(id);
    let Some(about) = about else { return event_type.to_owned() };
    let mut short: String = about.chars().take(MAX_SUMMARY).collect();
    if about.chars().nth(MAX_SUMMARY).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_says_what_it_is_about() {
        assert_eq!(summary("project.created", &json!({"project_id": "p", "name": "Garden"})), "Garden");
        assert_eq!(summary("task.started", &json!({"depth": 1, "session_id": "sess_1"})), "sess_1");
        assert_eq!(summary("task.started", &json!(null)), "task.started");
        assert_eq!(summary("x", &json!({"name": "ä".repeat(500)})).chars().count(), MAX_SUMMARY + 1);
    }
}
