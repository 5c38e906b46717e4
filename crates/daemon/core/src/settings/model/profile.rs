//! Profile of the owner.

use agentd_base::Problems;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::avatar;
use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

const MAX_EMAIL: usize = 254;

/// Color theme of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// Theme of the operating system.
    #[default]
    System,
    Light,
    Dark,
}

/// Profile of the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProfileSettings {
    /// Name of the owner in pages and prompts, at most 100 characters; empty if not set.
    #[schema(max_length = 100)]
    pub display_name: String,
    /// Email address such as `name@example.org`, at most 254 characters; empty if not set.
    #[schema(max_length = 254)]
    pub email: String,
    /// URL of the avatar: set by `POST /api/settings/avatar`, or an external http(s) URL. `null` removes the avatar.
    #[schema(max_length = 2048)]
    pub avatar_url: Option<String>,
    /// IANA time zone such as `Europe/Berlin`, used for days, budgets and schedules. Default: `UTC`.
    #[schema(max_length = 64, min_length = 1)]
    pub timezone: String,
    /// Color theme of pages. Default: `system`.
    pub theme: Theme,
}

section_patch!(
    /// Fields of the profile to change; omitted fields are unchanged.
    ProfilePatch, ProfileSettings
);

impl Default for ProfileSettings {
    fn default() -> Self {
        Self {
            display_name: String::new(),
            email: String::new(),
            avatar_url: None,
            timezone: "UTC".to_owned(),
            theme: Theme::default(),
        }
    }
}

impl Section for ProfileSettings {
    const NAME: &'static str = "profile";
    const RESET: ResetGroup = ResetGroup::Never;
    type Patch = ProfilePatch;

    fn normalize(&mut self) {
        self.display_name = self.display_name.trim().to_owned();
        self.email = self.email.trim().to_owned();
        if let Ok(zone) = jiff::tz::TimeZone::get(self.timezone.trim())
            && let Some(name) = zone.iana_name()
        {
            self.timezone = name.to_owned();
        }
    }

    fn validate(&self, problems: &mut Problems) {
        problems.require(
            !self.display_name.chars().any(char::is_control),
            "display_name",
            "must not contain line breaks or other control characters",
        );
        problems.require(
            self.email.is_empty() || is_email_address(&self.email),
            "email",
            "must be an address such as name@example.org",
        );
        problems.require(
            is_time_zone(&self.timezone),
            "timezone",
            "must be the IANA name of a time zone, such as Europe/Berlin",
        );
        problems.require(
            self.avatar_url.as_deref().is_none_or(avatar::is_valid_url),
            "avatar_url",
            "must be null, the URL that POST /api/settings/avatar returned, or an http(s) URL",
        );
    }
}

/// Whether this is an IANA time zone name. `Etc/Unknown` is not accepted.
pub(super) fn is_time_zone(name: &str) -> bool {
    jiff::tz::TimeZone::get(name).is_ok_and(|zone| zone.iana_name().is_some())
}

/// Whether the address is reachable from other servers: [`is_mailbox`] with a dot in its domain.
#[must_use]
pub fn is_email_address(text: &str) -> bool {
    is_mailbox(text) && text.rsplit_once('@').is_some_and(|(_, domain)| domain.contains('.'))
}

/// Whether the text has the form of an address: a local part, `@`, and a domain, which may be a single name such as
/// `localhost`. Only the mail server can decide the rest.
#[must_use]
pub fn is_mailbox(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"@<>()[],;:\\\"".contains(c);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    text.len() <= MAX_EMAIL
        && (1..=64).contains(&local.len())
        && local.chars().all(is_plain)
        && domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_email_address_rejects_malformed_addresses() {
        for good in ["a@b.co", "first.last+tag@sub.example.org", "jörg@bücher.example"] {
            assert!(is_email_address(good), "{good}");
        }
        for bad in
            ["a", "@b.co", "a@", "a@b", "a b@c.de", "a@b..c", "a@-b.c", "a@b@c.de", "a@b.c\nBcc: x@y.z", "<a@b.c>"]
        {
            assert!(!is_email_address(bad), "{bad}");
        }
    }

    #[test]
    fn mailbox_domain_may_be_a_single_name() {
        assert!(is_mailbox("you@localhost") && !is_email_address("you@localhost"));
        for bad in ["@localhost", "you@", "you@a..b", "you", "a b@localhost", "you@localhost."] {
            assert!(!is_mailbox(bad), "{bad}");
        }
    }

    #[test]
    fn is_time_zone_accepts_only_iana_names() {
        for good in ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"] {
            assert!(is_time_zone(good), "{good}");
        }
        for bad in ["", "Mars/Olympus", "../etc/passwd", "+02:00", "Europe/", "Etc/Unknown"] {
            assert!(!is_time_zone(bad), "{bad}");
        }
    }
}
