//! Vocabulary of time expressions in English and German.

mod calendar;
mod kind;
mod number;
mod typing;

pub(super) use calendar::short_weekday;
pub(super) use kind::{Kind, Part, Unit};
pub(super) use typing::corrected;

pub(super) fn kind_of(word: &str) -> Kind {
    structure(word)
        .or_else(|| calendar::calendar(word))
        .or_else(|| number::number(word).map(Kind::Number))
        .or_else(|| number::ordinal(word).map(Kind::Ordinal))
        .or_else(|| number::and_a_half(word).map(Kind::Decimal))
        .or_else(|| word.strip_suffix("mal").and_then(number::number).map(Kind::Count))
        .unwrap_or(Kind::Unknown)
}

/// Splits a weekday and a part of the day written as one word, such as "freitagabend" and "montagmorgens".
pub(super) fn split_compound(word: &str) -> Option<(&str, &str)> {
    let (german, _) =
        calendar::WEEKDAYS.iter().find_map(|(_, german, _)| word.strip_prefix(german).map(|rest| (german, rest)))?;
    let rest = &word[german.len()..];
    let known = rest == "morgen" || matches!(kind_of(rest), Kind::Part { .. });
    (rest != "s" && known).then_some((&word[..german.len()], rest))
}

fn structure(word: &str) -> Option<Kind> {
    use Kind::{
        A, Adverb, Always, Am, And, At, Before, Beginning, Between, BeyondWords, By, Comma, Count, DayAfter, End,
        Event, Every, Except, Filler, For, From, Half, HalfTo, In, Last, Limit, MorgenWord, Next, Now, OClock, Of, On,
        OneAndAHalf, Other, Overmorrow, Past, Per, Pm, Quarter, SecondWord, The, This, ThreeQuarterHour, Through,
        Times, To, Today, Tomorrow, Tonight, Until, Vague, ZoneWord,
    };
    Some(match word {
        "every" | "each" | "jeden" | "jede" | "jedes" | "jedem" | "jeder" | "alle" | "aller" => Every,
        "other" | "alternate" | "alternating" | "odd" | "even" | "gerade" | "geraden" | "ungerade" | "ungeraden"
        | "abwechselnd" => Other,
        "second" => SecondWord,
        "am" | "a.m" => Am,
        "pm" | "p.m" => Pm,
        "half" | "halbe" | "halben" | "halbes" => Half,
        "halb" => HalfTo,
        "quarter" | "viertel" => Quarter,
        "anderthalb" | "eineinhalb" => OneAndAHalf,
        "dreiviertelstunde" => ThreeQuarterHour,
        "past" | "after" | "nach" => Past,
        "to" => To,
        "before" | "vor" => Before,
        "until" | "till" | "til" | "bis" => Until,
        "through" | "thru" | "-" => Through,
        "at" | "um" | "zur" | "@" | "around" | "gegen" | "circa" | "ca" => At,
        "by" => By,
        "on" => On,
        "in" | "im" | "within" => In,
        "from" | "von" | "vom" => From,
        "between" | "zwischen" => Between,
        "and" | "und" | "&" | "+" | "/" | "or" | "oder" | "sowie" => And,
        "of" | "des" => Of,
        "the" | "der" | "die" | "das" | "den" | "dem" => The,
        "a" | "an" | "ein" | "eine" | "einer" | "einem" | "einen" | "ner" | "nem" | "nen" => A,
        "per" | "pro" | "je" => Per,
        "," | ";" => Comma,
        "last" | "letzten" | "letzter" | "letzte" | "letztem" | "letztes" => Last,
        "next" | "coming" | "nächsten" | "nächste" | "nächster" | "nächstes" | "nächstem" | "kommenden"
        | "kommende" | "kommender" | "kommendes" => Next,
        "this" | "diesen" | "diese" | "dieser" | "dieses" | "diesem" => This,
        "today" | "heute" | "heut" => Today,
        "tomorrow" | "tmrw" | "tmr" | "2moro" | "tomorrow's" => Tomorrow,
        "morgen" => MorgenWord,
        "after-tomorrow" => DayAfter,
        "übermorgen" => Overmorrow,
        "tonight" => Tonight,
        "now" | "jetzt" => Now,
        "once" | "einmal" | "1x" => Count(1),
        "twice" | "2x" => Count(2),
        "thrice" | "3x" => Count(3),
        "4x" => Count(4),
        "times" | "mal" | "x" => Times,
        "minutely" | "minütlich" => Adverb(1, Unit::Minute),
        "half-hourly" | "halbstündlich" => Adverb(30, Unit::Minute),
        "viertelstündlich" => Adverb(15, Unit::Minute),
        "hourly" | "stündlich" => Adverb(1, Unit::Hour),
        "zweistündlich" => Adverb(2, Unit::Hour),
        "daily" | "täglich" | "tgl" | "everyday" => Adverb(1, Unit::Day),
        "weekly" | "wöchentlich" => Adverb(1, Unit::Week),
        "fortnightly" | "biweekly" | "bi-weekly" | "vierzehntägig" | "zweiwöchentlich" => Adverb(2, Unit::Week),
        "monthly" | "monatlich" => Adverb(1, Unit::Month),
        "quarterly" | "vierteljährlich" | "quartalsweise" => Adverb(3, Unit::Month),
        "halbjährlich" => Adverb(6, Unit::Month),
        "yearly" | "annually" | "jährlich" | "alljährlich" => Adverb(1, Unit::Year),
        "except" | "excluding" | "besides" | "außer" | "ausser" | "but" => Except,
        "starting" | "ab" | "unless" | "when" | "whenever" | "while" | "during" | "wenn" | "falls" | "sobald"
        | "während" | "solange" => Limit,
        "timezone" | "zeitzone" => Limit,
        "utc" | "gmt" | "est" | "edt" | "pst" | "pdt" | "cst" | "cdt" | "cet" | "cest" | "bst" | "ist" | "jst"
        | "mst" | "mdt" | "aest" | "eet" | "et" | "pt" | "mez" | "mesz" | "eastern" | "pacific" | "central"
        | "mountain" => ZoneWord,
        "sunrise" | "sunset" | "dawn" | "dusk" | "bedtime" | "breakfast" | "dinner" | "easter" | "thanksgiving"
        | "holiday" | "holidays" | "payday" | "birthday" | "birthdays" | "sonnenaufgang" | "sonnenuntergang"
        | "dämmerung" | "frühstück" | "mittagessen" | "abendessen" | "feierabend" | "ostern" | "ostersonntag"
        | "ostermontag" | "karfreitag" | "pfingsten" | "feiertag" | "feiertage" | "feiertags" | "feiertagen"
        | "geburtstag" | "ferien" | "spring" | "summer" | "autumn" | "winter" | "frühling" | "frühjahr" | "sommer"
        | "herbst" | "q1" | "q2" | "q3" | "q4" => Event,
        "maybe" | "perhaps" | "sometime" | "sometimes" | "occasionally" | "eventually" | "vielleicht"
        | "irgendwann" | "manchmal" | "gelegentlich" | "eventuell" => Vague,
        "penultimate" | "vorletzten" | "vorletzter" | "vorletzte" | "vorletztem" | "drittletzten" => BeyondWords,
        "immer" | "always" | "jeweils" | "stets" => Always,
        "for" | "für" => For,
        "o'clock" | "oclock" | "o´clock" | "uhr" => OClock,
        "end" | "ende" | "monatsende" => End,
        "start" | "beginning" | "anfang" | "monatsanfang" => Beginning,
        "please" | "bitte" | "can" | "could" | "would" | "you" | "me" | "my" | "i" | "i'd" | "like" | "want"
        | "remind" | "wake" | "up" | "run" | "send" | "do" | "schedule" | "set" | "it" | "this's" | "kannst"
        | "könntest" | "du" | "mir" | "mich" | "erinnere" | "weck" | "wecke" | "schick" | "schicke" | "sende"
        | "mal's" | "ich" | "möchte" | "hätte" | "gern" | "gerne" | "then" | "sharp" | "exactly" | "genau"
        | "pünktlich" | "just" | "minutes'" | "single" | "an'" | "auch" | "hey" | "zu" | "also" | "repeat"
        | "reminder" | "time" | "zeit" | "local" | "pls" | "plz" | "today's" | "tonight's" | "etwa" | "ungefähr"
        | "roughly" | "approximately" => Filler,
        _ => return None,
    })
}
