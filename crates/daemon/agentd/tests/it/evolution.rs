//! Evolution of agents: reflection after turns, proposals, and recovery after a crash.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agentd_store::args;
use agentd_testing_llm::{DocumentedFailure, Gate, Reply, Script};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, started};

const SCOUT: &str = "/api/agents/scout";
const LEARNED_ANSWER: &str = "REASON: Ada measures in metres.\nINSTRUCTIONS:\nBe brief.\nUse metres.";

/// A daemon with an agent whose model answers chat messages, and takes its answers to reflection questions from a list.
struct School {
    fixture: ChatFixture,
    asked: watch::Receiver<usize>,
    conversation: Mutex<Option<String>>,
}

fn is_question(body: &Value) -> bool {
    body["messages"].to_string().contains("Your present instructions")
}

fn says(text: &str) -> Reply {
    Reply::text([text], TEST_USAGE)
}

impl School {
    async fn with(answers: Vec<Reply>) -> Self {
        let (asking, asked) = watch::channel(0);
        let answers: Mutex<VecDeque<Reply>> = Mutex::new(answers.into());
        let script = Script::by(move |request| {
            if !is_question(&request.body) {
                return says("That is 3 metres.");
            }
            asking.send_modify(|count| *count += 1);
            answers.lock().pop_front().unwrap_or_else(|| Reply::failure(DocumentedFailure::WrongKey))
        });
        let school = Self { fixture: ChatFixture::with(script).await, asked, conversation: Mutex::default() };
        school.change(json!({"profile": {"instructions": "Be brief."}})).await;
        school
    }

    fn app(&self) -> &TestApp {
        &self.fixture.app
    }

    async fn change(&self, change: Value) {
        self.app().patch(SCOUT).json(&change).send().await.expect_status(200);
    }

    /// Runs turns, then the workers.
    async fn chat(&self, turns: usize) {
        for number in 0..turns {
            self.app().clock.advance(Duration::from_secs(10));
            let mut message = json!({"content": format!("How high is it, in metres? ({number})"), "agent_id": "scout"});
            let known = self.conversation.lock().clone();
            if let Some(id) = known {
                message["conversation_id"] = json!(id);
            }
            let events = self.fixture.exchange(&message).await;
            *self.conversation.lock() = Some(started(&events, "conversation_id"));
        }
        self.app().run_workers().await;
    }

    fn questions(&self) -> Vec<Value> {
        let requests = self.fixture.vendor.requests();
        requests.into_iter().map(|request| request.body).filter(is_question).collect()
    }

    async fn instructions(&self) -> String {
        let agent = self.app().get(SCOUT).send().await.expect_status(200).json();
        agent["profile"]["instructions"].as_str().unwrap_or_default().to_owned()
    }

    async fn approvals(&self, status: &str) -> Vec<Value> {
        let list =
            self.app().get(&format!("/api/chat/approvals?status={status}")).send().await.expect_status(200).json();
        list["approvals"].as_array().expect("approvals").clone()
    }

    /// Returns the only pending proposal.
    async fn proposal(&self) -> Value {
        let pending = self.approvals("pending").await;
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending[0].clone()
    }

    fn answer(&self, proposal: &Value, decision: &str) -> crate::support::TestRequest {
        let path = format!("/api/chat/approvals/{}", proposal["id"].as_str().expect("an id"));
        self.app().post(&path).json(&json!({"decision": decision}))
    }

    /// Returns the source and reason of the newest version, and the number of versions.
    async fn newest_version(&self) -> (Value, Value, u64) {
        let list = self.app().get("/api/agents/scout/versions").send().await.expect_status(200).json();
        let newest = &list["versions"][0];
        (newest["source"].clone(), newest["reason"].clone(), list["total"].as_u64().expect("a number"))
    }
}

#[tokio::test]
async fn proposal_takes_effect_when_approved() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.chat(19).await;
    assert_eq!(school.questions().len(), 0);
    school.chat(1).await;
    let questions = school.questions();
    assert_eq!(questions.len(), 1);
    assert!(questions[0].get("tools").is_none());
    let system_prompt = questions[0]["messages"][0]["content"].as_str().expect("a system prompt");
    assert!(
        system_prompt.contains("You are scout") && system_prompt.contains("Never give yourself rights"),
        "{system_prompt}"
    );
    let shown = questions[0]["messages"][1]["content"].as_str().expect("a question");
    for part in ["\"Be brief.\"", r#""from":"owner","text":"How high is it, in metres? (0)""#, r#""from":"you""#] {
        assert!(shown.contains(part), "`{part}` is missing in: {shown}");
    }
    let proposal = school.proposal().await;
    assert_eq!((&proposal["kind"], &proposal["tool"]), (&json!("evolution"), &json!("evolution")));
    let input = json!({"agent": "scout", "instructions": "Be brief.\nUse metres.", "previous": "Be brief.",
        "reason": "Ada measures in metres."});
    assert_eq!(proposal["input"], input);
    assert_eq!(school.instructions().await, "Be brief.");

    let approved = school.answer(&proposal, "approve").send().await.expect_status(200).json();
    assert_eq!(approved["status"], "approved");
    assert_eq!(school.instructions().await, "Be brief.\nUse metres.");
    let (source, reason, total) = school.newest_version().await;
    assert_eq!((source, reason, total), (json!("evolution"), json!("Ada measures in metres."), 3));
    school.answer(&proposal, "approve").send().await.expect_error(409, "approval_answered");
    school.chat(19).await;
    assert_eq!(school.questions().len(), 1);
    // The model call is recorded like any other.
    assert_eq!(school.fixture.usage().await.len(), 40);
}

#[tokio::test]
async fn reflection_covers_only_messages_since_the_last_one() {
    let school = School::with(vec![says("NOTHING"), says(LEARNED_ANSWER)]).await;
    school.chat(20).await;
    assert_eq!((school.questions().len(), school.approvals("pending").await.len()), (1, 0));
    *school.conversation.lock() = None;
    school.app().clock.advance(Duration::from_secs(10));
    school.chat(19).await;
    assert_eq!(school.questions().len(), 1);
    school.chat(1).await;
    let questions = school.questions();
    let shown = questions[1]["messages"][1]["content"].as_str().expect("a question");
    assert!(!shown.contains(r#""conversation":2"#), "{shown}");
    school.proposal().await;
}

#[tokio::test]
async fn proposal_can_be_rejected_or_expires() {
    let school = School::with(vec![says(LEARNED_ANSWER), says(LEARNED_ANSWER)]).await;
    school.chat(20).await;
    school.answer(&school.proposal().await, "reject").send().await.expect_status(200);
    assert_eq!(school.instructions().await, "Be brief.");
    school.chat(20).await;
    let proposal = school.proposal().await;
    school.app().clock.advance(Duration::from_secs(7 * 24 * 60 * 60 - 600));
    school.app().run_workers().await;
    school.proposal().await;
    school.app().clock.advance(Duration::from_secs(600));
    school.app().run_workers().await;
    assert_eq!(school.approvals("expired").await.len(), 1);
    school.answer(&proposal, "approve").send().await.expect_error(409, "approval_expired");
    assert_eq!((school.instructions().await, school.newest_version().await.2), ("Be brief.".to_owned(), 2));
}

#[tokio::test]
async fn proposal_is_void_if_the_owner_changed_the_instructions() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.chat(20).await;
    let proposal = school.proposal().await;
    school.change(json!({"profile": {"instructions": "Be polite."}})).await;
    let refused = school.answer(&proposal, "approve").send().await.expect_error(409, "approval_void").json();
    assert!(
        refused["error"].as_str().expect("a sentence").contains("instructions changed after this proposal"),
        "{refused}"
    );
    assert_eq!(school.instructions().await, "Be polite.");
    let cancelled = school.approvals("cancelled").await;
    assert!(
        cancelled[0]["reason"].as_str().expect("a reason").contains("changed after this proposal"),
        "{cancelled:?}"
    );
    school.answer(&proposal, "approve").send().await.expect_error(409, "approval_answered");
}

#[tokio::test]
async fn one_proposal_is_pending_at_a_time() {
    let school =
        School::with(vec![says(LEARNED_ANSWER), says("REASON: more\nINSTRUCTIONS:\nBe polite in metres.")]).await;
    school.chat(20).await;
    let first = school.proposal().await;
    school.chat(21).await;
    assert_eq!(school.questions().len(), 1);
    assert_eq!(school.proposal().await, first);
    // An outdated proposal is replaced.
    school.change(json!({"profile": {"instructions": "Be polite."}})).await;
    school.chat(1).await;
    let second = school.proposal().await;
    assert_eq!((&second["input"]["previous"], school.approvals("cancelled").await.len()), (&json!("Be polite."), 1));
    school.answer(&second, "approve").send().await.expect_status(200);
    assert_eq!(school.instructions().await, "Be polite in metres.");
}

#[tokio::test]
async fn automatic_evolution_changes_the_instructions() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.change(json!({"evolution_choice": "auto"})).await;
    school.chat(20).await;
    assert_eq!(school.approvals("pending").await.len(), 0);
    assert_eq!(school.instructions().await, "Be brief.\nUse metres.");
    assert_eq!(school.newest_version().await, (json!("evolution"), json!("Ada measures in metres."), 3));
    school.app().post("/api/agents/scout/versions/2/restore").send().await.expect_status(200);
    assert_eq!(school.instructions().await, "Be brief.");
    assert_eq!(school.newest_version().await.0, json!("restore"));
}

#[tokio::test]
async fn disabled_evolution_asks_no_questions() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.change(json!({"evolution_choice": "off"})).await;
    school.chat(25).await;
    assert_eq!(school.questions().len(), 0);
    school.change(json!({"evolution_choice": "check"})).await;
    school.chat(19).await;
    assert_eq!(school.questions().len(), 0);
    school.chat(1).await;
    school.proposal().await;
}

#[tokio::test]
async fn unusable_answer_changes_nothing() {
    let long = format!("REASON: x\nINSTRUCTIONS:\n{}", "x".repeat(20_001));
    let large = format!("REASON: x\nINSTRUCTIONS:\n{}", "é".repeat(19_000));
    let answers = [
        "I would rather be a poet.",
        "REASON: x\nINSTRUCTIONS:\n ",
        "REASON: none\nINSTRUCTIONS:\nBe brief.",
        "REASON: one sentence that tells your owner what you learned\nINSTRUCTIONS:\nthe new instructions",
        &long,
        &large,
    ];
    let count = answers.len();
    let school = School::with(answers.into_iter().map(says).collect()).await;
    school.change(json!({"evolution_choice": "auto"})).await;
    for nth in 1..=count {
        school.chat(20).await;
        assert_eq!(school.questions().len(), nth);
    }
    assert_eq!((school.instructions().await, school.newest_version().await.2), ("Be brief.".to_owned(), 2));
    assert_eq!(school.approvals("pending").await.len(), 0);
}

#[tokio::test]
async fn failed_reflection_is_retried_with_backoff() {
    let refused = || Reply::failure(DocumentedFailure::WrongKey);
    let school = School::with(vec![refused(), refused(), says(LEARNED_ANSWER)]).await;
    school.chat(20).await;
    assert_eq!(school.questions().len(), 1);
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 1, "no immediate retry");
    school.app().clock.advance(Duration::from_secs(80));
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 2);
    school.app().clock.advance(Duration::from_secs(80));
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 2, "the delay grows");
    school.app().clock.advance(Duration::from_secs(200));
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 3);
    school.proposal().await;
}

#[tokio::test]
async fn reflection_waits_for_more_turns_after_many_failures() {
    let mut answers: Vec<Reply> = (0..8).map(|_| Reply::failure(DocumentedFailure::WrongKey)).collect();
    answers.push(says(LEARNED_ANSWER));
    let school = School::with(answers).await;
    school.chat(20).await;
    for _ in 0..12 {
        school.app().clock.advance(Duration::from_secs(8 * 60 * 60));
        school.app().run_workers().await;
    }
    assert_eq!(school.questions().len(), 8);
    school.chat(19).await;
    assert_eq!(school.questions().len(), 8);
    school.chat(1).await;
    school.proposal().await;
}

#[tokio::test]
async fn exhausted_budget_prevents_reflection() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.fixture.app.run_workers().await;
    let budget = async |limit: Value| {
        let settings = json!({"daily_token_limit": limit});
        school.app().put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    };
    school.chat(19).await;
    school.fixture.exchange(&json!({"content": "one more", "agent_id": "scout"})).await;
    budget(json!(1)).await;
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 0);
    budget(Value::Null).await;
    school.app().clock.advance(Duration::from_secs(80));
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 1);
    school.proposal().await;
}

#[tokio::test]
async fn turn_count_survives_a_restart() {
    let mut school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.chat(12).await;
    // Not persisted by a worker yet.
    for _ in 0..8 {
        let id = school.conversation.lock().clone();
        school.fixture.exchange(&json!({"content": "In metres.", "conversation_id": id})).await;
    }
    school.fixture.app.restart().await;
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 1);
    school.proposal().await;
}

#[tokio::test]
async fn interrupted_reflection_is_repeated_after_a_restart() {
    let gate = Gate::new();
    let mut school = School::with(vec![says(LEARNED_ANSWER).gated(&gate), says(LEARNED_ANSWER)]).await;
    school.chat(19).await;
    let id = school.conversation.lock().clone();
    school.fixture.exchange(&json!({"content": "In metres.", "conversation_id": id})).await;
    let mut asked = school.asked.clone();
    tokio::select! {
        () = school.fixture.app.run_workers() => panic!("the model has not answered"),
        asked = asked.wait_for(|count| *count == 1) => drop(asked.expect("a question")),
    }
    school.fixture.app.stop_within(Duration::from_millis(300)).await;
    gate.open();
    school.fixture.app.try_start().await.expect("the daemon starts");
    school.app().clock.advance(Duration::from_secs(600));
    school.app().run_workers().await;
    assert_eq!(school.questions().len(), 2);
    school.proposal().await;
    assert_eq!(school.newest_version().await.2, 2);
}

/// A worker that exceeds its lease is replaced by another one, and its late answer is discarded. The question may be
/// asked twice, but nothing is proposed or changed twice.
#[tokio::test]
async fn worker_that_lost_its_lease_proposes_nothing() {
    for choice in ["check", "auto"] {
        let gate = Gate::new();
        let slow = Reply::text(["REASON: slow\n", "INSTRUCTIONS:\nBe slow."], TEST_USAGE).gated(&gate);
        let school = School::with(vec![slow, says(LEARNED_ANSWER)]).await;
        school.change(json!({"evolution_choice": choice})).await;
        school.chat(19).await;
        let replica = school.app().replica().await;
        let other = replica.as_ref().unwrap_or(school.app());
        let id = school.conversation.lock().clone();
        school.fixture.exchange(&json!({"content": "In metres.", "conversation_id": id})).await;
        let mut asked = school.asked.clone();
        let take_over = async {
            drop(asked.wait_for(|count| *count == 1).await.expect("a question"));
            school.app().clock.advance(Duration::from_secs(120));
            if replica.is_some() {
                other.run_workers().await;
            }
            drop(asked.wait_for(|count| *count == 2).await.expect("a second question"));
            let is_done = async || school.newest_version().await.2 == 3 || school.approvals("pending").await.len() == 1;
            while !is_done().await {
                tokio::task::yield_now().await;
            }
            gate.open();
        };
        tokio::join!(school.app().run_workers(), take_over);
        let (source, _, total) = school.newest_version().await;
        if choice == "check" {
            let input = school.proposal().await["input"].clone();
            assert_eq!((&input["reason"], total), (&json!("Ada measures in metres."), 2));
        } else {
            assert_eq!((source, total), (json!("evolution"), 3));
            assert_eq!(school.instructions().await, "Be brief.\nUse metres.");
        }
        school.app().clock.advance(Duration::from_secs(600));
        school.app().run_workers().await;
        assert_eq!(school.questions().len(), 2);
    }
}

#[tokio::test]
async fn turns_of_all_replicas_are_counted_together() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    let Some(replica) = school.app().replica().await else { return };
    school.chat(10).await;
    for number in 0..10 {
        let message = json!({"content": format!("In metres ({number})"), "agent_id": "scout"});
        replica.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
    }
    assert_eq!(school.questions().len(), 0);
    tokio::join!(replica.run_workers(), school.app().run_workers());
    replica.run_workers().await;
    assert_eq!(school.questions().len(), 1);
    school.proposal().await;
}

#[tokio::test]
async fn deleted_agent_cancels_its_proposal() {
    let school = School::with(vec![says(LEARNED_ANSWER)]).await;
    school.chat(20).await;
    let proposal = school.proposal().await;
    school.app().delete(SCOUT).send().await.expect_status(200);
    school.answer(&proposal, "approve").send().await.expect_error(409, "approval_answered");
    school.app().run_workers().await;
    school.answer(&proposal, "approve").send().await.expect_error(404, "approval_not_found");
    let mut read = school.app().running().context().db.read().await.expect("a connection");
    for table in ["evolution", "agent_versions", "approvals"] {
        let left = read.fetch_one(format!("SELECT COUNT(*) FROM {table}"), args![]).await.expect("a count");
        assert_eq!(left.first::<u64>().expect("a number"), 0, "{table}");
    }
}

/// Neither welcome messages nor failed replies count.
#[tokio::test]
async fn only_completed_turns_of_conversations_are_counted() {
    let fails = Arc::new(Mutex::new(false));
    let (failing, script) = (Arc::clone(&fails), says("ok"));
    let script = Script::by(move |_| match *failing.lock() {
        true => Reply::failure(DocumentedFailure::WrongKey),
        false => script.clone(),
    });
    let fixture = ChatFixture::with(script).await;
    for _ in 0..20 {
        fixture.app.post("/api/chat/welcome").json(&json!({"agent_id": "scout"})).send().await.expect_status(200);
    }
    *fails.lock() = true;
    for _ in 0..20 {
        fixture.exchange(&json!({"content": "hello"})).await;
    }
    fixture.app.run_workers().await;
    assert!(fixture.vendor.requests().iter().all(|request| !is_question(&request.body)));
}
