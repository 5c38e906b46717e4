//! Conversations for a local model whose chat template does not support tools: it is offered none, and earlier tool
//! results of other models become text.

use agentd_base::MarkedText;
use agentd_inference::ChatMessage;
use agentd_llm::ModelMessage;

/// Maximum length of a result, which shares a small window with the conversation and the answer.
const MAX_RESULT_CHARACTERS: usize = 6000;

/// Converts a conversation without tool calls. Results since the last question are appended to that question; earlier
/// results become separate messages.
pub(super) fn conversation(messages: Vec<ModelMessage>) -> Vec<ChatMessage> {
    let question = last_question(&messages);
    let has_results = matches!(messages.last(), Some(ModelMessage::Tool { .. }));
    let mut chat: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    let (mut question_text, mut results) = (String::new(), String::new());
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            ModelMessage::User { content } if has_results && question == Some(at) => question_text = content,
            ModelMessage::User { content } => chat.push(ChatMessage::user(content)),
            // A message with calls only has no text.
            ModelMessage::Assistant { content, .. } if content.is_empty() => {}
            ModelMessage::Assistant { content, .. } => chat.push(ChatMessage::assistant(content)),
            ModelMessage::Tool { name, content, is_error, .. } => {
                let what = if is_error { "failed" } else { "answered" };
                let text = format!("The tool {name} {what}:\n{}", truncated(&content));
                if has_results && question.is_some_and(|question| at > question) {
                    results.push_str("\n\n");
                    results.push_str(&text);
                } else {
                    chat.push(ChatMessage::user(text));
                }
            }
        }
    }
    if has_results {
        chat.push(ChatMessage::user(format!("{question_text}{results}\n\nAnswer briefly with what the tool says.")));
    }
    chat
}

fn last_question(messages: &[ModelMessage]) -> Option<usize> {
    messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }))
}

/// Truncates a long result; keeps its marks.
pub(super) fn truncated(content: &str) -> String {
    let marked = MarkedText::parse(content);
    let text = marked.as_ref().map_or(content, |marked| marked.text);
    let Some((at, _)) = text.char_indices().nth(MAX_RESULT_CHARACTERS) else { return content.to_owned() };
    let beginning = marked.map_or_else(|| text[..at].to_owned(), |marked| marked.marks.wrap(&text[..at]));
    format!("{beginning}\n[the rest is left out]")
}

#[cfg(test)]
mod tests {
    use agentd_base::Marks;
    use agentd_inference::ChatRole;
    use agentd_llm::ToolCall;
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> ModelMessage {
        ModelMessage::User { content: text.to_owned() }
    }

    fn called(name: &str, input: serde_json::Value) -> ModelMessage {
        ModelMessage::Assistant { content: String::new(), tool_calls: vec![ToolCall::new("call_1_0", name, input)] }
    }

    fn result(name: &str, content: &str) -> ModelMessage {
        ModelMessage::Tool {
            call_id: "call_1_0".to_owned(),
            name: name.to_owned(),
            content: content.to_owned(),
            is_error: false,
        }
    }

    #[test]
    fn results_are_appended_to_their_question() {
        let chat = conversation(vec![
            user("Hi"),
            ModelMessage::Assistant { content: "Hello".to_owned(), tool_calls: Vec::new() },
            user("Read a.txt"),
            called("read_file", json!({"path": "a.txt"})),
            result("read_file", &"x".repeat(7000)),
        ]);
        let roles: Vec<ChatRole> = chat.iter().map(|message| message.role).collect();
        assert_eq!(roles, [ChatRole::User, ChatRole::Assistant, ChatRole::User]);
        let last = &chat[2].content;
        assert!(last.starts_with("Read a.txt\n\nThe tool read_file answered:") && last.contains("left out"), "{last}");
        assert!(last.len() < 6200);
    }

    #[test]
    fn truncated_result_keeps_its_marks() {
        let long = truncated(&Marks::new("k").wrap(&"x".repeat(7000)));
        let marked = MarkedText::parse(&long).unwrap();
        assert_eq!((marked.text.len(), marked.rest), (MAX_RESULT_CHARACTERS, "\n[the rest is left out]"));
    }
}
