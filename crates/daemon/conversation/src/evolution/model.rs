//! Parameters of a review and parsing of its answer.

use std::time::Duration;

use agentd_base::Backoff;

/// Number of turns after which an agent is asked.
pub(super) const TURNS_PER_REVIEW: u64 = 20;
/// Time until a proposal expires.
pub(super) const PROPOSAL_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Must match the limit of `profile.instructions`.
pub(super) const MAX_INSTRUCTIONS_CHARACTERS: usize = 20_000;
const MAX_REASON_CHARACTERS: usize = 500;
/// Maximum number of characters of messages shown to the model.
pub(super) const MAX_UTTERANCE_CHARACTERS: usize = 12_000;
/// Delays after failures; about half a day in total.
pub(super) const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(60), multiplier: 3.0, cap: Duration::from_secs(6 * 60 * 60), jitter: 0.2 };
/// Maximum number of failed attempts; after that the agent is asked again after another set of turns.
pub(super) const MAX_ATTEMPTS: u32 = 8;

pub(super) const NOTHING: &str = "NOTHING";
pub(super) const REASON: &str = "REASON:";
pub(super) const INSTRUCTIONS: &str = "INSTRUCTIONS:";
/// Placeholders in the form shown to the model.
pub(super) const REASON_PLACEHOLDER: &str = "one sentence that tells your owner what you learned";
pub(super) const INSTRUCTIONS_PLACEHOLDER: &str = "the new instructions";

/// Instructions proposed by an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) instructions: String,
    pub(super) reason: String,
}

/// Parsed answer of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    Proposal(Proposal),
    /// Malformed or too long, with the reason.
    Unusable(&'static str),
}

/// Parses an answer of the model; `present` are the instructions it was shown.
pub(super) fn parse_answer(text: &str, present: &str) -> Answer {
    if text.trim_matches(|character: char| !character.is_alphanumeric()).eq_ignore_ascii_case(NOTHING) {
        return Answer::Nothing;
    }
    // Any preamble, including a repetition of the prompt, violates the required form.
    let text = text.trim();
    let Some(reason) = text.lines().next().and_then(|line| strip_marker(line, REASON)) else {
        return Answer::Unusable("the answer does not begin with a reason");
    };
    let mut position = 0;
    let mut body = None;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = strip_marker(line, INSTRUCTIONS) {
            body = Some(format!("{rest}\n{}", &text[position + line.len()..]));
            break;
        }
        position += line.len();
    }
    let Some(body) = body else { return Answer::Unusable("the answer contains no instructions") };
    let instructions = strip_code_fence(body.trim());
    if instructions.is_empty() {
        return Answer::Unusable("the instructions are empty");
    }
    if instructions.chars().count() > MAX_INSTRUCTIONS_CHARACTERS {
        return Answer::Unusable("the instructions are too long");
    }
    if is_placeholder(&reason, REASON_PLACEHOLDER) || is_placeholder(instructions, INSTRUCTIONS_PLACEHOLDER) {
        return Answer::Unusable("the answer repeats the placeholders of the prompt");
    }
    if instructions == present.trim() {
        return Answer::Nothing;
    }
    let reason: String = reason.chars().take(MAX_REASON_CHARACTERS).collect();
    let reason = if reason.is_empty() { "The agent gave no reason.".to_owned() } else { reason };
    Answer::Proposal(Proposal { instructions: instructions.to_owned(), reason })
}

/// Returns the text after a marker at the beginning of a line, ignoring Markdown decoration.
fn strip_marker(line: &str, mark: &str) -> Option<String> {
    let is_decoration = |character: char| character.is_whitespace() || matches!(character, '*' | '#' | '_');
    let line = line.trim_start_matches(is_decoration);
    let (head, rest) = line.split_at_checked(mark.len())?;
    head.eq_ignore_ascii_case(mark).then(|| rest.trim_matches(is_decoration).to_owned())
}

/// Returns whether the text is a placeholder of the form, ignoring decoration.
fn is_placeholder(text: &str, placeholder: &str) -> bool {
    text.trim_matches(|character: char| !character.is_alphanumeric()).eq_ignore_ascii_case(placeholder)
}

/// Removes a code fence around the complete text.
fn strip_code_fence(text: &str) -> &str {
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
    fn answer_is_parsed_with_and_without_markdown() {
        for text in ["NOTHING", "nothing.", " **NOTHING**\n", "`Nothing`"] {
            assert_eq!(parse_answer(text, "Be brief."), Answer::Nothing, "{text}");
        }
        let text = "REASON: Ada likes metres.\nINSTRUCTIONS:\nBe brief.\n\nUse metres.\n";
        assert_eq!(parse_answer(text, "Be brief."), proposal("Be brief.\n\nUse metres.", "Ada likes metres."));
        let text = "\n**Reason:** Metres.\n\n## Instructions: Use metres.";
        assert_eq!(parse_answer(text, ""), proposal("Use metres.", "Metres."));
        let text = "REASON:\nINSTRUCTIONS:\n```text\nUse metres.\n```";
        assert_eq!(parse_answer(text, ""), proposal("Use metres.", "The agent gave no reason."));
    }

    #[test]
    fn unchanged_instructions_are_no_proposal() {
        assert_eq!(parse_answer("REASON: x\nINSTRUCTIONS:\nBe brief.", " Be brief.\n"), Answer::Nothing);
    }

    #[test]
    fn malformed_answer_is_unusable() {
        for text in [
            "",
            "I would rather be a poet.",
            "REASON: x",
            "REASON: x\nINSTRUCTIONS:",
            "REASON: x\nINSTRUCTIONS:\n```\n```",
            "INSTRUCTIONS:\nUse metres.",
            "Sure!\nREASON: Metres.\nINSTRUCTIONS:\nUse metres.",
        ] {
            assert!(matches!(parse_answer(text, "Be brief."), Answer::Unusable(_)), "{text}");
        }
        let fits = format!("REASON: x\nINSTRUCTIONS:\n{}", "é".repeat(MAX_INSTRUCTIONS_CHARACTERS));
        assert!(matches!(parse_answer(&fits, ""), Answer::Proposal(_)));
        assert!(matches!(parse_answer(&format!("{fits}é"), ""), Answer::Unusable(_)));
    }

    #[test]
    fn repeated_form_is_unusable() {
        let question = crate::evolution::prompt::question("Be brief.", &[]);
        let (_, form) = question.split_once(REASON).expect("reason placeholder");
        for text in [
            &*question,
            &format!("{REASON}{form}"),
            "REASON: Metres.\nINSTRUCTIONS:\n**The new instructions.**",
            "REASON: <one sentence that tells your owner what you learned>\nINSTRUCTIONS:\nUse metres.",
        ] {
            assert!(matches!(parse_answer(text, "Be brief."), Answer::Unusable(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn proposal_is_always_bounded_and_different(
            text in "((REASON|reason|INSTRUCTIONS|Instructions|NOTHING|\\*|`{3}|é|a| |:|\n){0,40}|\\PC{0,200})",
            present in "[a ]{0,3}",
        ) {
            if let Answer::Proposal(proposal) = parse_answer(&text, &present) {
                prop_assert!(!proposal.instructions.trim().is_empty());
                prop_assert!(proposal.instructions != present.trim());
                prop_assert!(proposal.instructions.chars().count() <= MAX_INSTRUCTIONS_CHARACTERS);
                prop_assert!((1..=MAX_REASON_CHARACTERS).contains(&proposal.reason.chars().count()));
            }
        }
    }
}
