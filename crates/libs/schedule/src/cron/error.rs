//! Errors of cron expressions.

use std::fmt;

/// Field of a cron expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronField {
    Minute,
    Hour,
    DayOfMonth,
    Month,
    Weekday,
}

impl CronField {
    /// Returns the smallest and the greatest number of the field. Sunday is 0 and 7.
    #[must_use]
    pub const fn range(self) -> (u8, u8) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 7),
        }
    }

    /// Describes the allowed values, as the end of a sentence.
    pub(crate) const fn allowed(self) -> &'static str {
        match self {
            Self::Minute => "allowed are 0-59, `*`, lists, ranges and steps such as `*/15`",
            Self::Hour => "allowed are 0-23, `*`, lists, ranges and steps such as `9-17/2`",
            Self::DayOfMonth => "allowed are 1-31, `L` for the last day, `*`, lists, ranges and steps",
            Self::Month => "allowed are 1-12, JAN-DEC, `*`, lists, ranges and steps",
            Self::Weekday => {
                "allowed are 0-7 (0 and 7 are Sunday), SUN-SAT, `5L` for the last Friday, `1#2` for the second \
                 Monday, `*`, lists, ranges and steps"
            }
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::Weekday => "weekday",
        })
    }
}

/// Invalid field and reason. Without a field the whole expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", .field.map_or_else(String::new, |field| format!("{field}: ")))]
pub struct CronError {
    pub field: Option<CronField>,
    pub reason: String,
}

impl CronError {
    pub(crate) fn whole(reason: impl Into<String>) -> Self {
        Self { field: None, reason: reason.into() }
    }

    pub(crate) fn of(field: CronField, reason: impl Into<String>) -> Self {
        Self { field: Some(field), reason: reason.into() }
    }
}
