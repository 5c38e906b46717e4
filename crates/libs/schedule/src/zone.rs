//! Time zones by IANA name, from the compiled-in database.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use agentd_base::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Zones by the city in their name, such as `Europe/London`.
static ZONES_BY_CITY: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    const REGIONS: [&str; 6] = ["Africa", "America", "Asia", "Atlantic", "Australia", "Europe"];
    let names = DATABASE.available().map(|name| name.as_str().to_owned());
    let city = |name: String| {
        let (region, city) = name.split_once('/')?;
        (REGIONS.contains(&region) && !city.contains('/')).then(|| (city.to_lowercase(), name.clone()))
    };
    names.filter_map(city).collect()
});

/// Cities without a zone of that name, and names in other languages.
const CITIES: [(&str, &str); 27] = [
    ("nyc", "America/New_York"),
    ("boston", "America/New_York"),
    ("washington", "America/New_York"),
    ("miami", "America/New_York"),
    ("san_francisco", "America/Los_Angeles"),
    ("seattle", "America/Los_Angeles"),
    ("la", "America/Los_Angeles"),
    ("dallas", "America/Chicago"),
    ("houston", "America/Chicago"),
    ("mumbai", "Asia/Kolkata"),
    ("delhi", "Asia/Kolkata"),
    ("bangalore", "Asia/Kolkata"),
    ("beijing", "Asia/Shanghai"),
    ("peking", "Asia/Shanghai"),
    ("tokio", "Asia/Tokyo"),
    ("hongkong", "Asia/Hong_Kong"),
    ("singapur", "Asia/Singapore"),
    ("münchen", "Europe/Berlin"),
    ("munich", "Europe/Berlin"),
    ("hamburg", "Europe/Berlin"),
    ("frankfurt", "Europe/Berlin"),
    ("wien", "Europe/Vienna"),
    ("zürich", "Europe/Zurich"),
    ("rom", "Europe/Rome"),
    ("moskau", "Europe/Moscow"),
    ("lissabon", "Europe/Lisbon"),
    ("brüssel", "Europe/Brussels"),
];

/// Maximum length; no zone name in the database is longer.
const MAX_NAME_LENGTH: usize = 64;

/// Reason why a text is not a time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("must be an IANA time zone such as Europe/Berlin or UTC")]
    Empty,
    #[error("must be an IANA time zone such as Europe/Berlin; `{0}` is an offset without daylight saving time")]
    Offset(String),
    #[error("`{name}` is not an IANA time zone{}", hint(.nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String> },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; use a name such as Europe/Berlin or UTC".to_owned(),
        |name| format!("; did you mean {name}?"),
    )
}

/// Time zone with past and future daylight saving rules. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// Parses an IANA zone name, case-insensitively.
    ///
    /// # Errors
    /// A message with the most similar name, if any.
    pub fn parse(name: &str) -> Result<Self, ZoneError> {
        let name = name.trim();
        if name.is_empty() {
            return Err(ZoneError::Empty);
        }
        if name.eq_ignore_ascii_case("UTC") || name == "Z" {
            return Ok(Self::UTC);
        }
        if name.starts_with(['+', '-']) {
            return Err(ZoneError::Offset(shortened(name)));
        }
        if name.len() <= MAX_NAME_LENGTH
            && let Ok(zone) = DATABASE.get(name)
            && zone.iana_name().is_some()
        {
            return Ok(Self(zone));
        }
        Err(ZoneError::Unknown { name: shortened(name), nearest: nearest_name(name) })
    }

    /// Returns the zone of a city: one with that city in its name, or that of another large city (`new_york`,
    /// `münchen`).
    pub(crate) fn of_city(city: &str) -> Option<Self> {
        let city = city.to_lowercase();
        if let Some((_, zone)) = CITIES.iter().find(|(name, _)| *name == city) {
            return Self::parse(zone).ok();
        }
        let zone = ZONES_BY_CITY.get(&city)?;
        Self::parse(zone).ok()
    }

    /// Returns the name as spelled in the database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the local time at `at`.
    #[must_use]
    pub fn wall(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at.to_jiff())
    }

    /// Returns the instant of a local time. A time within a gap is shifted by the length of the gap, and the first of
    /// two passes counts, according to RFC 5545.
    #[must_use]
    pub fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        self.0.to_ambiguous_timestamp(wall).compatible().ok().map(Timestamp::from)
    }

    /// Like [`Self::instant`], but a time within a gap becomes the first instant after it.
    pub(crate) fn instant_or_end_of_gap(&self, wall: DateTime) -> Option<Timestamp> {
        match self.0.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok().map(Timestamp::from),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok().map(Timestamp::from),
            AmbiguousOffset::Gap { before, after } => {
                let within = before.to_timestamp(wall).ok()?;
                let later = within.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
                self.0
                    .preceding(later)
                    .find(|transition| transition.offset() == after)
                    .map(|transition| Timestamp::from(transition.timestamp()))
            }
        }
    }

    /// Returns the offset at `at` and the time of the next transition.
    pub(crate) fn segment(&self, at: jiff::Timestamp) -> (Offset, Option<jiff::Timestamp>) {
        (self.0.to_offset(at), self.0.following(at).next().map(|transition| transition.timestamp()))
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(MAX_NAME_LENGTH).collect()
}

/// Common abbreviations that are not zone names.
const ABBREVIATIONS: [(&str, &str); 12] = [
    ("pst", "America/Los_Angeles"),
    ("pdt", "America/Los_Angeles"),
    ("pt", "America/Los_Angeles"),
    ("edt", "America/New_York"),
    ("et", "America/New_York"),
    ("cdt", "America/Chicago"),
    ("ct", "America/Chicago"),
    ("bst", "Europe/London"),
    ("cest", "Europe/Berlin"),
    ("mesz", "Europe/Berlin"),
    ("ist", "Asia/Kolkata"),
    ("jst", "Asia/Tokyo"),
];

/// Returns the zone that was probably meant: by abbreviation, by city, or by a name with at most two different letters.
fn nearest_name(name: &str) -> Option<String> {
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    if let Some((_, zone)) = ABBREVIATIONS.iter().find(|(abbreviation, _)| *abbreviation == wanted) {
        return Some((*zone).to_owned());
    }
    if wanted.len() < 3 || wanted.len() > MAX_NAME_LENGTH {
        return None;
    }
    let mut best: Option<(usize, String)> = None;
    for candidate in DATABASE.available() {
        let candidate = candidate.as_str();
        let lower = candidate.to_ascii_lowercase();
        let city = lower.rsplit('/').next().unwrap_or_default();
        let distance = if lower.contains('/') && city == wanted { 0 } else { edit_distance(&wanted, &lower) };
        if distance <= 2 && best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, candidate.to_owned()));
        }
    }
    best.map(|(_, name)| name)
}

/// Returns the Levenshtein distance over bytes; distances greater than two are reported as three.
fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len().abs_diff(right.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(3).min(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn refusal(name: &str) -> String {
        Zone::parse(name).unwrap_err().to_string()
    }

    #[test]
    fn zone_names_are_case_insensitive_and_normalized() {
        assert_eq!(Zone::parse("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::parse(" Australia/Lord_Howe ").unwrap().name(), "Australia/Lord_Howe");
        assert_eq!(Zone::parse("utc").unwrap(), Zone::UTC);
    }

    #[test]
    fn unknown_zone_is_rejected_with_a_suggestion() {
        assert_eq!(refusal("Europe/Berln"), "`Europe/Berln` is not an IANA time zone; did you mean Europe/Berlin?");
        assert_eq!(refusal("berlin"), "`berlin` is not an IANA time zone; did you mean Europe/Berlin?");
        assert_eq!(refusal("PST"), "`PST` is not an IANA time zone; did you mean America/Los_Angeles?");
        assert!(refusal("Mars/Olympus_Mons").ends_with("use a name such as Europe/Berlin or UTC"));
        assert!(refusal("+02:00").contains("without daylight saving time"));
        assert!(refusal("").contains("must be an IANA time zone"));
        assert!(refusal(&"x".repeat(10_000)).len() < 200);
    }

    #[test]
    fn time_in_a_gap_is_shifted_or_clamped_to_its_end() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let wall = jiff::civil::date(2026, 3, 29).at(2, 30, 0, 0);
        assert_eq!(berlin.instant(wall), Some(at("2026-03-29T01:30:00Z")));
        assert_eq!(berlin.instant_or_end_of_gap(wall), Some(at("2026-03-29T01:00:00Z")));
        let twice = jiff::civil::date(2026, 10, 25).at(2, 30, 0, 0);
        assert_eq!(berlin.instant(twice), Some(at("2026-10-25T00:30:00Z")));
        assert_eq!(berlin.instant_or_end_of_gap(twice), Some(at("2026-10-25T00:30:00Z")));
    }

    #[test]
    fn skipped_day_resolves_to_the_following_one() {
        let apia = Zone::parse("Pacific/Apia").unwrap();
        let never = jiff::civil::date(2011, 12, 30).at(9, 0, 0, 0);
        assert_eq!(apia.instant_or_end_of_gap(never), Some(at("2011-12-30T10:00:00Z")));
        assert_eq!(apia.wall(at("2011-12-30T10:00:00Z")), jiff::civil::date(2011, 12, 31).at(0, 0, 0, 0));
    }
}
