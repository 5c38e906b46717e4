//! What calls used.

use std::time::Duration;

use agentd_base::{Timestamp, typed_id};
use agentd_llm::{Usage, UsageSource};
use jiff::civil::Date;
use jiff::tz::TimeZone;

typed_id!(
    /// The row of one call.
    UsageId, "usage"
);

/// One call of a model that has ended, in whatever way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub agent_id: Option<String>,
    pub project_id: Option<String>,
    /// What asked for it: `chat`, `scheduler` and so on.
    pub origin: &'static str,
    /// The API key with which it was asked for.
    pub key_id: Option<String>,
    pub conversation_id: Option<String>,
    pub session_id: Option<String>,
}

/// A call as it is stored.
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

/// Tokens of one model and one type (`input`, `output`, `cache_read`, `cache_write`,
/// `reasoning`) since the first call. `cache_*` are part of `input`, `reasoning` of `output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTotal {
    pub model: String,
    pub kind: &'static str,
    pub tokens: u64,
}

/// Tokens used, input and output together, and the limits they stand against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageFigures {
    pub used_today: u64,
    pub total_used: u64,
    pub limit_today: Option<u64>,
    pub total_limit: Option<u64>,
}

/// From `now` to the next midnight in `zone`; never zero. A day that begins later than at
/// midnight, because the clocks go forward then, ends the wait at its first instant.
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
    fn midnight_is_that_of_the_zone() {
        assert_eq!(wait("2026-01-05T23:00:00Z", "UTC"), 3600);
        assert_eq!(wait("2026-01-05T23:00:00Z", "Europe/Berlin"), 24 * 3600);
        assert_eq!(wait("2026-01-05T22:30:00Z", "Europe/Berlin"), 1800);
        assert_eq!(wait("2026-01-05T23:59:59.999Z", "UTC"), 1);
        // The day on which the clocks go forward has 23 hours.
        assert_eq!(wait("2026-03-28T23:00:00Z", "Europe/Berlin"), 23 * 3600);
        // In Santiago midnight itself is skipped on 2026-09-06.
        assert_eq!(wait("2026-09-06T03:30:00Z", "America/Santiago"), 1800);
    }
}
