//! Planning, reflection and summarization of turns.

use agentd_testing_llm::DocumentedFailure;

use super::*;

#[tokio::test]
async fn plan_is_written_before_tools_run() {
    let bench = Bench::with(vec![says("1. look"), calls(&[("look", json!({}))]), says("Seen.")]).await;
    bench
        .fixture
        .app
        .put("/api/settings/strategy")
        .json(&json!({"planning": "always"}))
        .send()
        .await
        .expect_status(200);
    let events = bench.fixture.exchange(&json!({"content": "Look."})).await;
    assert_eq!(kinds(&events), ["start", "tool_use", "tool_result", "tool_use", "tool_result", "token", "done"]);
    assert_eq!((&events[1].data["tool"], &events[2].data["output"]["text"]), (&json!("plan"), &json!("1. look")));
    assert!(bench.request(0).get("tools").is_none(), "planning offers no tools");
    assert!(bench.request(1)["messages"][0]["content"].as_str().expect("text").contains("Your plan:\n1. look"));
    assert_eq!(token_text(&events), "Seen.");
    assert_eq!(bench.fixture.usage().await.len(), 3);
    assert_eq!(last(&events).data["input_tokens"], 21);
    // With `auto`, only requests with several parts are planned.
    bench.fixture.app.put("/api/settings/strategy").json(&json!({"planning": "auto"})).send().await.expect_status(200);
    let events = bench.fixture.exchange(&json!({"content": "Look."})).await;
    assert_eq!(kinds(&events), ["start", "token", "done"]);
    let long = json!({"content": "Look at this. Then look at that. Then tell me which one is better."});
    let events = bench.fixture.exchange(&long).await;
    assert_eq!(events[1].data["tool"], "plan");
}

#[tokio::test]
async fn reflection_revises_an_answer() {
    let replies = vec![calls(&[("look", json!({}))]), says("It is b."), says("It is a."), says("FINE")];
    let bench = Bench::with(replies).await;
    bench.fixture.app.put("/api/settings/strategy").json(&json!({"reflection": true})).send().await.expect_status(200);
    let events = bench.fixture.exchange(&json!({"content": "What?"})).await;
    assert_eq!(token_text(&events), "It is b.\n\nIt is a.");
    assert_eq!(bench.stored_reply(&events).await["content"], "It is b.\n\nIt is a.");
    assert_eq!(bench.fixture.usage().await.len(), 3);
    // Without tool results there is nothing to check the answer against.
    let events = bench.fixture.exchange(&json!({"content": "What?"})).await;
    assert_eq!((token_text(&events).as_str(), bench.fixture.usage().await.len()), ("FINE", 4));
}

#[tokio::test]
async fn long_conversation_is_summarized_but_stored_in_full() {
    let app = TestApp::start_with(|source| {
        let folder = source.data_dir.clone().expect("a folder");
        std::fs::create_dir_all(&folder).expect("the folder");
        let prices =
            "[[price]]\nprovider = \"openai\"\nmodel = \"tiny\"\ninput = 1\noutput = 1\ncontext_window = 2000\n";
        std::fs::write(folder.join("prices.toml"), prices).expect("a price table");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&folder, private).expect("a private folder");
    })
    .await;
    let fixture = ChatFixture::on(
        app,
        Script::by(|request| {
            let is_minutes =
                request.body["messages"][0]["content"].as_str().is_some_and(|text| text.contains("minutes"));
            if is_minutes { says("They spoke of the moon.") } else { says("Yes.") }
        }),
    )
    .await;
    let settings = json!({"default_provider": "openai", "default_model": "tiny"});
    fixture.app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let events = fixture.exchange(&json!({"content": format!("first {}", "moon ".repeat(300))})).await;
    let id = started(&events, "conversation_id");
    for _ in 0..5 {
        fixture.exchange(&json!({"content": format!("more {}", "moon ".repeat(300)), "conversation_id": id})).await;
    }
    let requests = fixture.vendor.requests();
    let newest = &requests.last().expect("a request").body;
    let text = newest.to_string();
    assert!(text.contains("They spoke of the moon.") && !text.contains("first moon"), "{text}");
    let minutes = requests.iter().filter(|request| request.body.to_string().contains("keep the minutes")).count();
    assert!((1..=5).contains(&minutes), "{minutes} summaries");
    assert_eq!(fixture.conversation(&id).await["messages"].as_array().expect("messages").len(), 12);
    // Truncating the messages also discards their summary.
    let cut = json!({"conversation_id": id, "keep_last": 0});
    fixture.app.post("/api/chat/messages/truncate").json(&cut).send().await.expect_status(200);
    fixture.exchange(&json!({"content": "hello", "conversation_id": id})).await;
    let requests = fixture.vendor.requests();
    assert!(!requests.last().expect("a request").body.to_string().contains("They spoke of the moon."));
}

/// Creates a vendor with an unknown model that writes summaries on request.
async fn with_unknown_model(refuses: impl Fn(&Value) -> bool + Send + Sync + 'static) -> ChatFixture {
    let fixture = ChatFixture::with(Script::by(move |request| {
        let body = &request.body;
        if refuses(body) {
            Reply::failure(DocumentedFailure::ContextTooLong)
        } else if is_minutes(body) {
            says("They spoke of the moon.")
        } else {
            says("Yes.")
        }
    }))
    .await;
    let settings = json!({"default_provider": "openai", "default_model": "of-the-house"});
    fixture.app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    fixture
}

fn is_minutes(body: &Value) -> bool {
    body["messages"][0]["content"].as_str().is_some_and(|text| text.contains("keep the minutes"))
}

async fn inject(fixture: &ChatFixture, id: &str, count: usize, characters: usize) {
    for number in 0..count {
        let content = format!("mark-{number} {}", "x".repeat(characters));
        let message = json!({"conversation_id": id, "role": "user", "content": content});
        fixture.app.post("/api/chat/messages/inject").json(&message).send().await.expect_status(201);
    }
}

#[tokio::test]
async fn summary_covers_all_of_a_large_backlog() {
    let fixture = with_unknown_model(|_| false).await;
    let id = started(&fixture.exchange(&json!({"content": "hello"})).await, "conversation_id");
    inject(&fixture, &id, 40, 20_000).await;
    fixture.exchange(&json!({"content": "What did I say?", "conversation_id": id})).await;
    let requests = fixture.vendor.requests();
    let (last, before) = requests.split_last().expect("requests");
    assert!(last.body.to_string().contains("What did I say?") && !is_minutes(&last.body));
    assert!(last.body.to_string().contains("They spoke of the moon.") && last.body.to_string().len() < 400_000);
    let slices: Vec<String> =
        before.iter().filter(|request| is_minutes(&request.body)).map(|request| request.body.to_string()).collect();
    assert!(slices.len() > 1 && slices[1].contains("The minutes so far"), "{} slices", slices.len());
    for number in 0..40 {
        let mark = format!("mark-{number} ");
        assert!(slices.iter().any(|slice| slice.contains(&mark)) || last.body.to_string().contains(&mark), "{mark}");
    }
    // The summary replaces the messages in later requests.
    fixture.exchange(&json!({"content": "And now?", "conversation_id": id})).await;
    assert_eq!(fixture.vendor.requests().len(), requests.len() + 1);
}

#[tokio::test]
async fn summary_of_five_thousand_messages_covers_the_first_ones() {
    let fixture = with_unknown_model(|_| false).await;
    let made = fixture.app.post("/api/chat/conversations").json(&json!({})).send().await.expect_status(201).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let say = |role: &str, content: &str| {
        let message = json!({"conversation_id": id, "role": role, "content": content});
        let request = fixture.app.post("/api/chat/messages/inject").json(&message);
        async move { request.send().await.expect_status(201) }
    };
    say("system", "The owner is called Zeppelin.").await;
    say("user", "The code of the safe is 48151623.").await;
    for _ in 0..50 {
        futures_util::future::join_all((0..100).map(|_| say("user", "And so on."))).await;
    }
    fixture.exchange(&json!({"content": "What is the code?", "conversation_id": id})).await;
    let requests = fixture.vendor.requests();
    let (last, before) = requests.split_last().expect("requests");
    let minutes: Vec<String> =
        before.iter().filter(|request| is_minutes(&request.body)).map(|request| request.body.to_string()).collect();
    assert!(minutes.iter().any(|slice| slice.contains("48151623") && slice.contains("Zeppelin")), "{minutes:?}");
    let read: usize = minutes.iter().map(|slice| slice.matches("And so on.").count()).sum();
    let left = last.body.to_string().matches("And so on.").count();
    assert_eq!(
        (read + left, minutes.len()),
        (5_000, 2),
        "the messages before the first batch, and the older half of that batch"
    );
    assert!(last.body.to_string().contains("They spoke of the moon.") && left <= 150, "{left} remain");

    // The summary replaces the messages: later turns do not read them again.
    let before = requests.len();
    fixture.exchange(&json!({"content": "And now?", "conversation_id": id})).await;
    assert_eq!(fixture.vendor.requests().len(), before + 1);
}

#[tokio::test]
async fn many_short_turns_are_summarized() {
    let fixture = with_unknown_model(|_| false).await;
    let first = fixture.exchange(&json!({"content": "The code of the safe is 48151623."})).await;
    let id = started(&first, "conversation_id");
    for _ in 0..160 {
        fixture.exchange(&json!({"content": "And so on.", "conversation_id": id})).await;
    }
    let requests = fixture.vendor.requests();
    let minutes: Vec<&Value> = requests.iter().map(|request| &request.body).filter(|body| is_minutes(body)).collect();
    assert_eq!(minutes.len(), 1, "one summary, not one per turn");
    assert!(minutes[0].to_string().contains("48151623"));
    for request in requests.iter().filter(|request| !is_minutes(&request.body)) {
        let text = request.body.to_string();
        assert!(text.contains("48151623") || text.contains("They spoke of the moon."), "{text}");
    }
}

#[tokio::test]
async fn messages_without_a_summary_are_reported_as_left_out() {
    let fixture = ChatFixture::with(Script::by(move |request| match is_minutes(&request.body) {
        true => Reply::failure(DocumentedFailure::NoCredit),
        false => says("Yes."),
    }))
    .await;
    let id = started(&fixture.exchange(&json!({"content": "hello"})).await, "conversation_id");
    inject(&fixture, &id, 410, 1).await;
    let events = fixture.exchange(&json!({"content": "What did I say?", "conversation_id": id})).await;
    assert_eq!(token_text(&events), "Yes.");
    let text = fixture.vendor.requests().last().expect("a request").body.to_string();
    assert!(text.contains("were left out") && text.contains("mark-409"), "{text}");
    // Nothing is lost: the next turn retries the summary.
    fixture.exchange(&json!({"content": "And now?", "conversation_id": id})).await;
    let minutes = fixture.vendor.requests().iter().filter(|request| is_minutes(&request.body)).count();
    assert!(minutes >= 2, "{minutes}");
}

#[tokio::test]
async fn prompt_rejected_as_too_long_is_summarized() {
    let fixture = with_unknown_model(|body| body.to_string().len() > 60_000).await;
    let id = started(&fixture.exchange(&json!({"content": "hello"})).await, "conversation_id");
    inject(&fixture, &id, 20, 5_000).await;
    let events = fixture.exchange(&json!({"content": "What did I say?", "conversation_id": id})).await;
    assert_eq!((last(&events).event.as_str(), token_text(&events).as_str()), ("done", "Yes."), "{events:?}");
    let requests = fixture.vendor.requests();
    let text = requests.last().expect("a request").body.to_string();
    assert!(
        text.contains("They spoke of the moon.") && text.contains("mark-19") && !text.contains("mark-0 "),
        "{text}"
    );
    assert!(!text.contains("were left out"), "no message is left out");
    assert!(requests.iter().any(|request| is_minutes(&request.body) && request.body.to_string().contains("mark-0 ")));
}
