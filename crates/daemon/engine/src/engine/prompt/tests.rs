use proptest::prelude::*;

use super::*;

fn marker() -> Marker {
    Marker::new([1; 32])
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User { content: text.to_owned() }
}

fn assistant(text: &str) -> ModelMessage {
    ModelMessage::Assistant { content: text.to_owned(), tool_calls: Vec::new() }
}

#[test]
fn roles_alternate_and_notes_join_the_system_prompt() {
    let prompt = Prompt::new(
        "S".to_owned(),
        vec![
            HistoryMessage::Assistant("welcome".to_owned()),
            HistoryMessage::User("a".to_owned()),
            HistoryMessage::Assistant(String::new()),
            HistoryMessage::Note("N".to_owned()),
            HistoryMessage::User("b".to_owned()),
        ],
        false,
        &marker(),
    );
    assert_eq!(prompt.system_text(), "S\n\nN");
    assert_eq!(prompt.for_model(), [user(OPENING_MESSAGE), assistant("welcome"), user("a\n\nb")]);
}

#[test]
fn only_the_last_of_consecutive_user_messages_is_the_question() {
    let earlier = (0..10).map(|number| HistoryMessage::User(format!("{number} {}", "x".repeat(400))));
    let mut prompt = Prompt::new("S".to_owned(), earlier.collect(), false, &marker());
    let (old, through) = prompt.oldest_beyond(500, 350, usize::MAX).unwrap();
    assert_eq!((old.len(), through), (7, 6));
    prompt.replace_with_summary("seven were here".to_owned(), through);
    assert_eq!(prompt.messages.len(), 3);
    let joined = prompt.for_model();
    assert!(matches!(&joined[..], [ModelMessage::User { content }] if content.starts_with("7 ")), "{joined:?}");
    assert!(prompt.fit(0));
    assert_eq!(prompt.messages.len(), 1);
}

#[test]
fn number_of_entries_is_limited() {
    let earlier = (0..10).map(|number| match number % 2 {
        0 => HistoryMessage::User(number.to_string()),
        _ => HistoryMessage::Assistant(number.to_string()),
    });
    let history: Vec<HistoryMessage> = earlier.chain([HistoryMessage::User("last".to_owned())]).collect();
    let prompt = Prompt::new("S".to_owned(), history, false, &marker());
    assert_eq!(prompt.oldest_beyond(10_000, 5_000, 11), None);
    let (old, through) = prompt.oldest_beyond(10_000, 5_000, 10).unwrap();
    assert_eq!((old.len(), through), (6, 5), "5 entries of 11 are left");
    assert_eq!(prompt.oldest_beyond(10_000, 5_000, 1).unwrap().1, 9, "the question is");
}

#[test]
fn oldest_messages_are_dropped_first_and_the_question_stays() {
    let long = "x".repeat(400);
    let history = vec![
        HistoryMessage::User(long.clone()),
        HistoryMessage::Assistant(long.clone()),
        HistoryMessage::User("last but one".to_owned()),
        HistoryMessage::Assistant("yes".to_owned()),
        HistoryMessage::User("last".to_owned()),
    ];
    let mut prompt = Prompt::new("S".to_owned(), history, false, &marker());
    assert!(!prompt.fit(10_000));
    assert!(prompt.fit(60));
    assert_eq!(prompt.messages, [user("last but one"), assistant("yes"), user("last")]);
    assert!(prompt.system_text().ends_with(MESSAGES_DROPPED_NOTE));
    assert!(prompt.fit(0));
    assert_eq!(prompt.messages, [user("last")]);
    assert!(!prompt.fit(0), "the question itself is never cut");
}

#[test]
fn prompt_limit_leaves_room_for_an_answer() {
    assert_eq!(prompt_limit(8192, None), 6144);
    assert_eq!(prompt_limit(8192, Some(100_000)), 4096);
    assert_eq!(prompt_limit(200_000, Some(1000)), 199_000);
}

fn history() -> impl Strategy<Value = Vec<HistoryMessage>> {
    let one = (0..3u8, "[ -~é]{0,60}").prop_map(|(role, text)| match role {
        0 => HistoryMessage::User(text),
        1 => HistoryMessage::Assistant(text),
        _ => HistoryMessage::Note(text),
    });
    proptest::collection::vec(one, 0..20)
}

proptest! {
    #[test]
    fn any_history_yields_alternating_roles(history in history(), question in "[a-z]{1,20}", limit in 0u64..400) {
        let mut history = history;
        history.push(HistoryMessage::User(question.clone()));
        let mut prompt = Prompt::new("S".to_owned(), history, false, &marker());
        let whole = prompt.tokens();
        prompt.fit(limit);
        prop_assert!(prompt.tokens() <= whole);
        prop_assert!(prompt.tokens() <= limit || prompt.messages.len() == 1);
        let messages = prompt.for_model();
        for (position, message) in messages.iter().enumerate() {
            prop_assert_eq!(matches!(message, ModelMessage::User { .. }), position % 2 == 0);
        }
        let ends_with_question =
            matches!(messages.last(), Some(ModelMessage::User { content }) if content.ends_with(&question));
        prop_assert!(ends_with_question);
    }
}
