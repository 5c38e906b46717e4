//! Validated schedules and their due times.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cron::CronExpression;
use crate::zone::Zone;

/// Last instant with a four-digit year in every time zone, in microseconds.
const MAX_MICROS: i64 = 253_402_128_000_000_000;

/// Cron expression in a time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    expression: CronExpression,
    zone: Zone,
}

impl Cron {
    pub(crate) const fn new(expression: CronExpression, zone: Zone) -> Self {
        Self { expression, zone }
    }

    #[must_use]
    pub const fn expression(&self) -> &CronExpression {
        &self.expression
    }

    #[must_use]
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }
}

/// Interval. The zone is only used to display times; it does not affect the slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Every {
    interval_seconds: i64,
    zone: Option<Zone>,
}

impl Every {
    pub(crate) const fn new(interval_seconds: i64, zone: Option<Zone>) -> Self {
        Self { interval_seconds, zone }
    }

    #[must_use]
    pub const fn interval_seconds(&self) -> i64 {
        self.interval_seconds
    }

    #[must_use]
    pub const fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    const fn micros(&self) -> i64 {
        self.interval_seconds * 1_000_000
    }

    /// Returns `anchor + k * interval` with the smallest `k >= 1` that is after `after`. Takes constant time.
    fn next_after(&self, after: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        let (anchor, after) = (i128::from(anchor.as_micros()), i128::from(after.as_micros()));
        let interval = i128::from(self.micros());
        let steps = if after <= anchor { 1 } else { (after - anchor) / interval + 1 };
        in_range(anchor + steps * interval)
    }

    /// Returns `anchor + k * interval` with the greatest `k >= 1` that is not after `until`.
    fn latest_at(&self, until: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        let (anchor, until) = (i128::from(anchor.as_micros()), i128::from(until.as_micros()));
        let interval = i128::from(self.micros());
        if until < anchor + interval {
            return None;
        }
        in_range(anchor + (until - anchor) / interval * interval)
    }
}

fn in_range(micros: i128) -> Option<Timestamp> {
    i64::try_from(micros).ok().filter(|micros| *micros <= MAX_MICROS).map(Timestamp::from_micros)
}

/// Single instant. The zone is the one it was parsed in, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    instant: Timestamp,
    zone: Option<Zone>,
}

impl At {
    pub(crate) fn new(instant: Timestamp, zone: Option<Zone>) -> Self {
        // Serialized times have milliseconds: a stored schedule must read back as the same slot.
        Self { instant: Timestamp::from_micros(instant.as_millis().saturating_mul(1000)), zone }
    }

    #[must_use]
    pub const fn instant(&self) -> Timestamp {
        self.instant
    }

    #[must_use]
    pub const fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }
}

/// Type of a schedule: `cron` (cron expression in a time zone), `every` (interval in seconds) or `at` (single date).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleType {
    /// Cron expression in a time zone.
    Cron,
    /// Interval in seconds.
    Every,
    /// Single date.
    At,
}

/// Schedule. Serializes as a [`ScheduleSpec`](crate::ScheduleSpec) with absolute times, so that it reads back as the
/// same schedule even if the profile's zone has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    Cron(Cron),
    Every(Every),
    At(At),
}

impl Schedule {
    /// Returns the next slot strictly after `after`, or `None` if there is none.
    ///
    /// Intervals count from `anchor`: the last scheduled slot, or the time when the job was created or resumed. Their
    /// first slot is one interval after it. Cron and dates ignore it.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.expression.next_after(after, &cron.zone),
            Self::Every(every) => every.next_after(after, anchor),
            Self::At(at) => (at.instant > after).then_some(at.instant),
        }
    }

    /// Iterates over all slots strictly after `after`, in order. Most schedules never end.
    #[must_use]
    pub const fn occurrences(&self, after: Timestamp, anchor: Timestamp) -> Occurrences<'_> {
        Occurrences { schedule: self, after, anchor }
    }

    /// Returns the first `limit` slots from `from` (inclusive) to `until` (exclusive).
    #[must_use]
    pub fn occurrences_between(
        &self,
        from: Timestamp,
        until: Timestamp,
        anchor: Timestamp,
        limit: usize,
    ) -> Vec<Timestamp> {
        let before = Timestamp::from_micros(from.as_micros().saturating_sub(1));
        self.occurrences(before, anchor).take_while(|slot| *slot < until).take(limit).collect()
    }

    /// Returns the newest slot after `after` and not after `until`. The cost does not depend on the number of slots in
    /// between.
    #[must_use]
    pub fn latest_between(&self, after: Timestamp, until: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(every) => every.latest_at(until, anchor).filter(|slot| *slot > after),
            Self::At(at) => (at.instant > after && at.instant <= until).then_some(at.instant),
            Self::Cron(_) => self.latest_by_search(after, until),
        }
    }

    /// Steps back with growing distance until a slot lies between the instant and `until`, then bisects.
    fn latest_by_search(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        const MINUTE: i64 = 60_000_000;
        let next = |after: i64| {
            let after = Timestamp::from_micros(after);
            self.next_after(after, after).filter(|slot| *slot <= until)
        };
        let mut found = next(after.as_micros())?;
        let (floor, end) = (after.as_micros(), until.as_micros());
        let mut low = floor;
        let mut width = 64 * MINUTE;
        while let Some(start) = end.checked_sub(width).filter(|start| *start > floor) {
            if let Some(slot) = next(start) {
                found = slot;
                low = start;
                break;
            }
            width = width.saturating_mul(8);
        }
        let mut high = end;
        while high - low > MINUTE {
            let middle = low + (high - low) / 2;
            match next(middle) {
                Some(slot) => {
                    found = slot;
                    low = middle;
                }
                None => high = middle,
            }
        }
        while let Some(slot) = next(found.as_micros()) {
            found = slot;
        }
        Some(found)
    }

    #[must_use]
    pub const fn kind(&self) -> ScheduleType {
        match self {
            Self::Cron(_) => ScheduleType::Cron,
            Self::Every(_) => ScheduleType::Every,
            Self::At(_) => ScheduleType::At,
        }
    }

    /// Whether there can be more than one slot.
    #[must_use]
    pub const fn recurs(&self) -> bool {
        !matches!(self, Self::At(_))
    }

    /// Returns the slot of a schedule with a single slot.
    #[must_use]
    pub const fn only_slot(&self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at.instant()),
            Self::Cron(_) | Self::Every(_) => None,
        }
    }

    /// Returns the zone of the schedule, or the one its date was parsed in.
    #[must_use]
    pub const fn zone(&self) -> Option<&Zone> {
        match self {
            Self::Cron(cron) => Some(&cron.zone),
            Self::Every(every) => every.zone.as_ref(),
            Self::At(at) => at.zone.as_ref(),
        }
    }
}

/// Iterator over the slots of a schedule; see [`Schedule::occurrences`].
#[derive(Debug, Clone)]
pub struct Occurrences<'a> {
    schedule: &'a Schedule,
    after: Timestamp,
    anchor: Timestamp,
}

impl Iterator for Occurrences<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let slot = self.schedule.next_after(self.after, self.anchor)?;
        self.after = slot;
        Some(slot)
    }
}
