//! Budgets: what is set aside before a call and settled after it, for all calls and for those of an agent.

use std::time::Duration;

use agentd_llm::{ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Gate, RecordedRequest, Reply, Script};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::talk::{Talk, create_agent};
use crate::support::{Eventually, TestApp, TestProcess, TestResponse};

/// An answer may take nearly all of it, so that nothing of use is left beside one.
const LIMIT: u64 = 40_000;
const LONG_ANSWER: u64 = 39_000;

fn used(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, source: UsageSource::Provider, ..Usage::default() }
}

async fn set(app: &TestApp, settings: Value) {
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
        eventually.look_again().await;
    }
}

fn message() -> Value {
    json!({"content": "hello", "agent_id": "scout"})
}

fn send(app: &TestApp, message: &Value) -> impl Future<Output = TestResponse> + use<> {
    app.post("/api/chat/messages/stream").json(message).send()
}

/// How many came to their end; the others were refused by a budget before they began.
fn done(answers: &[TestResponse]) -> usize {
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
async fn turns_at_once_do_not_run_through_a_budget_that_one_fits_into() {
    let gate = Gate::new();
    let reply = Reply::text(["hi"], used(1_000, LIMIT - 1_000)).gated(&gate);
    let talk = Talk::with(Script::always(reply)).await;
    set(&talk.app, json!({"daily_token_limit": LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let turns = join_all((0..32).map(|_| send(&talk.app, &message())));
    let release = async {
        let mut eventually = Eventually::new();
        while talk.vendor.requests().is_empty() {
            eventually.look_again().await;
        }
        assert!(reserved(&talk.app).await <= LIMIT);
        gate.open();
    };
    let (answers, ()) = tokio::join!(turns, release);
    assert_eq!((done(&answers), talk.vendor.requests().len()), (1, 1));
    until_nothing_is_reserved(&talk.app).await;
}

#[tokio::test]
async fn replicas_share_what_is_set_aside() {
    let gate = Gate::new();
    let reply = Reply::text(["hi"], used(1_000, LIMIT - 1_000)).gated(&gate);
    let talk = Talk::with(Script::always(reply)).await;
    let Some(replica) = talk.app.replica().await else { return };
    set(&talk.app, json!({"total_token_limit": LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let turns = (0..32).map(|number| send(if number % 2 == 0 { &talk.app } else { &replica }, &message()));
    let release = async {
        let mut eventually = Eventually::new();
        while talk.vendor.requests().is_empty() {
            eventually.look_again().await;
        }
        gate.open();
    };
    let (answers, ()) = tokio::join!(join_all(turns), release);
    let done = answers.iter().filter(|answer| answer.status.as_u16() == 200).count();
    let refused = answers.iter().filter(|answer| answer.text().contains("budget_exhausted")).count();
    assert_eq!((done, refused, talk.vendor.requests().len()), (1, 31, 1));
}

#[tokio::test]
async fn those_that_fit_one_after_the_other_wait_for_their_turn() {
    let talk = Talk::with(Script::always(Reply::text(["hi"], used(50, 50)))).await;
    set(&talk.app, json!({"daily_token_limit": LIMIT, "max_output_tokens": LONG_ANSWER})).await;
    let answers = join_all((0..8).map(|_| send(&talk.app, &message()))).await;
    assert_eq!(done(&answers), 8);
    until_nothing_is_reserved(&talk.app).await;
}

#[tokio::test]
async fn the_last_call_is_cut_to_what_is_left() {
    let reply = |request: &RecordedRequest| {
        let is_first = request.body["messages"].to_string().contains("first");
        Reply::text(["hi"], used(100, if is_first { LIMIT - 5_100 } else { 1 }))
    };
    let talk = Talk::with(Script::by(reply)).await;
    set(&talk.app, json!({"daily_token_limit": LIMIT})).await;
    let most = |at: usize| {
        let body = talk.vendor.requests()[at].body.clone();
        body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64())
    };
    let first = send(&talk.app, &json!({"content": "first", "agent_id": "scout"})).await.expect_status(200);
    assert!(first.text().contains("event: done"));
    // The model could write more than the whole budget.
    let most_at_first = most(0).expect("a limit");
    assert!((LIMIT - 5_000..LIMIT).contains(&most_at_first), "{most_at_first}");
    send(&talk.app, &message()).await.expect_status(200);
    let left = most(1).expect("a limit");
    assert!(left < 5_000, "{left}");
    // What is asked is more than what is left, and is not sent.
    let long = json!({"content": "word ".repeat(5_000), "agent_id": "scout"});
    send(&talk.app, &long).await.expect_error(429, "budget_exhausted");
    assert_eq!(talk.vendor.requests().len(), 2);
}

#[tokio::test]
async fn a_budget_that_ends_within_a_turn_ends_it() {
    let call = ToolCall::new("call_1", "list_files", json!({}));
    let replies = [Reply::tool_calls(vec![call], used(1_000, LIMIT)), Reply::text(["never"], used(1, 1))];
    let talk = Talk::with(Script::queue(replies)).await;
    set(&talk.app, json!({"daily_token_limit": LIMIT})).await;
    let events = talk.exchange(&message()).await;
    let last = events.last().expect("events");
    assert_eq!((last.event.as_str(), &last.data["code"]), ("error", &json!("rate_limit")), "{last:?}");
    assert!(last.data.to_string().contains("daily_token_limit"), "{last:?}");
    assert_eq!(talk.vendor.requests().len(), 1);
    until_nothing_is_reserved(&talk.app).await;
}

#[tokio::test]
async fn an_agent_has_a_budget_of_its_own() {
    let talk = Talk::with(Script::always(Reply::text(["hi"], used(60, LIMIT)))).await;
    create_agent(&talk.app, "other").await;
    let limit = async |agent: &str, limit: Value| {
        let change = json!({"profile": {"daily_token_limit": limit}});
        let path = format!("/api/agents/{agent}");
        let view = talk.app.patch(&path).json(&change).send().await.expect_status(200).json();
        assert_eq!(view["profile"].get("daily_token_limit"), Some(&limit).filter(|limit| !limit.is_null()));
    };
    limit("scout", json!(LIMIT)).await;
    send(&talk.app, &message()).await.expect_status(200);
    let refused = send(&talk.app, &message()).await.expect_error(429, "budget_exhausted");
    assert!(refused.text().contains("agent") && refused.header("retry-after").is_some(), "{}", refused.text());
    // The others have theirs.
    send(&talk.app, &json!({"content": "hello", "agent_id": "other"})).await.expect_status(200);
    limit("scout", json!(10 * LIMIT)).await;
    send(&talk.app, &message()).await.expect_status(200);
    limit("scout", json!(0)).await;
    send(&talk.app, &message()).await.expect_error(429, "budget_exhausted");
    // 15 hours to midnight, and a day that begins anew.
    limit("scout", json!(LIMIT)).await;
    talk.app.clock.advance(Duration::from_secs(15 * 3_600));
    send(&talk.app, &message()).await.expect_status(200);
    limit("scout", Value::Null).await;
    send(&talk.app, &message()).await.expect_status(200);
}

#[tokio::test]
async fn a_budget_of_an_agent_that_is_none_is_refused() {
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
async fn what_a_turn_that_was_refused_set_aside_is_free_again() {
    let gate = Gate::new();
    let talk = Talk::with(Script::always(Reply::text(["hi"], used(10, 10)).gated(&gate))).await;
    let conversation = json!({"agent_id": "scout", "title": "t"});
    let made = talk.app.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json();
    let message = json!({"content": "hello", "conversation_id": made["id"]});
    set(&talk.app, json!({"daily_token_limit": LIMIT * 10})).await;
    let release = async {
        let mut eventually = Eventually::new();
        while talk.vendor.requests().is_empty() {
            eventually.look_again().await;
        }
        let one = reserved(&talk.app).await;
        send(&talk.app, &message).await.expect_error(409, "turn_in_progress");
        let mut eventually = Eventually::new();
        while reserved(&talk.app).await != one {
            eventually.look_again().await;
        }
        gate.open();
    };
    let (answer, ()) = tokio::join!(send(&talk.app, &message), release);
    answer.expect_status(200);
    until_nothing_is_reserved(&talk.app).await;
}

#[tokio::test]
async fn without_a_budget_nothing_is_set_aside() {
    let gate = Gate::new();
    let talk = Talk::with(Script::always(Reply::text(["hi"], used(10, 10)).gated(&gate))).await;
    let release = async {
        let mut eventually = Eventually::new();
        while talk.vendor.requests().is_empty() {
            eventually.look_again().await;
        }
        assert_eq!(reserved(&talk.app).await, 0);
        gate.open();
    };
    let (answer, ()) = tokio::join!(send(&talk.app, &message()), release);
    answer.expect_status(200);
}

#[tokio::test]
async fn a_killed_daemon_leaves_nothing_set_aside() {
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
    process.make_agent("scout").await;
    let settings = json!({"daily_token_limit": LIMIT, "max_output_tokens": LONG_ANSWER});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let hanging = json!({"content": "hang", "agent_id": "scout"});
    let mut stream = process.post("/api/chat/messages/stream").json(&hanging).stream().await;
    while stream.next().await.expect("the stream goes on").event != "token" {}
    process.kill();
    process.spawn().await;
    let answer = process.post("/api/chat/messages/stream").json(&message()).send().await.expect_status(200);
    assert!(answer.text().contains("event: done"), "{}", answer.text());
}
