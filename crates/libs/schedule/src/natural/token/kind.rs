//! What words of time can be.

/// A unit of time.
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

/// A part of the day, which turns "at 8" into a morning's or an evening's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Part {
    Morning,
    Noon,
    Afternoon,
    Evening,
    Night,
}

impl Part {
    /// The hour that is meant when none is named.
    pub(in super::super) const fn hour(self) -> u8 {
        match self {
            Self::Morning => 9,
            Self::Noon => 12,
            Self::Afternoon => 15,
            Self::Evening => 18,
            Self::Night => 21,
        }
    }

    /// Whether nobody calls this hour so: "5pm" is no morning's. Where people disagree, it is not.
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

/// What a word can be. Words that can be two things have a kind of their own; the grammar decides by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
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
    /// "starting", "until further notice", "when": what no schedule holds.
    Limit,
    /// "sunset", "Easter", "public holiday": a time that moves, where a preposition makes it one.
    Event,
    /// "perhaps", "sometimes": whatever is said is not meant exactly.
    Vague,
    /// "vorletzter", "-5": a day that no schedule holds, or a number that no time has.
    BeyondWords,
    /// "always", "jeweils": what follows comes again.
    Always,
    /// "Europe/London"
    ZoneName,
    /// "EST", "GMT": a zone where a time stands before it.
    ZoneWord,
    For,
    OClock,
    End,
    Beginning,
    /// Says nothing about time and nothing against it.
    Filler,
    Unknown,
}
