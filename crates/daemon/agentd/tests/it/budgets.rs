//! Token budgets: reservations before a call and settlement after it, for all calls and per agent.

use std::time::Duration;

use agentd_llm::{ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Gate, RecordedRequest, Reply, Script};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::chat_fixture::{ChatFixture, create_agent};
use crate::support::{Eventually, TestApp, TestProcess, TestResponse};

/// Daily limit. One answer may use nearly all of it, so that a second call does not fit.
const TOKEN_LIMIT: u64 = 40_000;
const LONG_ANSWER: u64 = 39_000;

fn used(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, source: UsageSource::Provider, ..Usage::default() }
}

async fn set_settings(app: &TestApp, settings: Value) {
    app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
}

async fn reserved(app: &TestApp) -> u64 {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS tokens FROM budget_reservations";
    read.fetch_one(sql, agentd_store::args![]).await.expect("a sum").get("tokens").expect("a number")
}

async fn until_nothing_is_reserved(app: &TestApp) {
    let mut eventually = Eventually::new();
    while reserved(app).await > 0 {
        eventually.retry().await;
    }
}

fn message() -> Value {
    json!({"content": "hello", "agent_id": "scout"})
}

fn send(app: &TestApp, message: &Value) -> impl Future<Output = TestResponse> + use<> {
    app.post("/api/chat/messages/stream").json(message).send()
}

/// Counts the answers that are complete; asserts that the others were rejected by a budget before they began.
fn count_done(answers: &[TestResponse]) -> usize {
    let is_done = |answer: &&TestResponse| match answer.status.as_u16() {
        200 => {
            assert!(answer.text().contains("event: done"), "{}", answer.text());
            true
        }
        429 => {
            assert!(answer.text().contains("budget_exhausted"), "{}", answer.text());
            assert!(answer.header("retry-after").is_some());
            false
        }
        status => panic!("{status}: {}", answer.text()),
    };
    answers.iter().filter(is_done).count()
}

#[tokio::test]
async fn concurrent_turns_do_not_exceed_a_budget_for_one() {
    let gate = Gate::new();
    let reply = Reply::text(["hi"], used(1_000, TOKEN_LIMIT - 1_000)).gated(&gate);
    let fixture = ChatFixture::with(Script::always(reply)).await;
    set_settings(&fixture.app, json!({"daily_token_limit": TOKEN_LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let turns = join_all((0..32).map(|_| send(&fixture.app, &message())));
    let release = async {
        let mut eventually = Eventually::new();
        while fixture.vendor.requests().is_empty() {
            eventually.retry().await;
        }
        assert!(reserved(&fixture.app).await <= TOKEN_LIMIT);
        gate.open();
    };
    let (answers, ()) = tokio::join!(turns, release);
    assert_eq!((count_done(&answers), fixture.vendor.requests().len()), (1, 1));
    until_nothing_is_reserved(&fixture.app).await;
}

#[tokio::test]
async fn replicas_share_reservations() {
    let gate = Gate::new();
    let reply = Reply::text(["hi"], used(1_000, TOKEN_LIMIT - 1_000)).gated(&gate);
    let fixture = ChatFixture::with(Script::always(reply)).await;
    let Some(replica) = fixture.app.replica().await else { return };
    set_settings(&fixture.app, json!({"total_token_limit": TOKEN_LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let turns = (0..32).map(|number| send(if number % 2 == 0 { &fixture.app } else { &replica }, &message()));
    let release = async {
        let mut eventually = Eventually::new();
        while fixture.vendor.requests().is_empty() {
            eventually.retry().await;
        }
        gate.open();
    };
    let (answers, ()) = tokio::join!(join_all(turns), release);
    let done = answers.iter().filter(|answer| answer.status.as_u16() == 200).count();
    let refused = answers.iter().filter(|answer| answer.text().contains("budget_exhausted")).count();
    assert_eq!((done, refused, fixture.vendor.requests().len()), (1, 31, 1));
}

#[tokio::test]
async fn turns_that_fit_one_after_the_other_wait() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], used(50, 50)))).await;
    set_settings(&fixture.app, json!({"daily_token_limit": TOKEN_LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let answers = join_all((0..8).map(|_| send(&fixture.app, &message()))).await;
    assert_eq!(count_done(&answers), 8);
    until_nothing_is_reserved(&fixture.app).await;
}

#[tokio::test]
async fn last_call_is_limited_to_the_remaining_budget() {
    let reply = |request: &RecordedRequest| {
        let is_first = request.body["messages"].to_string().contains("first");
        Reply::text(["hi"], used(100, if is_first { TOKEN_LIMIT - 5_100 } else { 1 }))
    };
    let fixture = ChatFixture::with(Script::by(reply)).await;
    set_settings(&fixture.app, json!({"daily_token_limit": TOKEN_LIMIT})).await;
    let max_tokens = |at: usize| {
        let body = fixture.vendor.requests()[at].body.clone();
        body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64())
    };
    let first = send(&fixture.app, &json!({"content": "first", "agent_id": "scout"})).await.expect_status(200);
    assert!(first.text().contains("event: done"));
    // The model could write more than the whole budget.
    let first_max_tokens = max_tokens(0).expect("a limit");
    assert!((TOKEN_LIMIT - 5_000..TOKEN_LIMIT).contains(&first_max_tokens), "{first_max_tokens}");
    send(&fixture.app, &message()).await.expect_status(200);
    let left = max_tokens(1).expect("a limit");
    assert!(left < 5_000, "{left}");
    // A prompt larger than the remaining budget is not sent.
    let long = json!({"content": "word ".repeat(5_000), "agent_id": "scout"});
    send(&fixture.app, &long).await.expect_error(429, "budget_exhausted");
    assert_eq!(fixture.vendor.requests().len(), 2);
}

#[tokio::test]
async fn budget_exhausted_within_a_turn_ends_it() {
    let call = ToolCall::new("call_1", "list_files", json!({}));
    let replies = [Reply::tool_calls(vec![call], used(1_000, TOKEN_LIMIT)), Reply::text(["never"], used(1, 1))];
    let fixture = ChatFixture::with(Script::queue(replies)).await;
    set_settings(&fixture.app, json!({"daily_token_limit": TOKEN_LIMIT})).await;
    let events = fixture.exchange(&message()).await;
    let last = events.last().expect("events");
    assert_eq!((last.event.as_str(), &last.data["code"]), ("error", &json!("rate_limit")), "{last:?}");
    assert!(last.data.to_string().contains("daily_token_limit"), "{last:?}");
    assert_eq!(fixture.vendor.requests().len(), 1);
    until_nothing_is_reserved(&fixture.app).await;
}

#[tokio::test]
async fn agent_budget_is_independent_of_others() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], used(60, TOKEN_LIMIT)))).await;
    create_agent(&fixture.app, "other").await;
    let limit = async |agent: &str, limit: Value| {
        let change = json!({"profile": {"daily_token_limit": limit}});
        let path = format!("/api/agents/{agent}");
        let view = fixture.app.patch(&path).json(&change).send().await.expect_status(200).json();
        assert_eq!(view["profile"].get("daily_token_limit"), Some(&limit).filter(|limit| !limit.is_null()));
    };
    limit("scout", json!(TOKEN_LIMIT)).await;
    send(&fixture.app, &message()).await.expect_status(200);
    let refused = send(&fixture.app, &message()).await.expect_error(429, "budget_exhausted");
    assert!(refused.text().contains("agent") && refused.header("retry-after").is_some(), "{}", refused.text());
    // Other agents have their own budget.
    send(&fixture.app, &json!({"content": "hello", "agent_id": "other"})).await.expect_status(200);
    limit("scout", json!(10 * TOKEN_LIMIT)).await;
    send(&fixture.app, &message()).await.expect_status(200);
    limit("scout", json!(0)).await;
    send(&fixture.app, &message()).await.expect_error(429, "budget_exhausted");
    // The budget resets at midnight, 15 hours later.
    limit("scout", json!(TOKEN_LIMIT)).await;
    fixture.app.clock.advance(Duration::from_secs(15 * 3_600));
    send(&fixture.app, &message()).await.expect_status(200);
    limit("scout", Value::Null).await;
    send(&fixture.app, &message()).await.expect_status(200);
}

#[tokio::test]
async fn invalid_agent_budget_is_rejected() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let before = app.get("/api/agents/scout").send().await.json();
    for bad in [json!(-1), json!(1.5), json!("many"), json!(1_000_000_000_001_u64), json!([])] {
        let change = json!({"profile": {"daily_token_limit": bad}});
        let refused = app.patch("/api/agents/scout").json(&change).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["profile.daily_token_limit"], "{bad}");
        let agent =
            json!({"svc_name": "new", "user_name": "A", "archetype": "coach", "profile": {"daily_token_limit": bad}});
        let refused = app.post("/api/agents").json(&agent).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["profile.daily_token_limit"], "{bad}");
    }
    assert_eq!(app.get("/api/agents/scout").send().await.json(), before);
    let agent =
        json!({"svc_name": "new", "user_name": "A", "archetype": "coach", "profile": {"daily_token_limit": 5.0}});
    let made = app.post("/api/agents").json(&agent).send().await.expect_status(201).json();
    assert_eq!(made["profile"]["daily_token_limit"], 5);
}

#[tokio::test]
async fn reservation_of_a_rejected_turn_is_released() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], used(10, 10)).gated(&gate))).await;
    let conversation = json!({"agent_id": "scout", "title": "t"});
    let made = fixture.app.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json();
    let message = json!({"content": "hello", "conversation_id": made["id"]});
    set_settings(&fixture.app, json!({"daily_token_limit": TOKEN_LIMIT * 10})).await;
    let release = async {
        let mut eventually = Eventually::new();
        while fixture.vendor.requests().is_empty() {
            eventually.retry().await;
        }
        let one = reserved(&fixture.app).await;
        send(&fixture.app, &message).await.expect_error(409, "turn_in_progress");
        let mut eventually = Eventually::new();
        while reserved(&fixture.app).await != one {
            eventually.retry().await;
        }
        gate.open();
    };
    let (answer, ()) = tokio::join!(send(&fixture.app, &message), release);
    answer.expect_status(200);
    until_nothing_is_reserved(&fixture.app).await;
}

#[tokio::test]
async fn no_reservation_is_made_without_a_budget() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], used(10, 10)).gated(&gate))).await;
    let release = async {
        let mut eventually = Eventually::new();
        while fixture.vendor.requests().is_empty() {
            eventually.retry().await;
        }
        assert_eq!(reserved(&fixture.app).await, 0);
        gate.open();
    };
    let (answer, ()) = tokio::join!(send(&fixture.app, &message()), release);
    answer.expect_status(200);
}

#[tokio::test]
async fn killed_daemon_leaves_no_reservations() {
    let vendor = FakeVendor::start(
        Vendor::Openai,
        Script::by(|request| match request.body["messages"].to_string().contains("hang") {
            true => Reply::text(["a"], used(1, 1)).ending(agentd_testing_llm::Ending::Hang),
            false => Reply::text(["hi"], used(10, 10)),
        }),
    )
    .await
    .expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    process.create_agent("scout").await;
    let settings = json!({"daily_token_limit": TOKEN_LIMIT, "max_output_tokens": LONG_ANSWER});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let hanging = json!({"content": "hang", "agent_id": "scout"});
    let mut stream = process.post("/api/chat/messages/stream").json(&hanging).stream().await;
    while stream.next().await.expect("another event").event != "token" {}
    process.kill();
    process.spawn().await;
    let answer = process.post("/api/chat/messages/stream").json(&message()).send().await.expect_status(200);
    assert!(answer.text().contains("event: done"), "{}", answer.text());
}
