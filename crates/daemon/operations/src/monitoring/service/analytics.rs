//! Daily statistics.

use agentd_core::rollups::{Counter, UsageSum};
use jiff::civil::Date;

use super::Monitoring;
use super::usage::tool_usage;
use crate::monitoring::error::MonitoringError;
use crate::monitoring::model::{AnalyticsView, DayCounts, DayView, TopAgent};

/// Maximum number of days: a leap year.
const MAX_DAYS: i32 = 366;
const DEFAULT_DAYS: u16 = 30;
const MAX_TOP_ENTRIES: usize = 10;

/// Counters of a day, independent of the label.
const DAILY_COUNTERS: [Counter; 9] = [
    Counter::Conversations,
    Counter::Messages,
    Counter::TurnsByOrigin,
    Counter::ToolCalls,
    Counter::Runs,
    Counter::FailedRuns,
    Counter::Deliveries,
    Counter::DeadLetters,
    Counter::Episodes,
];

impl DayCounts {
    fn count(&mut self, counter: Counter, count: u64) {
        *match counter {
            Counter::Conversations => &mut self.conversations,
            Counter::Messages => &mut self.messages,
            Counter::TurnsByOrigin => &mut self.turns,
            Counter::ToolCalls => &mut self.tool_calls,
            Counter::Runs => &mut self.runs,
            Counter::FailedRuns => &mut self.failed_runs,
            Counter::Deliveries => &mut self.deliveries,
            Counter::DeadLetters => &mut self.dead_letters,
            Counter::Episodes => &mut self.episodes,
            // The same events with another label.
            Counter::Turns | Counter::FailedTurns | Counter::FailedToolCalls | Counter::ToolCallsByAgent => return,
        } += count;
    }

    fn set_usage(&mut self, sum: &UsageSum) {
        self.tokens = sum.total_tokens();
        self.cost_estimate = sum.cost_usd();
        self.unpriced_calls = sum.unpriced_calls;
    }
}

impl Monitoring {
    /// Returns the last 30 days, or the days from `start` to `end`, inclusive.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long range, or the database is unavailable.
    pub async fn analytics(&self, start: Option<Date>, end: Option<Date>) -> Result<AnalyticsView, MonitoringError> {
        let days = self.days_between(start, end)?;
        let zone = self.sources.rollups.days();
        let buckets = zone.days(&days);
        let mut counts = vec![DayCounts::default(); days.len()];
        let mut sums = vec![UsageSum::default(); days.len()];
        let rollups = &self.sources.rollups;
        for (at, counter, count) in rollups.list_counters(buckets.period(), &DAILY_COUNTERS).await? {
            if let Some(day) = buckets.position(at).and_then(|position| counts.get_mut(position)) {
                day.count(counter, count);
            }
        }
        for (at, sum) in rollups.list_usage(buckets.period()).await? {
            if let Some(day) = buckets.position(at).and_then(|position| sums.get_mut(position)) {
                day.add(&sum);
            }
        }
        let (mut totals, mut all) = (DayCounts::default(), UsageSum::default());
        for (day, sum) in counts.iter_mut().zip(&sums) {
            day.set_usage(sum);
            all.add(sum);
            totals.add(day);
        }
        totals.set_usage(&all);
        let mut top =
            self.counts(buckets.period(), &[Counter::Turns, Counter::ToolCalls, Counter::FailedToolCalls]).await?;
        let mut top_tools = tool_usage(&mut top);
        top_tools.truncate(MAX_TOP_ENTRIES);
        let day = |(date, counts): (&Date, DayCounts)| DayView { date: date.to_string(), counts };
        Ok(AnalyticsView {
            start: days.first().map(Date::to_string).unwrap_or_default(),
            end: days.last().map(Date::to_string).unwrap_or_default(),
            daily: days.iter().zip(counts).map(day).collect(),
            totals,
            top_agents: self.top_agents(top.remove(&Counter::Turns).unwrap_or_default()).await?,
            top_tools,
        })
    }

    fn days_between(&self, start: Option<Date>, end: Option<Date>) -> Result<Vec<Date>, MonitoringError> {
        let today = self.sources.rollups.days().date(self.context.clock.now());
        let end = end.unwrap_or_else(|| start.map_or(today, |start| start.max(today)));
        let back = jiff::Span::new().days(i64::from(DEFAULT_DAYS) - 1);
        let start = start.unwrap_or_else(|| end.checked_sub(back).unwrap_or(Date::MIN));
        let count = start.until(end).map_or(i32::MAX, |span| span.get_days().saturating_add(1));
        if count < 1 {
            return Err(MonitoringError::field("start", "must not be after `end`"));
        }
        if count > MAX_DAYS {
            let message = format!("must select at most {MAX_DAYS} days up to `end`; {count} days were requested");
            return Err(MonitoringError::field("start", message));
        }
        Ok(start.series(jiff::Span::new().days(1)).take_while(|day| *day <= end).collect())
    }

    async fn top_agents(
        &self,
        turns: std::collections::BTreeMap<String, u64>,
    ) -> Result<Vec<TopAgent>, MonitoringError> {
        let names = self.agent_names().await?;
        let mut turns: Vec<(String, u64)> = turns.into_iter().collect();
        turns.sort_by_key(|(_, turns)| std::cmp::Reverse(*turns));
        turns.truncate(MAX_TOP_ENTRIES);
        let agent = |(id, turns): (String, u64)| TopAgent { svc_name: names.get(&id).cloned(), agent_id: id, turns };
        Ok(turns.into_iter().map(agent).collect())
    }
}

impl DayCounts {
    /// Adds all counts except usage, whose cost may be unknown.
    fn add(&mut self, day: &Self) {
        self.conversations += day.conversations;
        self.messages += day.messages;
        self.turns += day.turns;
        self.tool_calls += day.tool_calls;
        self.runs += day.runs;
        self.failed_runs += day.failed_runs;
        self.deliveries += day.deliveries;
        self.dead_letters += day.dead_letters;
        self.episodes += day.episodes;
    }
}
