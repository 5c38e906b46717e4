//! User profile: user agent, language, time zone, location and extra headers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::user_agent::user_agent_problem;
use crate::network::header_problem;

/// Headers set by the connection or by the page's own request.
const BROWSER_HEADERS: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "origin",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// User profile. Fields that are not set keep the browser's default.
#[derive(Clone, PartialEq, Default)]
pub struct Profile {
    /// Overrides the user agent of the device.
    pub user_agent: Option<String>,
    /// Language tag with optional region, for example `de-CH`.
    pub locale: Option<String>,
    /// IANA name, for example `Europe/Zurich`; the caller checks that the zone exists.
    pub timezone: Option<String>,
    pub geolocation: Option<Geolocation>,
    pub color_scheme: Option<ColorScheme>,
    /// Headers sent with every request, to any server.
    pub extra_headers: BTreeMap<String, String>,
}

/// Location reported to pages, without a permission prompt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Geolocation {
    pub latitude: f64,
    pub longitude: f64,
    /// Accuracy in metres.
    pub accuracy: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColorScheme {
    Light,
    Dark,
}

/// Omits headers, which can contain credentials.
impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("locale", &self.locale).finish_non_exhaustive()
    }
}

impl Profile {
    /// Validates the profile.
    ///
    /// # Errors
    /// Problems, each with the name of the field.
    pub fn check(&self) -> Result<(), Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        let mut add = |field, problem: Option<String>| problems.extend(problem.map(|problem| (field, problem)));
        add("user_agent", self.user_agent.as_deref().and_then(user_agent_problem));
        let is_locale = self.locale.as_deref().is_none_or(is_locale);
        add("locale", (!is_locale).then(|| "must be a language tag such as `de` or `de-CH`".to_owned()));
        if let Some(position) = self.geolocation {
            let is_valid_position = position.latitude.abs() <= 90.0 && position.longitude.abs() <= 180.0;
            let problem = "must have a latitude between -90 and 90 and a longitude between -180 and 180";
            add("geolocation", (!is_valid_position).then(|| problem.to_owned()));
            let is_valid_accuracy = (0.0..=1e6).contains(&position.accuracy);
            add(
                "geolocation",
                (!is_valid_accuracy).then(|| "must have an accuracy between 0 and 1,000,000 meters".to_owned()),
            );
        }
        add("extra_headers", header_problem(&self.extra_headers).or_else(|| self.reserved_header_problem()));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn reserved_header_problem(&self) -> Option<String> {
        self.extra_headers.keys().find_map(|name| {
            let lower = name.to_ascii_lowercase();
            match lower.as_str() {
                "user-agent" => Some("must not contain `User-Agent`; use the field `user_agent`".to_owned()),
                "accept-language" => Some("must not contain `Accept-Language`; use the field `locale`".to_owned()),
                other
                    if BROWSER_HEADERS.contains(&other)
                        || ["proxy-", "sec-"].iter().any(|start| other.starts_with(start)) =>
                {
                    Some(format!("must not contain `{name}`, which the browser sets"))
                }
                _ => None,
            }
        })
    }

    /// Returns the value of `Accept-Language`: the locale, then its language alone.
    pub(super) fn languages(&self) -> Option<String> {
        let locale = self.locale.as_deref()?;
        Some(match locale.split_once('-') {
            Some((language, _)) => format!("{locale},{language}"),
            None => locale.to_owned(),
        })
    }
}

fn is_locale(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let is_language = parts
        .next()
        .is_some_and(|language| (2..=3).contains(&language.len()) && language.chars().all(|c| c.is_ascii_lowercase()));
    let are_subtags =
        parts.all(|part| (2..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric()));
    is_language && are_subtags && tag.len() <= 35
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_reports_all_problems() {
        let profile = Profile {
            user_agent: Some("a\nb".to_owned()),
            locale: Some("german".to_owned()),
            geolocation: Some(Geolocation { latitude: f64::NAN, longitude: 0.0, accuracy: -1.0 }),
            extra_headers: BTreeMap::from([("Host".to_owned(), "x".to_owned())]),
            ..Profile::default()
        };
        let problems = profile.check().unwrap_err();
        let fields: Vec<_> = problems.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["user_agent", "locale", "geolocation", "geolocation", "extra_headers"]);
        assert!(Profile::default().check().is_ok());
    }

    #[test]
    fn locale_must_be_a_language_tag() {
        for tag in ["de", "de-CH", "zh-Hant-TW", "es-419", "fil"] {
            assert!(is_locale(tag), "{tag}");
        }
        for tag in ["", "d", "de_CH", "de-", "DE", "de-CH\r\nX: y", "german"] {
            assert!(!is_locale(tag), "{tag}");
        }
    }
}
