//! Recent events.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Monitoring;
use crate::monitoring::error::MonitoringError;
use crate::monitoring::model::{ActivityView, RecentEvent, TypeActivity, summary};
use crate::monitoring::store;

/// Maximum number of recent events per type.
const MAX_RECENT_EVENTS: u32 = 5;

impl Monitoring {
    /// Returns the events of the last hours by type.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn activity(&self, hours: u16) -> Result<ActivityView, MonitoringError> {
        let since = self.context.clock.now() - Duration::from_secs(u64::from(hours) * 3_600);
        let mut read = self.context.db.read_snapshot().await?;
        let mut by_type = BTreeMap::new();
        for (event_type, count, last_at) in store::count_events(&mut read, since).await? {
            let events = store::list_recent_events(&mut read, &event_type, since, MAX_RECENT_EVENTS).await?;
            let recent = events.into_iter().map(|event| RecentEvent {
                summary: summary(&event_type, &event.data),
                id: event.id,
                at: event.at,
            });
            let activity = TypeActivity { count, last_at, recent: recent.collect() };
            by_type.insert(event_type, activity);
        }
        let total = by_type.values().map(|activity| activity.count).sum();
        Ok(ActivityView { since, total, by_type })
    }
}
