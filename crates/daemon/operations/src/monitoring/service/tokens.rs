//! Token usage and cost.

use agentd_core::rollups::{Period, UsageDimension, UsageSum};

use super::Monitoring;
use crate::monitoring::error::MonitoringError;
use crate::monitoring::model::{ModelTokens, ProjectTokens, TokensPoint, TokensView, Trend, percentage};

/// Period of a usage history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokensPeriod {
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
}

const TREND_DAYS: u16 = 7;

/// Covers every possible time.
const ALL_TIME: Period =
    Period { from: agentd_base::Timestamp::from_micros(i64::MIN), to: agentd_base::Timestamp::from_micros(i64::MAX) };

impl Monitoring {
    /// Returns total usage, today's usage, and the limits.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn tokens(&self) -> Result<TokensView, MonitoringError> {
        self.sources.settings.refresh().await?;
        let (providers, rollups) = (&self.sources.providers, &self.sources.rollups);
        let figures = providers.usage_figures().await?;
        let models = providers.model_totals().await?;
        let mut all = UsageSum::default();
        models.iter().for_each(|(_, sum)| all.add(sum));
        let projects = rollups.sum_usage_by(ALL_TIME, UsageDimension::Project).await?;
        Ok(TokensView {
            total_used: figures.total_used,
            total_limit: figures.total_limit,
            used_today: figures.used_today,
            limit_today: figures.limit_today,
            cost_estimate: all.cost_usd(),
            unpriced_calls: all.unpriced_calls,
            by_model: models.into_iter().map(|(model, sum)| (model.clone(), ModelTokens::of(model, &sum))).collect(),
            by_project: self.by_project(projects).await?,
            trend: self.trend().await?,
        })
    }

    async fn by_project(&self, mut sums: Vec<(String, UsageSum)>) -> Result<Vec<ProjectTokens>, MonitoringError> {
        sums.sort_by(|(left, one), (right, other)| {
            other.total_tokens().cmp(&one.total_tokens()).then_with(|| left.cmp(right))
        });
        let all = sums.iter().map(|(_, sum)| sum.total_tokens()).sum();
        let ids: Vec<&str> = sums.iter().map(|(id, _)| id.as_str()).filter(|id| !id.is_empty()).collect();
        let mut names = self.sources.projects.names(&ids).await?;
        let project = |(id, sum): (String, UsageSum)| {
            let (project_id, project_name) = match id.as_str() {
                "" => ("unassigned".to_owned(), "Unassigned".to_owned()),
                _ => (id.clone(), names.remove(&id).unwrap_or_else(|| "Deleted project".to_owned())),
            };
            let percentage = percentage(sum.total_tokens(), all);
            ProjectTokens { project_id, project_name, tokens_used: sum.total_tokens(), percentage }
        };
        Ok(sums.into_iter().map(project).collect())
    }

    async fn trend(&self) -> Result<Trend, MonitoringError> {
        let (zone, now) = (self.sources.rollups.days(), self.context.clock.now());
        let days = zone.last_days(now, 2 * TREND_DAYS);
        let buckets = zone.days(&days);
        let (mut before, mut lately) = (0, 0);
        for (at, sum) in self.sources.rollups.list_usage(buckets.period()).await? {
            match buckets.position(at) {
                Some(day) if day < usize::from(TREND_DAYS) => before += sum.total_tokens(),
                _ => lately += sum.total_tokens(),
            }
        }
        Ok(Trend::between(before, lately))
    }

    /// Returns usage over a period, including empty hours and days.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn tokens_history(&self, period: TokensPeriod) -> Result<Vec<TokensPoint>, MonitoringError> {
        self.sources.settings.refresh().await?;
        let (zone, now) = (self.sources.rollups.days(), self.context.clock.now());
        let buckets = match period {
            TokensPeriod::Day => zone.last_hours(now, 24),
            TokensPeriod::Week => zone.days(&zone.last_days(now, 7)),
            TokensPeriod::Month => zone.days(&zone.last_days(now, 30)),
        };
        let mut sums = vec![UsageSum::default(); buckets.len()];
        for (at, sum) in self.sources.rollups.list_usage(buckets.period()).await? {
            if let Some(bucket) = buckets.position(at).and_then(|position| sums.get_mut(position)) {
                bucket.add(&sum);
            }
        }
        let date = |bucket: Period| match period {
            TokensPeriod::Day => bucket.from.to_string(),
            _ => zone.date(bucket.from).to_string(),
        };
        Ok(buckets.each().zip(&sums).map(|(bucket, sum)| TokensPoint::of(date(bucket), sum)).collect())
    }
}
