//! Settings of the user interface.

use agentd_base::{Problems, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::language::Language;
use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Format of dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum DateFormat {
    #[default]
    #[serde(rename = "YYYY-MM-DD")]
    YearMonthDay,
    #[serde(rename = "DD.MM.YYYY")]
    DayMonthYearDots,
    #[serde(rename = "DD/MM/YYYY")]
    DayMonthYear,
    #[serde(rename = "MM/DD/YYYY")]
    MonthDayYear,
}

impl DateFormat {
    /// Formats the date of `at` in `zone`.
    #[must_use]
    pub fn day(self, at: Timestamp, zone: &jiff::tz::TimeZone) -> String {
        let format = match self {
            Self::YearMonthDay => "%Y-%m-%d",
            Self::DayMonthYearDots => "%d.%m.%Y",
            Self::DayMonthYear => "%d/%m/%Y",
            Self::MonthDayYear => "%m/%d/%Y",
        };
        at.to_jiff().to_zoned(zone.clone()).strftime(format).to_string()
    }
}

/// Language, date format, and display options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct InterfaceSettings {
    /// Language tag such as `en`, `de` or `pt-BR`, in which agents answer. Schedule descriptions are available in
    /// English and German; other languages use English. Default: `en`.
    #[schema(min_length = 2, max_length = 35)]
    pub language: String,
    /// Format of dates. Default: `YYYY-MM-DD`.
    pub date_format: DateFormat,
    /// Whether the token usage of a reply is shown. Default: true.
    pub show_token_usage: bool,
    /// Id or `svc_name` of the agent for requests that name none. Default: none.
    #[schema(min_length = 1, max_length = 64)]
    pub default_agent: Option<String>,
}

section_patch!(
    /// Fields of the interface settings to change; omitted fields are unchanged.
    InterfacePatch, InterfaceSettings
);

impl Default for InterfaceSettings {
    fn default() -> Self {
        Self {
            language: "en".to_owned(),
            date_format: DateFormat::default(),
            show_token_usage: true,
            default_agent: None,
        }
    }
}

impl Section for InterfaceSettings {
    const NAME: &'static str = "interface";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = InterfacePatch;

    fn normalize(&mut self) {
        if let Ok(language) = Language::parse(&self.language) {
            self.language = language.tag().to_owned();
        }
    }

    fn validate(&self, problems: &mut Problems) {
        if let Err(message) = Language::parse(&self.language) {
            problems.add("language", message);
        }
        problems.require(
            self.default_agent.as_deref().is_none_or(is_agent_name),
            "default_agent",
            "must be an agent's id or svc_name: lower-case letters, digits, `-` and `_`, at most 63",
        );
    }
}

/// Whether the text has the format of an agent's `svc_name` or id.
#[must_use]
pub fn is_agent_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    text.len() <= 63
        && text.bytes().all(is_inner)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_follows_time_zone_and_format() {
        let at = Timestamp::parse("2026-03-01T23:30:00Z").unwrap();
        let berlin = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(DateFormat::YearMonthDay.day(at, &jiff::tz::TimeZone::UTC), "2026-03-01");
        assert_eq!(DateFormat::DayMonthYearDots.day(at, &berlin), "02.03.2026");
        assert_eq!(DateFormat::DayMonthYear.day(at, &berlin), "02/03/2026");
        assert_eq!(DateFormat::MonthDayYear.day(at, &berlin), "03/02/2026");
    }
}
