//! Kinds of words about time.

/// Unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// Part of the day, which determines whether "at 8" is in the morning or in the evening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Part {
    Morning,
    Noon,
    Afternoon,
    Evening,
    Night,
}

impl Part {
    /// Default hour if none is named.
    pub(in super::super) const fn hour(self) -> u8 {
        match self {
            Self::Morning => 9,
            Self::Noon => 12,
            Self::Afternoon => 15,
            Self::Evening => 18,
            Self::Night => 21,
        }
    }

    /// Whether the hour clearly lies outside this part: "5pm" is not in the morning. False if usage varies.
    pub(in super::super) const fn excludes(self, hour: u8) -> bool {
        match self {
            Self::Morning => hour > 12,
            Self::Noon => false,
            Self::Afternoon => !matches!(hour, 12..=18),
            Self::Evening => matches!(hour, 5..=11),
            Self::Night => matches!(hour, 10..=15),
        }
    }
}

/// Kind of a word. Ambiguous words have kinds of their own; the grammar decides by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Every,
    Other,
    Number(u32),
    Ordinal(u32),
    /// "second": unit and ordinal.
    SecondWord,
    Unit(Unit),
    /// 0 is Sunday. `repeats` is set for "Mondays", "montags".
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
    /// "morgen": tomorrow or morning.
    MorgenWord,
    Midnight,
    /// "am": before noon, or the German preposition.
    Am,
    Pm,
    /// Hour and minute with a colon.
    Clock(u8, u8),
    /// Hour and minute with a dot, which is ambiguous.
    Dotted(u8, u8),
    /// ":15"
    MinutePast(u8),
    Date {
        year: Option<i16>,
        month: u8,
        day: u8,
    },
    Half,
    /// "halb": half an hour before the hour.
    HalfTo,
    Quarter,
    OneAndAHalf,
    /// "Dreiviertelstunde"
    ThreeQuarterHour,
    /// "1.5", in hundredths.
    Decimal(u32),
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
    /// "starting", "until further notice", "when": cannot be expressed in a schedule.
    Limit,
    /// "sunset", "Easter", "public holiday": a time that varies, if preceded by a preposition.
    Event,
    /// "perhaps", "sometimes": makes the text imprecise.
    Vague,
    /// "vorletzter", "-5": a day that cannot be expressed, or an invalid number.
    BeyondWords,
    /// "always", "jeweils": the following part recurs.
    Always,
    /// "Europe/London"
    ZoneName,
    /// "EST", "GMT": a zone if preceded by a time.
    ZoneWord,
    For,
    OClock,
    End,
    Beginning,
    /// Word unrelated to time.
    Filler,
    Unknown,
}
