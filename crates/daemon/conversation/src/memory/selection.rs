//! Pure rules that decide which messages of a conversation become episodes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use agentd_engine::agents::Agent;

use super::model::NewEpisode;
use super::relevance::significant_words;
use super::source::{Speaker, Utterance};

/// Source of episodes from conversations.
const CONVERSATION_SOURCE: &str = "conversation";
/// Minimum importance of an agent's message that used no tools.
const MIN_CONCLUSION_IMPORTANCE: f64 = 0.4;
/// Maximum importance of a question that states nothing worth remembering.
const MAX_QUESTION_IMPORTANCE: f64 = 0.2;
const MAX_CONCLUSION_CHARACTERS: usize = 400;

/// Words of an agent's message that only acknowledges.
static ACKNOWLEDGEMENT: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    significant_words(
        "great good nice perfect wonderful excellent lovely awesome cool fine sure okay ok yes yeah right alright \
         thanks thank you welcome got get it understood understand noted note noting remember remembered remembering \
         remind store stored saved save saving keep kept mind memory memories know knowing learn learned hear told \
         tell telling let share shared sharing call called said say mention mentioned have has will now can do happy \
         glad anything else help need ask",
    )
});

/// Returns whether an answer only repeats or acknowledges the message it answers.
fn is_echo(answer: &str, question: &str) -> bool {
    let known = significant_words(question);
    significant_words(answer).iter().all(|word| known.contains(word) || ACKNOWLEDGEMENT.contains(word))
}

/// Returns the origin of an episode derived from a message.
pub(super) fn message_origin(message: &str) -> String {
    format!("message:{message}")
}

/// Returns the episode that a message becomes, if any; `asked` is the owner's latest message.
pub(super) fn select_episode(
    utterance: &Utterance,
    question: &str,
    agent: &Agent,
    min_importance: f64,
) -> Option<NewEpisode> {
    let text = utterance.text.trim();
    let evaluated = agentd_entities::evaluate(text);
    if text.is_empty() || evaluated.importance < min_importance {
        return None;
    }
    let content = match utterance.speaker {
        Speaker::UnknownSender => return None,
        Speaker::Owner if text.ends_with('?') && evaluated.importance <= MAX_QUESTION_IMPORTANCE => return None,
        Speaker::Owner if agentd_entities::is_request_only(text) => return None,
        Speaker::Owner => text.to_owned(),
        Speaker::Agent => {
            let is_conclusion = !utterance.tools.is_empty() || evaluated.importance >= MIN_CONCLUSION_IMPORTANCE;
            // Actions count whatever the message says about them; storing a memory does not count as one.
            let has_acted = utterance.tools.iter().any(|tool| !tool.starts_with("memory_"));
            if !utterance.is_complete || !is_conclusion || !has_acted && is_echo(text, question) {
                return None;
            }
            let used = match utterance.tools.as_slice() {
                [] => String::new(),
                tools => format!(" (used {})", tools.join(", ")),
            };
            format!("{}: {}{used}", agent.svc_name, truncate_at_sentence(text, MAX_CONCLUSION_CHARACTERS))
        }
    };
    Some(NewEpisode {
        agent_id: Some(agent.id.clone()),
        content,
        source: Some(CONVERSATION_SOURCE.to_owned()),
        origin: Some(message_origin(&utterance.id)),
        importance: Some(evaluated.importance),
        valence: Some(evaluated.valence),
        is_untrusted: utterance.is_untrusted,
        occurred_at: Some(utterance.at),
        ..NewEpisode::default()
    })
}

/// Returns as many whole sentences as fit, or the beginning of the first.
pub(super) fn truncate_at_sentence(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(characters).collect();
    let end = beginning.rfind(['.', '!', '?', '\n', '。']).filter(|end| *end > beginning.len() / 4);
    match end {
        Some(end) => beginning[..beginning.ceil_char_boundary(end + 1)].trim_end().to_owned(),
        None => beginning + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_is_an_echo() {
        let statement = "My boat is called Pequod and it lies in the harbour of Kiel.";
        assert!(is_echo("Great, I will remember that your boat is called Pequod.", statement));
        assert!(is_echo("Noted: Pequod, in the harbour of Kiel!", statement));
        assert!(!is_echo("Pequod is the ship of Captain Ahab.", statement));
        assert!(!is_echo("The folder is empty, so we begin with the parser.", "Look into the folder."));
    }

    #[test]
    fn long_text_is_cut_at_a_sentence() {
        assert_eq!(truncate_at_sentence("Short.", 10), "Short.");
        assert_eq!(truncate_at_sentence("One two three. Four five six. Seven", 20), "One two three.");
        assert_eq!(truncate_at_sentence(&"x".repeat(30), 10), format!("{}…", "x".repeat(10)));
        assert_eq!(truncate_at_sentence("これは文です。次の文です。", 9), "これは文です。");
    }
}
