//! Units, parts of the day, weekdays and months.

use super::kind::{Kind, Part, Unit};

pub(super) fn calendar(word: &str) -> Option<Kind> {
    let part = |part, repeats| Kind::Part { part, repeats };
    let unit = match word {
        "seconds" | "sec" | "secs" | "sekunde" | "sekunden" => Some(Unit::Second),
        "minute" | "minutes" | "minutes'" | "min" | "mins" | "minuten" => Some(Unit::Minute),
        "hour" | "hours" | "hr" | "hrs" | "std" | "stunde" | "stunden" => Some(Unit::Hour),
        "day" | "days" | "tag" | "tage" | "tagen" | "tages" => Some(Unit::Day),
        "week" | "weeks" | "woche" | "wochen" => Some(Unit::Week),
        "fortnight" => return Some(Kind::Adverb(2, Unit::Week)),
        "month" | "months" | "monat" | "monate" | "monaten" | "monats" => Some(Unit::Month),
        "quarters" | "quartal" | "quartals" => Some(Unit::Quarter),
        "year" | "years" | "jahr" | "jahre" | "jahren" | "jahres" => Some(Unit::Year),
        _ => None,
    };
    if let Some(unit) = unit {
        return Some(Kind::Unit(unit));
    }
    let found = match word {
        "weekday" | "workday" | "werktag" | "arbeitstag" => Kind::Workday { repeats: false },
        "weekdays" | "workdays" | "werktags" | "werktage" | "werktagen" | "wochentagen" | "arbeitstagen"
        | "arbeitstags" | "wochentags" => Kind::Workday { repeats: true },
        "weekend" | "wochenende" => Kind::Weekend { repeats: false },
        "weekends" | "wochenenden" => Kind::Weekend { repeats: true },
        "morning" | "vormittag" | "früh" | "morn" => part(Part::Morning, false),
        "mornings" | "morgens" | "vormittags" | "frühmorgens" => part(Part::Morning, true),
        "noon" | "midday" | "mittag" | "lunchtime" | "lunch" => part(Part::Noon, false),
        "mittags" => part(Part::Noon, true),
        "afternoon" | "nachmittag" => part(Part::Afternoon, false),
        "afternoons" | "nachmittags" => part(Part::Afternoon, true),
        "evening" | "abend" | "eod" | "cob" => part(Part::Evening, false),
        "evenings" | "abends" => part(Part::Evening, true),
        "night" | "nacht" => part(Part::Night, false),
        "nights" | "nightly" | "nachts" => part(Part::Night, true),
        "midnight" | "mitternacht" => Kind::Midnight,
        _ => return weekday(word).or_else(|| month(word).map(Kind::Month)),
    };
    Some(found)
}

/// English and German names, and the abbreviation.
pub(super) const WEEKDAYS: [(&str, &str, &str); 7] = [
    ("sunday", "sonntag", "sun"),
    ("monday", "montag", "mon"),
    ("tuesday", "dienstag", "tue"),
    ("wednesday", "mittwoch", "wed"),
    ("thursday", "donnerstag", "thu"),
    ("friday", "freitag", "fri"),
    ("saturday", "samstag", "sat"),
];

fn weekday(word: &str) -> Option<Kind> {
    let of = |day: usize, repeats, short| Some(Kind::Weekday { day: u8::try_from(day).unwrap_or(0), repeats, short });
    for (day, (english, german, short)) in WEEKDAYS.iter().enumerate() {
        if word == *english || word == *german {
            return of(day, false, false);
        }
        if let Some("s") = word.strip_prefix(english).or_else(|| word.strip_prefix(german)) {
            return of(day, true, false);
        }
        if word == *short {
            return of(day, false, true);
        }
    }
    match word {
        "tues" => of(2, false, true),
        "weds" => of(3, false, true),
        "thur" | "thurs" => of(4, false, true),
        "sonnabend" => of(6, false, false),
        "sonnabends" => of(6, true, false),
        _ => None,
    }
}

fn month(word: &str) -> Option<u8> {
    Some(match word {
        "january" | "jan" | "januar" | "jänner" => 1,
        "february" | "feb" | "februar" => 2,
        "march" | "mar" | "märz" => 3,
        "april" | "apr" => 4,
        "may" | "mai" => 5,
        "june" | "jun" | "juni" => 6,
        "july" | "jul" | "juli" => 7,
        "august" | "aug" => 8,
        "september" | "sep" | "sept" => 9,
        "october" | "oct" | "oktober" | "okt" => 10,
        "november" | "nov" => 11,
        "december" | "dec" | "dezember" | "dez" => 12,
        _ => return None,
    })
}

/// Parses "mo", "di": two letters that are a weekday only in context.
pub(in super::super) fn short_weekday(word: &str) -> Option<Kind> {
    let day = match word {
        "so" => 0,
        "mo" => 1,
        "di" | "tu" => 2,
        "mi" => 3,
        "do" | "th" => 4,
        "fr" => 5,
        "sa" => 6,
        _ => return None,
    };
    Some(Kind::Weekday { day, repeats: false, short: true })
}
