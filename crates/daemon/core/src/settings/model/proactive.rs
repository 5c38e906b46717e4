//! Settings of proactive turns and push notifications.

use agentd_base::{Problems, Timestamp};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::profile::{is_email_address, is_time_zone};
use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Chat platforms that messages can be sent through.
pub const CHANNEL_PLATFORMS: [&str; 6] = ["discord", "slack", "telegram", "whatsapp", "teams", "google_chat"];

const MAX_CHANNEL: usize = 200;

/// Daily period without proactive turns, in which devices show alerts silently unless they are critical. May extend
/// past midnight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QuietHours {
    /// Start of the quiet hours (`HH:MM`), inclusive. Default: `22:00`.
    #[schema(min_length = 5, max_length = 5)]
    pub start: String,
    /// End of the quiet hours (`HH:MM`), exclusive. If equal to `start`, there are no quiet hours. Default: `08:00`.
    #[schema(min_length = 5, max_length = 5)]
    pub end: String,
    /// IANA time zone. `null` uses the profile's time zone.
    #[schema(min_length = 1, max_length = 64)]
    pub timezone: Option<String>,
}

impl Default for QuietHours {
    fn default() -> Self {
        Self { start: "22:00".to_owned(), end: "08:00".to_owned(), timezone: None }
    }
}

impl QuietHours {
    /// Whether `at` is within the quiet hours. `profile_zone` is used if no time zone is set.
    #[must_use]
    pub fn contains(&self, at: Timestamp, profile_zone: &TimeZone) -> bool {
        let (Some(start), Some(end)) = (time_of_day(&self.start), time_of_day(&self.end)) else { return false };
        let own = self.timezone.as_deref().and_then(|name| TimeZone::get(name).ok());
        let now = at.to_jiff().to_zoned(own.unwrap_or_else(|| profile_zone.clone())).time();
        if start <= end { (start..end).contains(&now) } else { now >= start || now < end }
    }
}

/// Proactive turns and push notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProactiveSettings {
    /// Whether agents may start turns on their own, from suggestions and failed runs. Default: false.
    pub enabled: bool,
    /// Daily period without proactive turns. Default: 22:00 to 08:00 in the time zone of the profile.
    #[schema(inline)]
    pub quiet_hours: QuietHours,
    /// Maximum number of proactive turns per agent and day in the time zone of the profile, 0 to 100. Default: 3.
    #[schema(maximum = 100)]
    pub max_per_day: u32,
    /// Delivery target of proactive turns: `<platform>:<channel>` (discord, slack, telegram, whatsapp, teams,
    /// google_chat), `email:<address>`, or `push:` for all devices with push notifications. `null`: not delivered, only
    /// listed by `GET /api/scheduler/proactive`.
    #[schema(min_length = 3, max_length = 300)]
    pub delivery: Option<String>,
    /// Whether approval requests send push notifications. Default: true.
    pub push_approvals: bool,
    /// Whether firing alerts send push notifications. Default: true.
    pub push_alerts: bool,
}

section_patch!(
    /// Fields of the proactive settings to change; omitted fields are unchanged.
    ProactivePatch, ProactiveSettings
);

impl Default for ProactiveSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            quiet_hours: QuietHours::default(),
            max_per_day: 3,
            delivery: None,
            push_approvals: true,
            push_alerts: true,
        }
    }
}

impl ProactiveSettings {
    /// Whether `at` is within the quiet hours.
    #[must_use]
    pub fn is_quiet(&self, at: Timestamp, profile_zone: &TimeZone) -> bool {
        self.quiet_hours.contains(at, profile_zone)
    }
}

impl Section for ProactiveSettings {
    const NAME: &'static str = "proactive";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = ProactivePatch;

    fn normalize(&mut self) {
        let zone = self.quiet_hours.timezone.as_deref().and_then(|name| TimeZone::get(name.trim()).ok());
        if let Some(name) = zone.as_ref().and_then(TimeZone::iana_name) {
            self.quiet_hours.timezone = Some(name.to_owned());
        }
    }

    fn validate(&self, problems: &mut Problems) {
        for (field, time) in
            [("quiet_hours.start", &self.quiet_hours.start), ("quiet_hours.end", &self.quiet_hours.end)]
        {
            problems.require(time_of_day(time).is_some(), field, "must be a time of day such as 22:00");
        }
        problems.require(
            self.quiet_hours.timezone.as_deref().is_none_or(is_time_zone),
            "quiet_hours.timezone",
            "must be null, or the IANA name of a time zone, such as Europe/Berlin",
        );
        if let Some(problem) = self.delivery.as_deref().and_then(delivery_problem) {
            problems.add("delivery", problem);
        }
    }
}

/// Parses `HH:MM` with two digits each.
fn time_of_day(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |part: &str| {
        let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| part.parse::<i8>().ok()).flatten()
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

fn delivery_problem(text: &str) -> Option<String> {
    let form = || {
        let platforms = CHANNEL_PLATFORMS.join(", ");
        format!("must be null, email:<address>, push:, or <platform>:<channel> with one of {platforms}")
    };
    match text.split_once(':') {
        Some(("push", "")) => None,
        Some(("push", _)) => Some("must be `push:` without a target; it notifies all devices".to_owned()),
        Some(("email", address)) if is_email_address(address) => None,
        Some(("email", _)) => Some("must have an address such as name@example.org after `email:`".to_owned()),
        Some((platform, channel)) if CHANNEL_PLATFORMS.contains(&platform) => {
            let is_channel = (1..=MAX_CHANNEL).contains(&channel.len())
                && !channel.chars().any(|c| c.is_whitespace() || c.is_control());
            (!is_channel).then(|| format!("must have a {platform} channel without spaces after the colon"))
        }
        _ => Some(form()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(start: &str, end: &str, zone: Option<&str>) -> QuietHours {
        QuietHours { start: start.to_owned(), end: end.to_owned(), timezone: zone.map(str::to_owned) }
    }

    #[test]
    fn quiet_hours_extend_past_midnight_and_follow_their_time_zone() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let night = quiet("22:00", "08:00", None);
        for (time, is_quiet) in [
            ("2026-01-05T21:59:59Z", false),
            ("2026-01-05T22:00:00Z", true),
            ("2026-01-06T07:59:59Z", true),
            ("2026-01-06T08:00:00Z", false),
        ] {
            assert_eq!(night.contains(at(time), &TimeZone::UTC), is_quiet, "{time}");
        }
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert!(night.contains(at("2026-01-05T21:00:00Z"), &berlin), "22:00 local time");
        assert!(!quiet("22:00", "08:00", Some("UTC")).contains(at("2026-01-05T21:00:00Z"), &berlin));
        let noon = quiet("12:00", "13:00", None);
        assert!(noon.contains(at("2026-01-05T12:30:00Z"), &TimeZone::UTC));
        assert!(!noon.contains(at("2026-01-05T13:00:00Z"), &TimeZone::UTC));
        assert!(!quiet("12:00", "12:00", None).contains(at("2026-01-05T12:00:00Z"), &TimeZone::UTC));
    }

    #[test]
    fn time_of_day_requires_two_digits_each() {
        for good in ["00:00", "23:59", "08:05"] {
            assert!(time_of_day(good).is_some(), "{good}");
        }
        for bad in ["", "8:00", "24:00", "12:60", "12:5", "-1:00", "+1:00", "12:00:00", "noon!"] {
            assert!(time_of_day(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn delivery_must_name_platform_and_channel() {
        for good in ["email:a@b.co", "push:", "slack:#general", "telegram:-100123", "teams:19:abc@thread.v2"] {
            assert_eq!(delivery_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "slack",
            "slack:",
            "slak:#x",
            "email:nobody",
            "webhook:https://x",
            "slack:a b",
            ":x",
            "SLACK:x",
            "push:x",
        ] {
            assert!(delivery_problem(bad).is_some(), "{bad}");
        }
    }
}
