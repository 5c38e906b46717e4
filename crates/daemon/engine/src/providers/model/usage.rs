//! Usage of model calls.

use std::time::Duration;

use agentd_base::{Timestamp, typed_id};
use agentd_llm::{Usage, UsageSource};
use jiff::civil::Date;
use jiff::tz::TimeZone;

typed_id!(
    /// Id of a usage row.
    UsageId, "usage"
);

/// A model call that has ended, successfully or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub agent_id: Option<String>,
    pub project_id: Option<String>,
    /// Source of the call: `chat`, `scheduler` and so on.
    pub origin: &'static str,
    /// API key of the request.
    pub key_id: Option<String>,
    pub conversation_id: Option<String>,
    pub session_id: Option<String>,
}

/// A call as stored.
#[derive(Debug, Clone)]
pub(crate) struct UsageRow {
    pub(crate) id: UsageId,
    pub(crate) at: Timestamp,
    pub(crate) day: Date,
    pub(crate) shard: u32,
    pub(crate) call: ModelCall,
    pub(crate) cost_micro_usd: Option<u64>,
}

impl UsageRow {
    pub(crate) fn source(&self) -> &'static str {
        match self.call.usage.source {
            UsageSource::Provider => "provider",
            UsageSource::Estimated => "estimated",
            UsageSource::Missing => "missing",
        }
    }
}

/// Total tokens of one model and one type (`input`, `output`, `cache_read`, `cache_write`, `reasoning`). `cache_*` are
/// part of `input`, `reasoning` of `output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTotal {
    pub model: String,
    pub kind: &'static str,
    pub tokens: u64,
}

/// Used tokens, input plus output, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageFigures {
    pub used_today: u64,
    pub total_used: u64,
    pub limit_today: Option<u64>,
    pub total_limit: Option<u64>,
}

/// Returns the time from `now` to the next midnight in `zone`; never zero. If midnight is skipped by a clock change,
/// the day starts at its first instant.
pub(crate) fn until_midnight(now: Timestamp, zone: &TimeZone) -> Duration {
    let zoned = now.to_jiff().to_zoned(zone.clone());
    let start = zoned.tomorrow().and_then(|tomorrow| tomorrow.start_of_day());
    let end = start.map_or(now, |start| Timestamp::from(start.timestamp()));
    end.since(now).max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(now: &str, zone: &str) -> u64 {
        until_midnight(Timestamp::parse(now).unwrap(), &TimeZone::get(zone).unwrap()).as_secs()
    }

    #[test]
    fn midnight_follows_the_time_zone() {
        assert_eq!(wait("2026-01-05T23:00:00Z", "UTC"), 3600);
        assert_eq!(wait("2026-01-05T23:00:00Z", "Europe/Berlin"), 24 * 3600);
        assert_eq!(wait("2026-01-05T22:30:00Z", "Europe/Berlin"), 1800);
        assert_eq!(wait("2026-01-05T23:59:59.999Z", "UTC"), 1);
        // A day with a clock change forward has 23 hours.
        assert_eq!(wait("2026-03-28T23:00:00Z", "Europe/Berlin"), 23 * 3600);
        // In Santiago midnight itself is skipped on 2026-09-06.
        assert_eq!(wait("2026-09-06T03:30:00Z", "America/Santiago"), 1800);
    }
}
