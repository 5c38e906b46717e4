//! Chains of jobs.

use agentd_testing_llm::{DocumentedFailure, Gate, Reply, Script};
use serde_json::{Value, json};

use super::{BackgroundWorkers, advance, create, every, id, runs, statuses, trigger, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent};
use crate::support::{Eventually, TestApp};

/// Creates a job whose goal determines its outcome.
async fn job(app: &TestApp, goal: &str) -> String {
    id(&create(app, &with(every(86_400), &json!({"goal": goal}))).await)
}

/// Creates a vendor that fails requests with `FAIL` in the goal.
async fn fixture() -> ChatFixture {
    let script = Script::by(|request| {
        if request.body.to_string().contains("FAIL") {
            return Reply::failure(DocumentedFailure::WrongKey);
        }
        Reply::text(["Fine."], TEST_USAGE)
    });
    ChatFixture::with(script).await
}

async fn chain(app: &TestApp, jobs: &[&String], edges: &[(usize, usize, &str)]) -> String {
    let edges: Vec<Value> =
        edges.iter().map(|(from, to, kind)| json!({"from": jobs[*from], "to": jobs[*to], "type": kind})).collect();
    let body = json!({"name": "night", "jobs": jobs, "edges": edges});
    let made = app.post("/api/scheduler/chains").json(&body).send().await.expect_status(201).json();
    assert_eq!((&made["jobs"], &made["edges"]), (&json!(jobs), &json!(edges)));
    id(&made)
}

async fn chain_runs(app: &TestApp, chain: &str) -> Vec<Value> {
    let path = format!("/api/scheduler/chains/{chain}/runs");
    let list = app.get(&path).send().await.expect_status(200).json();
    list["runs"].as_array().expect("runs").clone()
}

/// Returns the job and status of each step of a chain run.
fn steps(run: &Value) -> Vec<(&str, &str)> {
    let steps = run["steps"].as_array().expect("steps").iter();
    steps.map(|step| (step["job_id"].as_str().expect("a job"), step["status"].as_str().expect("a status"))).collect()
}

#[tokio::test]
async fn join_runs_after_the_branch_that_was_taken() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let (a, b, c, d) = (job(app, "a").await, job(app, "b").await, job(app, "c").await, job(app, "d").await);
    let edges = [(0, 1, "on_success"), (0, 2, "on_failure"), (1, 3, "on_success"), (2, 3, "on_success")];
    let chain = chain(app, &[&a, &b, &c, &d], &edges).await;
    app.post(&format!("/api/scheduler/chains/{chain}/trigger")).send().await.expect_status(202);
    app.run_workers().await;
    let run = &chain_runs(app, &chain).await[0];
    assert_eq!(steps(run), [(&*a, "success"), (&*b, "success"), (&*d, "success"), (&*c, "skipped")]);
    assert_eq!((&run["status"], &run["steps"][3]["run_id"]), (&json!("success"), &Value::Null));
    assert!(runs(app, &c).await.is_empty());
}

#[tokio::test]
async fn triggered_chain_follows_matching_edges() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let (a, b, c, d) = (job(app, "a").await, job(app, "b FAIL").await, job(app, "c").await, job(app, "d").await);
    let edges = [(0, 1, "on_success"), (1, 2, "on_success"), (1, 3, "on_failure")];
    let chain = chain(app, &[&a, &b, &c, &d], &edges).await;
    let started = app.post(&format!("/api/scheduler/chains/{chain}/trigger")).send().await.expect_status(202).json();
    app.run_workers().await;
    let run = &chain_runs(app, &chain).await[0];
    assert_eq!(
        (&run["id"], &run["status"], &run["cause"]),
        (&started["chain_run_id"], &json!("success"), &json!("manual"))
    );
    assert_eq!(steps(run), [(&*a, "success"), (&*b, "failed"), (&*d, "success"), (&*c, "skipped")]);
    assert!(runs(app, &c).await.is_empty());
    assert_eq!(runs(app, &d).await[0]["cause"], "chain");
    assert!(chain_runs(app, &chain).await.len() == 1, "steps of a chain start no chain");
}

#[tokio::test]
async fn run_of_a_root_job_starts_its_chain() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let (a, b) = (job(app, "a").await, job(app, "b").await);
    let chain = chain(app, &[&a, &b], &[(0, 1, "on_complete")]).await;
    trigger(app, &b).await;
    app.run_workers().await;
    assert!(chain_runs(app, &chain).await.is_empty(), "b is not a root");
    advance(app, 86_400);
    app.run_workers().await;
    let list = chain_runs(app, &chain).await;
    assert_eq!((list.len(), &list[0]["cause"], &list[0]["status"]), (1, &json!("job"), &json!("success")));
    // The runs were caused by the trigger, the schedule and the chain.
    assert_eq!(statuses(&runs(app, &b).await), ["success"; 3]);
}

#[tokio::test]
async fn chain_fails_without_an_edge_for_the_failure() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let (a, b) = (job(app, "a FAIL").await, job(app, "b").await);
    let chain = chain(app, &[&a, &b], &[(0, 1, "on_success")]).await;
    trigger(app, &a).await;
    app.run_workers().await;
    let list = chain_runs(app, &chain).await;
    assert_eq!((&list[0]["status"], steps(&list[0])), (&json!("failed"), vec![(&*a, "failed"), (&*b, "skipped")]));
    assert_ne!(list[0]["completed_at"], Value::Null);
}

#[tokio::test]
async fn cycles_and_unknown_jobs_are_rejected() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let (a, b) = (job(&app, "a").await, job(&app, "b").await);
    let refused = async |body: Value| {
        let answer = app.post("/api/scheduler/chains").json(&body).send().await;
        answer.expect_error(400, "invalid_request").bad_fields()
    };
    let edge = |from: &str, to: &str| json!({"from": from, "to": to, "type": "on_success"});
    let cycle = json!({"name": "c", "jobs": [a, b], "edges": [edge(&a, &b), edge(&b, &a)]});
    assert_eq!(refused(cycle).await, ["edges"]);
    let unknown = json!({"name": "c", "jobs": [a, "job_unknown"], "edges": []});
    assert_eq!(refused(unknown).await, ["jobs[1]"]);
    let outside = json!({"name": "c", "jobs": [a], "edges": [edge(&a, &b)]});
    assert_eq!(refused(outside).await, ["edges[0].to"]);
    assert!(!refused(json!({"name": "c", "jobs": []})).await.is_empty());
    assert!(
        !refused(json!({"name": "c", "jobs": [a], "edges": [{"from": a, "to": b, "type": "maybe"}]})).await.is_empty()
    );
}

#[tokio::test]
async fn chains_can_be_listed_and_deleted_and_protect_their_jobs() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let (a, b) = (job(&app, "a").await, job(&app, "b").await);
    let chain = chain(&app, &[&a, &b], &[(0, 1, "on_success")]).await;
    let list = app.get("/api/scheduler/chains").send().await.expect_status(200).json();
    assert_eq!((&list["total"], &list["chains"][0]["id"]), (&json!(1), &json!(chain)));
    let path = format!("/api/scheduler/chains/{chain}");
    assert_eq!(app.get(&path).send().await.expect_status(200).json(), list["chains"][0]);
    app.delete(&format!("/api/scheduler/jobs/{a}")).send().await.expect_error(409, "job_in_chain");
    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"deleted": true}));
    app.delete(&path).send().await.expect_error(404, "chain_not_found");
    app.get(&format!("{path}/runs")).send().await.expect_error(404, "chain_not_found");
    app.post(&format!("{path}/trigger")).send().await.expect_error(404, "chain_not_found");
    app.delete(&format!("/api/scheduler/jobs/{a}")).send().await.expect_status(200);
}

#[tokio::test]
async fn all_chains_are_listed_without_a_limit() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    for _ in 0..3 {
        let a = job(&app, "a").await;
        for _ in 0..17 {
            chain(&app, &[&a], &[]).await;
        }
    }
    let count = async |query: &str| {
        let list = app.get(&format!("/api/scheduler/chains{query}")).send().await.expect_status(200).json();
        assert_eq!(list["total"], 51);
        list["chains"].as_array().map(Vec::len)
    };
    assert_eq!((count("").await, count("?limit=50").await), (Some(51), Some(50)));
    assert_eq!((count("?offset=49").await, count("?limit=5&offset=49").await), (Some(2), Some(2)));
}

#[tokio::test]
async fn skipped_root_triggers_only_on_complete_edges() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let never = json!({"goal": "a", "condition": {"type": "expression", "expression": "false"}});
    let a = id(&create(app, &with(every(86_400), &never)).await);
    let (b, c) = (job(app, "b").await, job(app, "c").await);
    let followed = chain(app, &[&a, &b], &[(0, 1, "on_complete")]).await;
    let idle = chain(app, &[&a, &c], &[(0, 1, "on_success")]).await;
    trigger(app, &a).await;
    app.run_workers().await;
    assert_eq!((statuses(&runs(app, &a).await), statuses(&runs(app, &b).await)), (vec!["skipped"], vec!["success"]));
    let list = chain_runs(app, &followed).await;
    assert_eq!((list.len(), &list[0]["cause"], &list[0]["status"]), (1, &json!("job"), &json!("success")));
    assert!(chain_runs(app, &idle).await.is_empty() && runs(app, &c).await.is_empty());
}

#[tokio::test]
async fn chain_of_several_agents_survives_deletion_of_one_agent() {
    let fixture = fixture().await;
    let app = &fixture.app;
    create_agent(app, "other").await;
    let (a, d) = (job(app, "a").await, job(app, "d").await);
    let b = id(&create(app, &with(every(86_400), &json!({"goal": "b", "agent_id": "other"}))).await);
    let c = job(app, "c").await;
    let edges = [(0, 1, "on_success"), (1, 2, "on_success"), (0, 3, "on_success")];
    let mixed = chain(app, &[&a, &b, &c, &d], &edges).await;
    let own = chain(app, &[&b], &[]).await;
    app.delete("/api/agents/other").send().await.expect_status(200);
    app.get(&format!("/api/scheduler/chains/{own}")).send().await.expect_error(404, "chain_not_found");
    let left = app.get(&format!("/api/scheduler/chains/{mixed}")).send().await.expect_status(200).json();
    assert_eq!(left["jobs"], json!([a, d]), "jobs after the deleted job are removed too");
    assert_eq!(left["edges"], json!([{"from": a, "to": d, "type": "on_success"}]));
    app.post(&format!("/api/scheduler/chains/{mixed}/trigger")).send().await.expect_status(202);
    app.run_workers().await;
    assert_eq!(chain_runs(app, &mixed).await[0]["status"], "success");
    assert!(runs(app, &c).await.is_empty());
    app.delete(&format!("/api/scheduler/jobs/{c}")).send().await.expect_status(200);
}

#[tokio::test]
async fn chain_step_beyond_the_run_limit_is_skipped() {
    let (first, others) = (Gate::new(), Gate::new());
    let gates = (first.clone(), others.clone());
    let script = Script::by(move |request| {
        let gate = if request.body.to_string().contains("Begin.") { &gates.0 } else { &gates.1 };
        Reply::text(["Fine."], TEST_USAGE).gated(gate)
    });
    let fixture = ChatFixture::with(script).await;
    let app = &fixture.app;
    let root = job(app, "Begin.").await;
    let busy = id(&create(app, &with(every(86_400), &json!({"goal": "Go on.", "overlap": "allow"}))).await);
    let chain = chain(app, &[&root, &busy], &[(0, 1, "on_success")]).await;
    let _workers = BackgroundWorkers::start(app);
    app.post(&format!("/api/scheduler/chains/{chain}/trigger")).send().await.expect_status(202);
    let mut eventually = Eventually::new();
    while statuses(&runs(app, &root).await) != ["running"] {
        eventually.retry().await;
    }
    for _ in 0..100 {
        trigger(app, &busy).await;
    }
    first.open();
    let mut eventually = Eventually::new();
    while chain_runs(app, &chain).await[0]["status"] == "running" {
        eventually.retry().await;
    }
    let run = &chain_runs(app, &chain).await[0];
    assert_eq!(steps(run), [(&*root, "success"), (&*busy, "skipped")]);
    let skipped = runs(app, &busy).await.into_iter().find(|run| run["status"] == "skipped").expect("a skipped run");
    assert_eq!(skipped["error"], "open run limit of the job reached (100)");
    others.open();
}

#[tokio::test]
async fn chains_per_root_job_are_limited() {
    let fixture = fixture().await;
    let app = &fixture.app;
    let (a, b) = (job(app, "a").await, job(app, "b").await);
    for _ in 0..20 {
        chain(app, &[&a, &b], &[(0, 1, "on_success")]).await;
    }
    let body = json!({"name": "one more", "jobs": [a, b], "edges": [{"from": a, "to": b, "type": "on_success"}]});
    app.post("/api/scheduler/chains").json(&body).send().await.expect_error(409, "too_many_chains");
    chain(app, &[&b, &a], &[(0, 1, "on_success")]).await;
}
