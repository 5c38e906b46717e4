//! When an agent is asked what it learned, and what its answer means.

use std::time::Duration;

use agentd_base::Backoff;

/// Turns after which an agent is asked.
pub(super) const TURNS: u64 = 20;
/// How long a proposal waits for the owner.
pub(super) const PROPOSAL_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The same as of `profile.instructions`.
pub(super) const MAX_INSTRUCTIONS_CHARACTERS: usize = 20_000;
const MAX_REASON_CHARACTERS: usize = 500;
/// How much of what was said the model is shown.
pub(super) const MAX_UTTERANCE_CHARACTERS: usize = 12_000;
/// When asking failed; about half a day in all.
pub(super) const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(60), multiplier: 3.0, cap: Duration::from_secs(6 * 60 * 60), jitter: 0.2 };
/// After so many failures the agent is only asked again when it has talked as much once more.
pub(super) const MAX_ATTEMPTS: u32 = 8;

pub(super) const NOTHING: &str = "NOTHING";
pub(super) const REASON: &str = "REASON:";
pub(super) const INSTRUCTIONS: &str = "INSTRUCTIONS:";
/// What stands in the form that the model is shown where its own words belong.
pub(super) const REASON_PLACEHOLDER: &str = "one sentence that tells your owner what you learned";
pub(super) const INSTRUCTIONS_PLACEHOLDER: &str = "the new instructions";

/// Other instructions that an agent wishes for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) instructions: String,
    pub(super) reason: String,
}

/// What an agent says when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    Proposal(Proposal),
    /// Not in the form that was asked for, or more than is taken.
    Unusable(&'static str),
}

/// Reads an answer of the model; `present` are the instructions that it was shown.
pub(super) fn read_answer(text: &str, present: &str) -> Answer {
    if text.trim_matches(|character: char| !character.is_alphanumeric()).eq_ignore_ascii_case(NOTHING) {
        return Answer::Nothing;
    }
    // Whatever else a model says first, its own prompt among it, is not the form that was asked for.
    let text = text.trim();
    let Some(reason) = text.lines().next().and_then(|line| after_mark(line, REASON)) else {
        return Answer::Unusable("it does not begin with its reason");
    };
    let mut position = 0;
    let mut body = None;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = after_mark(line, INSTRUCTIONS) {
            body = Some(format!("{rest}\n{}", &text[position + line.len()..]));
            break;
        }
        position += line.len();
    }
    let Some(body) = body else { return Answer::Unusable("it names no instructions") };
    let instructions = unfenced(body.trim());
    if instructions.is_empty() {
        return Answer::Unusable("the instructions are empty");
    }
    if instructions.chars().count() > MAX_INSTRUCTIONS_CHARACTERS {
        return Answer::Unusable("the instructions are too long");
    }
    if is_placeholder(&reason, REASON_PLACEHOLDER) || is_placeholder(instructions, INSTRUCTIONS_PLACEHOLDER) {
        return Answer::Unusable("it repeats the form that it was asked for");
    }
    if instructions == present.trim() {
        return Answer::Nothing;
    }
    let reason: String = reason.chars().take(MAX_REASON_CHARACTERS).collect();
    let reason = if reason.is_empty() { "The agent gave no reason.".to_owned() } else { reason };
    Answer::Proposal(Proposal { instructions: instructions.to_owned(), reason })
}

/// What stands behind a mark at the beginning of a line, however models like to decorate it.
fn after_mark(line: &str, mark: &str) -> Option<String> {
    let is_ornament = |character: char| character.is_whitespace() || matches!(character, '*' | '#' | '_');
    let line = line.trim_start_matches(is_ornament);
    let (head, rest) = line.split_at_checked(mark.len())?;
    head.eq_ignore_ascii_case(mark).then(|| rest.trim_matches(is_ornament).to_owned())
}

/// Whether these are the form's own words, however they are decorated.
fn is_placeholder(text: &str, placeholder: &str) -> bool {
    text.trim_matches(|character: char| !character.is_alphanumeric()).eq_ignore_ascii_case(placeholder)
}

/// Without the fence of a code block around the whole.
fn unfenced(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((_, body)) if !body.contains("```") => body.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proposal(instructions: &str, reason: &str) -> Answer {
        Answer::Proposal(Proposal { instructions: instructions.to_owned(), reason: reason.to_owned() })
    }

    #[test]
    fn answers_mean_what_they_say() {
        for text in ["NOTHING", "nothing.", " **NOTHING**\n", "`Nothing`"] {
            assert_eq!(read_answer(text, "Be brief."), Answer::Nothing, "{text}");
        }
        let text = "REASON: Ada likes metres.\nINSTRUCTIONS:\nBe brief.\n\nUse metres.\n";
        assert_eq!(read_answer(text, "Be brief."), proposal("Be brief.\n\nUse metres.", "Ada likes metres."));
        let text = "\n**Reason:** Metres.\n\n## Instructions: Use metres.";
        assert_eq!(read_answer(text, ""), proposal("Use metres.", "Metres."));
        let text = "REASON:\nINSTRUCTIONS:\n```text\nUse metres.\n```";
        assert_eq!(read_answer(text, ""), proposal("Use metres.", "The agent gave no reason."));
    }

    #[test]
    fn what_changes_nothing_is_nothing() {
        assert_eq!(read_answer("REASON: x\nINSTRUCTIONS:\nBe brief.", " Be brief.\n"), Answer::Nothing);
    }

    #[test]
    fn what_cannot_be_used_is_not() {
        for text in [
            "",
            "I would rather be a poet.",
            "REASON: x",
            "REASON: x\nINSTRUCTIONS:",
            "REASON: x\nINSTRUCTIONS:\n```\n```",
            "INSTRUCTIONS:\nUse metres.",
            "Sure!\nREASON: Metres.\nINSTRUCTIONS:\nUse metres.",
        ] {
            assert!(matches!(read_answer(text, "Be brief."), Answer::Unusable(_)), "{text}");
        }
        let fits = format!("REASON: x\nINSTRUCTIONS:\n{}", "é".repeat(MAX_INSTRUCTIONS_CHARACTERS));
        assert!(matches!(read_answer(&fits, ""), Answer::Proposal(_)));
        assert!(matches!(read_answer(&format!("{fits}é"), ""), Answer::Unusable(_)));
    }

    #[test]
    fn the_form_itself_is_no_answer() {
        let question = crate::evolution::prompt::question("Be brief.", &[]);
        let (_, form) = question.split_once(REASON).expect("a form");
        for text in [
            &*question,
            &format!("{REASON}{form}"),
            "REASON: Metres.\nINSTRUCTIONS:\n**The new instructions.**",
            "REASON: <one sentence that tells your owner what you learned>\nINSTRUCTIONS:\nUse metres.",
        ] {
            assert!(matches!(read_answer(text, "Be brief."), Answer::Unusable(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_a_proposal_is_bounded_and_new(
            text in "((REASON|reason|INSTRUCTIONS|Instructions|NOTHING|\\*|`{3}|é|a| |:|\n){0,40}|\\PC{0,200})",
            present in "[a ]{0,3}",
        ) {
            if let Answer::Proposal(proposal) = read_answer(&text, &present) {
                prop_assert!(!proposal.instructions.trim().is_empty());
                prop_assert!(proposal.instructions != present.trim());
                prop_assert!(proposal.instructions.chars().count() <= MAX_INSTRUCTIONS_CHARACTERS);
                prop_assert!((1..=MAX_REASON_CHARACTERS).contains(&proposal.reason.chars().count()));
            }
        }
    }
}
