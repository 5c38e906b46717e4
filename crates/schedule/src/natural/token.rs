//! The words that matter when somebody speaks of time, in English and German.

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// A part of the day, which turns "at 8" into a morning's or an evening's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Morning,
    Noon,
    Afternoon,
    Evening,
    Night,
}

impl Part {
    /// The hour that is meant when none is named.
    pub(super) const fn hour(self) -> u8 {
        match self {
            Self::Morning => 9,
            Self::Noon => 12,
            Self::Afternoon => 15,
            Self::Evening => 18,
            Self::Night => 21,
        }
    }
}

/// What a word can be. Words that can be two things have a kind of their own; the grammar decides by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Every,
    Other,
    Number(u32),
    Ordinal(u32),
    /// "second": a unit and an ordinal.
    SecondWord,
    Unit(Unit),
    /// 0 is Sunday. `repeats` for "Mondays", "montags".
    Weekday {
        day: u8,
        repeats: bool,
        short: bool,
    },
    Workday {
        repeats: bool,
    },
    Weekend {
        repeats: bool,
    },
    Month(u8),
    Part {
        part: Part,
        repeats: bool,
    },
    /// "morgen": tomorrow, or morning.
    MorgenWord,
    Midnight,
    /// "am": before noon, or the German "on the".
    Am,
    Pm,
    /// Hour and minute with a colon.
    Clock(u8, u8),
    /// Hour and minute with a dot, which may be something else.
    Dotted(u8, u8),
    /// ":15"
    MinutePast(u8),
    Date {
        year: Option<i16>,
        month: u8,
        day: u8,
    },
    Half,
    /// "halb", which is half an hour before.
    HalfTo,
    Quarter,
    OneAndAHalf,
    Past,
    To,
    /// "vor", and "before".
    Before,
    Until,
    Through,
    At,
    By,
    On,
    In,
    From,
    Between,
    And,
    Of,
    The,
    A,
    Per,
    Comma,
    Last,
    Next,
    This,
    Today,
    Tomorrow,
    DayAfter,
    Overmorrow,
    Tonight,
    Now,
    /// "once", "twice", "dreimal".
    Count(u32),
    /// "times"
    Times,
    Adverb(u32, Unit),
    Except,
    /// "starting", "until further notice", "when": what no schedule holds.
    Limit,
    For,
    OClock,
    End,
    Beginning,
    /// Says nothing about time and nothing against it.
    Filler,
    Unknown,
}

pub(super) fn kind_of(word: &str) -> Kind {
    structure(word)
        .or_else(|| calendar(word))
        .or_else(|| number(word).map(Kind::Number))
        .or_else(|| ordinal(word).map(Kind::Ordinal))
        .unwrap_or(Kind::Unknown)
}

fn structure(word: &str) -> Option<Kind> {
    use Kind::{
        A, Adverb, Am, And, At, Before, Beginning, Between, By, Comma, Count, DayAfter, End, Every, Except, Filler,
        For, From, Half, HalfTo, In, Last, Limit, MorgenWord, Next, Now, OClock, Of, On, OneAndAHalf, Other,
        Overmorrow, Past, Per, Pm, Quarter, SecondWord, The, This, Through, Times, To, Today, Tomorrow, Tonight, Until,
    };
    Some(match word {
        "every" | "each" | "jeden" | "jede" | "jedes" | "jedem" | "jeder" | "alle" | "aller" => Every,
        "other" | "alternate" => Other,
        "second" => SecondWord,
        "am" | "a.m" => Am,
        "pm" | "p.m" => Pm,
        "half" | "halbe" | "halben" | "halbes" => Half,
        "halb" => HalfTo,
        "quarter" | "viertel" => Quarter,
        "anderthalb" | "eineinhalb" => OneAndAHalf,
        "past" | "after" | "nach" => Past,
        "to" => To,
        "before" | "vor" => Before,
        "until" | "till" | "til" | "bis" => Until,
        "through" | "thru" | "-" => Through,
        "at" | "um" | "@" | "around" | "gegen" => At,
        "by" => By,
        "on" => On,
        "in" | "im" | "within" => In,
        "from" | "von" => From,
        "between" | "zwischen" => Between,
        "and" | "und" | "&" | "/" | "or" | "oder" | "sowie" => And,
        "of" | "des" => Of,
        "the" | "der" | "die" | "das" | "den" | "dem" => The,
        "a" | "an" | "ein" | "eine" | "einer" | "einem" | "einen" => A,
        "per" | "pro" => Per,
        "," | ";" => Comma,
        "last" | "letzten" | "letzter" | "letzte" | "letztem" => Last,
        "next" | "coming" | "nächsten" | "nächste" | "nächster" | "nächstes" | "kommenden" | "kommende" => Next,
        "this" | "diesen" | "diese" | "dieser" => This,
        "today" | "heute" => Today,
        "tomorrow" | "tmrw" | "tomorrow's" => Tomorrow,
        "morgen" => MorgenWord,
        "after-tomorrow" => DayAfter,
        "übermorgen" => Overmorrow,
        "tonight" => Tonight,
        "now" | "jetzt" => Now,
        "once" | "einmal" => Count(1),
        "twice" | "zweimal" => Count(2),
        "thrice" | "dreimal" => Count(3),
        "viermal" => Count(4),
        "times" | "mal" | "x" => Times,
        "minutely" | "minütlich" => Adverb(1, Unit::Minute),
        "hourly" | "stündlich" => Adverb(1, Unit::Hour),
        "daily" | "täglich" => Adverb(1, Unit::Day),
        "weekly" | "wöchentlich" => Adverb(1, Unit::Week),
        "fortnightly" | "biweekly" | "vierzehntägig" | "zweiwöchentlich" => Adverb(2, Unit::Week),
        "monthly" | "monatlich" => Adverb(1, Unit::Month),
        "quarterly" | "vierteljährlich" | "quartalsweise" => Adverb(3, Unit::Month),
        "halbjährlich" => Adverb(6, Unit::Month),
        "yearly" | "annually" | "jährlich" | "alljährlich" => Adverb(1, Unit::Year),
        "except" | "excluding" | "außer" | "ausser" | "but" => Except,
        "starting" | "ab" | "unless" | "when" | "whenever" | "while" | "during" | "wenn" | "falls" | "sobald"
        | "während" | "solange" => Limit,
        // Another zone than the owner's.
        "utc" | "gmt" | "est" | "edt" | "pst" | "pdt" | "cst" | "cdt" | "cet" | "cest" | "bst" | "ist" | "jst"
        | "mez" | "mesz" | "timezone" | "zeitzone" => Limit,
        "for" | "für" => For,
        "o'clock" | "oclock" | "uhr" | "hrs" => OClock,
        "end" | "ende" | "monatsende" => End,
        "start" | "beginning" | "anfang" | "monatsanfang" => Beginning,
        "please" | "bitte" | "can" | "could" | "would" | "you" | "me" | "my" | "i" | "i'd" | "like" | "want"
        | "remind" | "wake" | "up" | "run" | "send" | "do" | "schedule" | "set" | "it" | "this's" | "kannst"
        | "könntest" | "du" | "mir" | "mich" | "erinnere" | "weck" | "wecke" | "schick" | "schicke" | "sende"
        | "mal's" | "ich" | "möchte" | "hätte" | "gern" | "gerne" | "then" | "sharp" | "exactly" | "genau"
        | "pünktlich" | "immer" | "always" | "just" | "minutes'" | "single" | "an'" | "auch" | "hey" | "zu"
        | "also" | "repeat" | "reminder" | "jeweils" | "time" => Filler,
        _ => return None,
    })
}

fn calendar(word: &str) -> Option<Kind> {
    let part = |part, repeats| Kind::Part { part, repeats };
    let unit = match word {
        "seconds" | "sec" | "secs" | "sekunde" | "sekunden" => Some(Unit::Second),
        "minute" | "minutes" | "min" | "mins" | "minuten" => Some(Unit::Minute),
        "hour" | "hours" | "hr" | "stunde" | "stunden" => Some(Unit::Hour),
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
        "weekdays" | "workdays" | "werktags" | "werktagen" | "wochentagen" | "arbeitstagen" | "wochentags" => {
            Kind::Workday { repeats: true }
        }
        "weekend" | "wochenende" => Kind::Weekend { repeats: false },
        "weekends" | "wochenenden" => Kind::Weekend { repeats: true },
        "morning" | "vormittag" | "früh" => part(Part::Morning, false),
        "mornings" | "morgens" | "vormittags" => part(Part::Morning, true),
        "noon" | "midday" | "mittag" | "lunchtime" | "lunch" => part(Part::Noon, false),
        "mittags" => part(Part::Noon, true),
        "afternoon" | "nachmittag" => part(Part::Afternoon, false),
        "afternoons" | "nachmittags" => part(Part::Afternoon, true),
        "evening" | "abend" => part(Part::Evening, false),
        "evenings" | "abends" => part(Part::Evening, true),
        "night" | "nacht" => part(Part::Night, false),
        "nights" | "nightly" | "nachts" => part(Part::Night, true),
        "midnight" | "mitternacht" => Kind::Midnight,
        _ => return weekday(word).or_else(|| month(word).map(Kind::Month)),
    };
    Some(found)
}

const WEEKDAYS: [(&str, &str, &str); 7] = [
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

/// "freitagabend" and "montagmorgens": a weekday and a part of the day in one word.
pub(super) fn split_compound(word: &str) -> Option<(&str, &str)> {
    let (german, _) =
        WEEKDAYS.iter().find_map(|(_, german, _)| word.strip_prefix(german).map(|rest| (german, rest)))?;
    let rest = &word[german.len()..];
    let known = rest == "morgen" || matches!(kind_of(rest), Kind::Part { .. });
    (rest != "s" && known).then_some((&word[..german.len()], rest))
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

fn number(word: &str) -> Option<u32> {
    const WORDS: [(&str, &str); 21] = [
        ("zero", "null"),
        ("one", "eins"),
        ("two", "zwei"),
        ("three", "drei"),
        ("four", "vier"),
        ("five", "fünf"),
        ("six", "sechs"),
        ("seven", "sieben"),
        ("eight", "acht"),
        ("nine", "neun"),
        ("ten", "zehn"),
        ("eleven", "elf"),
        ("twelve", "zwölf"),
        ("thirteen", "dreizehn"),
        ("fourteen", "vierzehn"),
        ("fifteen", "fünfzehn"),
        ("sixteen", "sechzehn"),
        ("seventeen", "siebzehn"),
        ("eighteen", "achtzehn"),
        ("nineteen", "neunzehn"),
        ("twenty", "zwanzig"),
    ];
    if !word.is_empty() && word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    if let Some(place) = WORDS.iter().position(|(english, german)| word == *english || word == *german) {
        return u32::try_from(place).ok();
    }
    Some(match word {
        "thirty" | "dreißig" | "dreissig" => 30,
        "forty" | "vierzig" => 40,
        "fifty" | "fünfzig" => 50,
        "sixty" | "sechzig" => 60,
        "ninety" | "neunzig" => 90,
        "fünfundvierzig" => 45,
        "fünfundzwanzig" => 25,
        "couple" => 2,
        _ => return None,
    })
}

fn ordinal(word: &str) -> Option<u32> {
    const WORDS: [(&str, &str); 12] = [
        ("first", "erste"),
        ("2nd", "zweite"),
        ("third", "dritte"),
        ("fourth", "vierte"),
        ("fifth", "fünfte"),
        ("sixth", "sechste"),
        ("seventh", "siebte"),
        ("eighth", "achte"),
        ("ninth", "neunte"),
        ("tenth", "zehnte"),
        ("eleventh", "elfte"),
        ("twelfth", "zwölfte"),
    ];
    for suffix in ["st", "nd", "rd", "th"] {
        if let Some(digits) = word.strip_suffix(suffix)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            return digits.parse().ok().filter(|number| *number < 1000);
        }
    }
    let german = word.strip_suffix(['n', 'r', 's', 'm']).unwrap_or(word);
    if let Some(place) = WORDS.iter().position(|(english, stem)| word == *english || german == *stem) {
        return u32::try_from(place + 1).ok();
    }
    Some(match german {
        "fifteenth" | "fünfzehnte" => 15,
        "twentieth" | "zwanzigste" => 20,
        "thirtieth" | "dreißigste" => 30,
        _ => return None,
    })
}
