//! Retention of runs, and visibility of delivery targets.

use std::time::Duration;

use agentd_store::{StoreError, Tx, args};
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{create, every, id, job, run, runs, trigger, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, enable_platform};

const DAY: Duration = Duration::from_secs(86_400);

fn good() -> Reply {
    Reply::text(["Fine."], TEST_USAGE)
}

/// Creates a job that only runs when triggered.
async fn paused(fixture: &ChatFixture) -> Value {
    let made = create(&fixture.app, &every(600)).await;
    fixture.app.post(&format!("/api/scheduler/jobs/{}/pause", id(&made))).send().await.expect_status(200);
    made
}

#[tokio::test]
async fn runs_are_deleted_thirty_days_after_completion() {
    let fixture = ChatFixture::with(Script::always(good())).await;
    let app = &fixture.app;
    let (first, second) = (paused(&fixture).await, paused(&fixture).await);
    let chain = json!({"name": "pair", "jobs": [first["id"], second["id"]],
        "edges": [{"from": first["id"], "to": second["id"], "type": "on_success"}]});
    let chain = app.post("/api/scheduler/chains").json(&chain).send().await.expect_status(201).json();
    app.post(&format!("/api/scheduler/chains/{}/trigger", id(&chain))).send().await.expect_status(202);
    app.run_workers().await;
    let old = [id(&runs(app, &id(&first)).await[0]), id(&runs(app, &id(&second)).await[0])];
    let chain_runs = async || {
        let path = format!("/api/scheduler/chains/{}/runs", id(&chain));
        app.get(&path).send().await.expect_status(200).json()["total"].clone()
    };
    app.clock.advance(29 * DAY);
    let young = trigger(app, &id(&second)).await;
    app.run_workers().await;
    assert_eq!(
        (run(app, &id(&first), &old[0]).await["status"].clone(), chain_runs().await),
        (json!("success"), json!(1))
    );
    assert_eq!(runs(app, &id(&second)).await.len(), 2, "runs are retained until the time limit");
    app.clock.advance(DAY + Duration::from_secs(120));
    app.run_workers().await;
    for (job, old) in [&first, &second].into_iter().zip(&old) {
        let path = format!("/api/scheduler/jobs/{}/runs/{old}", id(job));
        app.get(&path).send().await.expect_error(404, "run_not_found");
    }
    assert_eq!(chain_runs().await, 0);
    assert_eq!(run(app, &id(&second), &young).await["status"], "success");
    // The run count of the job is kept.
    assert_eq!(job(app, &id(&second)).await["run_count"], 2);
}

#[tokio::test]
async fn job_retains_its_newest_thousand_runs() {
    let fixture = ChatFixture::with(Script::always(good())).await;
    let app = &fixture.app;
    let made = paused(&fixture).await;
    let (of_job, agent) = (id(&made), made["agent_id"].as_str().expect("an id").to_owned());
    let now = app.clock.clock().now();
    let fill = async move |tx: &mut Tx| {
        let rows = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100) \
            INSERT INTO job_runs (id, job_id, agent_id, cause, status, may_overlap, attempt, fence, created_at, \
            completed_at) SELECT 'run_' || n, $1, $2, 'manual', 'success', 0, 1, 1, $3 + n, $3 + n FROM numbers";
        tx.execute(rows, args![of_job.as_str(), agent.as_str(), now - Duration::from_secs(60)]).await
    };
    app.running().context().db.write::<_, StoreError, _>(fill).await.expect("insert the rows");
    let newest = trigger(app, &id(&made)).await;
    app.run_workers().await;
    app.clock.advance(Duration::from_secs(60));
    app.run_workers().await;
    let path = format!("/api/scheduler/jobs/{}/runs?limit=1", id(&made));
    let list = app.get(&path).send().await.expect_status(200).json();
    assert_eq!((&list["total"], &list["runs"][0]["id"]), (&json!(1_000), &json!(newest)));
    let run_path = |number: u32| format!("/api/scheduler/jobs/{}/runs/run_{number}", id(&made));
    app.get(&run_path(101)).send().await.expect_error(404, "run_not_found");
    app.get(&run_path(102)).send().await.expect_status(200);
}

#[tokio::test]
async fn skipped_slots_are_trimmed_too() {
    let fixture = ChatFixture::with(Script::always(good())).await;
    let app = &fixture.app;
    let made = create(app, &with(every(60), &json!({"misfire": "skip"}))).await;
    // Ten of the missed slots are recorded each time.
    for _ in 0..110 {
        app.clock.advance(Duration::from_secs(15 * 60 + 30));
        app.run_workers().await;
    }
    app.clock.advance(Duration::from_secs(61));
    app.run_workers().await;
    let path = format!("/api/scheduler/jobs/{}/runs?limit=1", id(&made));
    let total = app.get(&path).send().await.expect_status(200).json()["total"].as_u64().expect("a number");
    // The last tick may have added a run.
    assert!((1_000..=1_002).contains(&total), "{total}");
}

#[tokio::test]
async fn runs_of_deleted_jobs_still_count_for_their_day() {
    let fixture = ChatFixture::with(Script::always(good())).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    for _ in 0..3 {
        trigger(app, &id(&made)).await;
        app.run_workers().await;
    }
    let today =
        async || app.get("/api/scheduler/stats").send().await.expect_status(200).json()["total_runs_today"].clone();
    assert_eq!(today().await, 3);
    app.delete(&format!("/api/scheduler/jobs/{}", id(&made))).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(120));
    app.run_workers().await;
    assert_eq!(today().await, 3);
    app.clock.advance(DAY);
    app.run_workers().await;
    assert_eq!(today().await, 0);
}

#[tokio::test]
async fn delivery_token_is_hidden_from_read_only_keys() {
    let fixture = ChatFixture::with(Script::always(good())).await;
    let app = &fixture.app;
    enable_platform(app, "slack").await;
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await;
    let reader = key.expect_status(200).json()["key"].as_str().expect("a key").to_owned();
    for (channel, stored, shown) in [
        (
            "webhook:https://user:pass@hooks.example:8443/T0/secret?token=x",
            "webhook:https://***@hooks.example:8443/T0/secret?token=***",
            "webhook:https://hooks.example:8443",
        ),
        (
            "slack:https://hooks.example/services/T0/secret",
            "slack:https://hooks.example/services/T0/secret",
            "slack:https://hooks.example",
        ),
        ("slack:#reports", "slack:#reports", "slack:#reports"),
        ("email:ada@example.org", "email:ada@example.org", "email:ada@example.org"),
    ] {
        let made = create(app, &with(every(600), &json!({"delivery": {"channel": channel, "format": "text"}}))).await;
        assert_eq!(made["delivery"]["channel"], stored);
        let path = format!("/api/scheduler/jobs/{}", id(&made));
        let seen = app.get(&path).bearer(&reader).send().await.expect_status(200).json();
        assert_eq!(seen["delivery"], json!({"channel": shown, "format": "text"}));
        let list = app.get("/api/scheduler/jobs").bearer(&reader).send().await.expect_status(200);
        assert!(!list.text().contains("secret"), "{}", list.text());
        assert_eq!(list.json()["jobs"][0]["delivery"]["channel"], shown);
        assert_eq!(app.get(&path).send().await.expect_status(200).json()["delivery"]["channel"], stored);
        app.delete(&path).send().await.expect_status(200);
    }
}
