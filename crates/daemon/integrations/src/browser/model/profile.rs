//! Changes to the browser profile.

use std::collections::BTreeMap;

use agentd_base::{Patch, Problems};
use agentd_browser::{ColorScheme, Geolocation, Profile};

/// Changes to a profile; omitted fields keep their values.
#[derive(Debug, Clone)]
pub struct ProfileChange {
    pub user_agent: Patch<String>,
    pub locale: Patch<String>,
    pub timezone: Patch<String>,
    pub geolocation: Patch<Geolocation>,
    pub color_scheme: Patch<ColorScheme>,
    /// Replaces all headers; one without a value keeps its current value.
    pub extra_headers: Patch<BTreeMap<String, Option<String>>>,
}

impl ProfileChange {
    /// Returns the changed profile and reports invalid fields.
    pub fn apply(self, profile: &Profile, problems: &mut Problems) -> Profile {
        let mut changed = profile.clone();
        self.user_agent.apply(&mut changed.user_agent);
        self.locale.apply(&mut changed.locale);
        self.timezone.apply(&mut changed.timezone);
        self.geolocation.apply(&mut changed.geolocation);
        self.color_scheme.apply(&mut changed.color_scheme);
        match self.extra_headers {
            Patch::Keep => {}
            Patch::Clear => changed.extra_headers.clear(),
            Patch::Set(headers) => {
                let kept = |name: &String| profile.extra_headers.get(name).cloned();
                let header = |(name, value): (String, Option<String>)| {
                    let value = value.or_else(|| kept(&name))?;
                    Some((name, value))
                };
                changed.extra_headers = headers.into_iter().filter_map(header).collect();
            }
        }
        if let Err(found) = changed.check() {
            found.into_iter().for_each(|(field, problem)| problems.add(field, problem));
        }
        if let Some(zone) = &changed.timezone {
            let is_known = zone.len() <= 100 && jiff::tz::TimeZone::get(zone).is_ok();
            problems.require(is_known, "timezone", "must be an IANA time zone such as `Europe/Zurich`");
        }
        changed
    }
}
