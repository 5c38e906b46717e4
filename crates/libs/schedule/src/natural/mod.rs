//! Parser for schedules in plain English or German.
//!
//! `lexer` and `token` classify words, `phrases` (with `clock`, `days` and `month_days`) finds time phrases one after
//! the other, and `resolve` combines them to a schedule. Recurrences that neither cron nor an interval can express
//! ("every other Friday", "the last business day") are not recognized, and neither are questions, statements and
//! cancellations.

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

/// Maximum length of a text, in characters.
pub const MAX_TEXT_LENGTH: usize = 1000;
/// Minimum confidence for creating a schedule without confirmation.
pub const MIN_CONFIDENCE: f64 = 0.5;

/// Confidence if every word was understood and nothing was assumed.
const CERTAIN_CONFIDENCE: f64 = 0.97;
/// Maximum confidence for a text with a part that cannot be expressed.
const MAX_LIMITED_CONFIDENCE: f64 = 0.35;
/// Penalty per word unrelated to time, and its maximum: next to a complete schedule, and next to an incomplete one.
const WORD_PENALTY: f64 = 0.01;
const MAX_WORD_PENALTY: f64 = 0.25;
const WORD_PENALTY_INCOMPLETE: f64 = 0.1;
/// Penalty for a corrected word.
const CORRECTION_PENALTY: f64 = 0.05;

/// Schedule found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub schedule: Schedule,
    /// Confidence from 0 to 1: at least 0.9 if every word was understood and nothing was assumed, lower otherwise.
    pub confidence: f64,
    /// Description of the schedule in the requested language.
    pub human_readable: String,
}

/// Parses the schedule described by `text`, relative to `now` in `zone`. `language` is the language of
/// `human_readable`; the text may be English or German. Returns `None` if the text contains no schedule, or one that
/// cannot be expressed.
#[must_use]
pub fn parse_natural(text: &str, now: Timestamp, zone: &Zone, language: impl Into<Language>) -> Option<Parsed> {
    if text.chars().count() > MAX_TEXT_LENGTH {
        return None;
    }
    if let Some(schedule) = parse_machine_format(text, now, zone) {
        let human_readable = schedule.human_readable(language, zone);
        return Some(Parsed { schedule, confidence: CERTAIN_CONFIDENCE, human_readable });
    }
    let tokens = lexer::tokens(text);
    if refusal::is_rejected(&tokens) {
        return None;
    }
    let grammar = grammar::Grammar::read(&tokens);
    let (schedule, doubt) = resolve::resolve(&grammar.draft, now, zone)?;
    let confidence = confidence(&grammar, doubt.0);
    // An incomplete schedule among other words is rejected; a complete but limited one is returned with low confidence.
    let is_partial = grammar.draft.limited || doubt.0 >= resolve::APPROXIMATION_DOUBT;
    if confidence < MIN_CONFIDENCE && !(is_partial && is_complete(&grammar.draft)) {
        return None;
    }
    let human_readable = schedule.human_readable(language, zone);
    Some(Parsed { schedule, confidence, human_readable })
}

/// Whether the draft is more than an incomplete hint.
fn is_complete(draft: &draft::Draft) -> bool {
    let has_time = !draft.times.is_empty() || draft.part.is_some();
    draft.repeats || draft.always || draft.part_repeats || draft.offset.is_some() || (draft.has_day() && has_time)
}

/// Parses cron, or a date and time with an offset.
fn parse_machine_format(text: &str, now: Timestamp, zone: &Zone) -> Option<Schedule> {
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
    let whole = is_complete(draft);
    #[allow(clippy::cast_precision_loss, reason = "a text has at most a thousand words")]
    let words = grammar.unknown as f64;
    let cost = if whole { (words * WORD_PENALTY).min(MAX_WORD_PENALTY) } else { words * WORD_PENALTY_INCOMPLETE };
    // Any unknown word rules out certainty.
    let first = if words > 0.0 { 0.05 } else { 0.0 };
    #[allow(clippy::cast_precision_loss, reason = "a text has at most a thousand words")]
    let guesses = grammar.tokens.iter().filter(|token| token.is_guess).count() as f64;
    let confidence = (CERTAIN_CONFIDENCE - doubt - cost - first - guesses * CORRECTION_PENALTY).max(0.05);
    let limited = if draft.limited { confidence.min(MAX_LIMITED_CONFIDENCE) } else { confidence };
    (limited * 100.0).round() / 100.0
}
