//! Which messages of a conversation become episodes. Pure rules.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use agentd_engine::agents::Agent;

use super::model::NewEpisode;
use super::relevance::telling;
use super::source::{Speaker, Utterance};

/// The source of what was said in conversations.
const CONVERSATION: &str = "conversation";
/// What an agent says is remembered when it matters so much, or when it did something.
const CONCLUSION: f64 = 0.4;
/// A question that matters no more than this tells nothing about anybody.
const PLAIN_QUESTION: f64 = 0.2;
const CONCLUSION_CHARACTERS: usize = 400;

/// What agents say when they only say that they understood.
static ACKNOWLEDGEMENT: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    telling(
        "great good nice perfect wonderful excellent lovely awesome cool fine sure okay ok yes yeah right alright \
         thanks thank you welcome got get it understood understand noted note noting remember remembered remembering \
         remind store stored saved save saving keep kept mind memory memories know knowing learn learned hear told \
         tell telling let share shared sharing call called said say mention mentioned have has will now can do happy \
         glad anything else help need ask",
    )
});

/// Whether an answer says back what was said to it, and nothing else.
fn is_echo(answer: &str, asked: &str) -> bool {
    let known = telling(asked);
    telling(answer).iter().all(|word| known.contains(word) || ACKNOWLEDGEMENT.contains(word))
}

/// What an episode that was made of a message is known to come from.
pub(super) fn message_origin(message: &str) -> String {
    format!("message:{message}")
}

/// The episode that a message becomes; `asked` is what the owner said last. `None`: nothing.
pub(super) fn select_episode(
    utterance: &Utterance,
    asked: &str,
    agent: &Agent,
    min_importance: f64,
) -> Option<NewEpisode> {
    let text = utterance.text.trim();
    let evaluated = agentd_entities::evaluate(text);
    if text.is_empty() || evaluated.importance < min_importance {
        return None;
    }
    let content = match utterance.speaker {
        Speaker::Stranger => return None,
        Speaker::Owner if text.ends_with('?') && evaluated.importance <= PLAIN_QUESTION => return None,
        Speaker::Owner if agentd_entities::only_asks(text) => return None,
        Speaker::Owner => text.to_owned(),
        Speaker::Agent => {
            let is_conclusion = !utterance.tools.is_empty() || evaluated.importance >= CONCLUSION;
            // What it did counts whatever it says of it; what it remembered is remembered.
            let has_acted = utterance.tools.iter().any(|tool| !tool.starts_with("memory_"));
            if !utterance.is_complete || !is_conclusion || !has_acted && is_echo(text, asked) {
                return None;
            }
            let used = match utterance.tools.as_slice() {
                [] => String::new(),
                tools => format!(" (used {})", tools.join(", ")),
            };
            format!("{}: {}{used}", agent.svc_name, in_short(text, CONCLUSION_CHARACTERS))
        }
    };
    Some(NewEpisode {
        agent_id: Some(agent.id.clone()),
        content,
        source: Some(CONVERSATION.to_owned()),
        origin: Some(message_origin(&utterance.id)),
        importance: Some(evaluated.importance),
        valence: Some(evaluated.valence),
        is_untrusted: utterance.is_untrusted,
        occurred_at: Some(utterance.at),
        ..NewEpisode::default()
    })
}

/// As many whole sentences as fit, or the beginning of the first.
pub(super) fn in_short(text: &str, characters: usize) -> String {
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
    fn an_echo_tells_nothing() {
        let said = "My boat is called Pequod and it lies in the harbour of Kiel.";
        assert!(is_echo("Great, I will remember that your boat is called Pequod.", said));
        assert!(is_echo("Noted: Pequod, in the harbour of Kiel!", said));
        assert!(!is_echo("Pequod is the ship of Captain Ahab.", said));
        assert!(!is_echo("The folder is empty, so we begin with the parser.", "Look into the folder."));
    }

    #[test]
    fn long_texts_are_cut_at_a_sentence() {
        assert_eq!(in_short("Short.", 10), "Short.");
        assert_eq!(in_short("One two three. Four five six. Seven", 20), "One two three.");
        assert_eq!(in_short(&"x".repeat(30), 10), format!("{}…", "x".repeat(10)));
        assert_eq!(in_short("これは文です。次の文です。", 9), "これは文です。");
    }
}
