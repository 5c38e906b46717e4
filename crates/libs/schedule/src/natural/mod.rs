//! Schedules in plain words, English or German.
//!
//! `lexer` and `token` turn words into kinds, `phrases` (with `clock`, `days` and `month_days`) finds phrases of time, one after
//! the other, and `resolve` makes one schedule of them. What repeats in a way that neither cron nor an interval can
//! hold ("every other Friday", "the last business day") is not claimed, and neither is what is asked, told or
//! called off rather than ordered.

mod clock;
mod dates;
mod days;
mod draft;
mod grammar;
mod leftover;
mod lengths;
mod lexer;
mod minutes;
mod month_days;
mod phrases;
mod refusal;
mod resolve;
mod statement;
mod token;
mod windows;

use agentd_base::Timestamp;

use crate::language::Language;
use crate::schedule::Schedule;
use crate::spec::ScheduleSpec;
use crate::zone::Zone;

/// Longer texts are not looked at, in characters.
pub const MAX_TEXT_LENGTH: usize = 1000;
/// Below this nothing should be created without asking.
pub const MIN_CONFIDENCE: f64 = 0.5;

/// When every word was understood and nothing assumed.
const CERTAIN: f64 = 0.97;
/// What a part that cannot be expressed leaves.
const LIMITED: f64 = 0.35;
/// What a word costs that says nothing about time, and all of them together: beside a whole schedule, and beside
/// a bare hint of one.
const WORD_BESIDE_SCHEDULE: f64 = 0.01;
const WORDS_BESIDE_SCHEDULE: f64 = 0.25;
const WORD_BESIDE_HINT: f64 = 0.1;
/// What a mistyped word costs.
const GUESS: f64 = 0.05;

/// A schedule that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub schedule: Schedule,
    /// 0 to 1: 0.9 and more when every word was understood and nothing assumed, less for each that was not.
    pub confidence: f64,
    /// What was understood, in the language that was asked for.
    pub human_readable: String,
}

/// The schedule that `text` speaks of, read at `now` in `zone`. `language` is the language of
/// `human_readable`; the text may be English or German. `None` when nothing in it is a schedule, or none that can
/// be expressed.
#[must_use]
pub fn parse_natural(text: &str, now: Timestamp, zone: &Zone, language: impl Into<Language>) -> Option<Parsed> {
    if text.chars().count() > MAX_TEXT_LENGTH {
        return None;
    }
    if let Some(schedule) = written_out(text, now, zone) {
        let human_readable = schedule.human_readable(language, zone);
        return Some(Parsed { schedule, confidence: CERTAIN, human_readable });
    }
    let tokens = lexer::tokens(text);
    if refusal::refuses(&tokens) {
        return None;
    }
    let grammar = grammar::Grammar::read(&tokens);
    let (schedule, doubt) = resolve::resolve(&grammar.draft, now, zone)?;
    let confidence = confidence(&grammar, doubt.0);
    // A bare hint among other words is nothing; what is whole but limited is shown, with little confidence.
    let is_partial = grammar.draft.limited || doubt.0 >= resolve::ROUGH;
    if confidence < MIN_CONFIDENCE && !(is_partial && is_whole(&grammar.draft)) {
        return None;
    }
    let human_readable = schedule.human_readable(language, zone);
    Some(Parsed { schedule, confidence, human_readable })
}

/// Whether it says when, beyond a bare hint.
fn is_whole(draft: &draft::Draft) -> bool {
    let has_time = !draft.times.is_empty() || draft.part.is_some();
    draft.repeats || draft.always || draft.part_repeats || draft.offset.is_some() || (draft.has_day() && has_time)
}

/// Cron, or a date and time with its offset, as machines write them.
fn written_out(text: &str, now: Timestamp, zone: &Zone) -> Option<Schedule> {
    let text = text.trim().trim_matches(['`', '"', '\'']);
    let text = text.strip_prefix("cron").map_or(text, |rest| rest.trim_start_matches(':')).trim();
    let spec = if text.starts_with('@') || text.contains('*') {
        ScheduleSpec::cron(text, zone.name())
    } else if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        ScheduleSpec { timezone: Some(zone.name().to_owned()), ..ScheduleSpec::at(text) }
    } else {
        return None;
    };
    let schedule = spec.check(zone).ok()?;
    schedule.next_after(now, now)?;
    Some(schedule)
}

fn confidence(grammar: &grammar::Grammar<'_>, doubt: f64) -> f64 {
    let draft = &grammar.draft;
    let whole = is_whole(draft);
    #[allow(clippy::cast_precision_loss, reason = "a text has at most a thousand words")]
    let words = grammar.unknown as f64;
    let cost = if whole { (words * WORD_BESIDE_SCHEDULE).min(WORDS_BESIDE_SCHEDULE) } else { words * WORD_BESIDE_HINT };
    // Any unknown word at all is a reason not to be certain.
    let first = if words > 0.0 { 0.05 } else { 0.0 };
    #[allow(clippy::cast_precision_loss, reason = "a text has at most a thousand words")]
    let guesses = grammar.tokens.iter().filter(|token| token.is_guess).count() as f64;
    let confidence = (CERTAIN - doubt - cost - first - guesses * GUESS).max(0.05);
    let limited = if draft.limited { confidence.min(LIMITED) } else { confidence };
    (limited * 100.0).round() / 100.0
}
