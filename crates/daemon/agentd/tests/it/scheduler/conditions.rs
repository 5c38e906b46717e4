//! Conditions are checked before every attempt of a run.

use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{advance, create, every, id, runs, statuses, trigger, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, enable_platform};

fn condition(expression: &str) -> Value {
    json!({"condition": {"type": "expression", "expression": expression}})
}

#[tokio::test]
async fn condition_that_fails_to_evaluate_fails_the_run_without_retries() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let app = &fixture.app;
    let guarded = with(
        condition("last_run == null || timestamp(last_run.output) < now"),
        &json!({"retry": {"max_attempts": 3, "strategy": "fixed", "base_delay": 0}}),
    );
    let refused = app.post("/api/scheduler/jobs").json(&with(every(600), &guarded)).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["condition.expression"]);
    // Valid for the example values, but not for the output of the first run.
    let guarded = with(guarded, &condition("last_run == null || last_run.output == '' || int(last_run.output) > 3"));
    let job = id(&create(app, &with(every(600), &guarded)).await);
    for _ in 0..2 {
        advance(app, 600);
        app.run_workers().await;
    }
    let list = runs(app, &job).await;
    assert_eq!(statuses(&list), ["success", "failed"], "{list:?}");
    assert!(list[1]["error"].as_str().is_some_and(|error| error.starts_with("the condition could not be evaluated")));
    assert_eq!((&list[1]["session_id"], fixture.vendor.requests().len()), (&Value::Null, 1), "the goal ran once");
}

#[tokio::test]
async fn condition_must_be_valid_before_the_first_run() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let app = &fixture.app;
    for expression in ["last_run.status == 'success'", "timestamp(job.last_run_at) < now"] {
        let refused = app.post("/api/scheduler/jobs").json(&with(every(600), &condition(expression))).send().await;
        let refused = refused.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["condition.expression"]);
        assert!(refused.text().contains("last_run == null ||"), "{}", refused.text());
    }
    let guarded = condition("(last_run == null || last_run.status == 'success') && job.schedule.interval == 600");
    let job = id(&create(app, &with(every(600), &guarded)).await);
    trigger(app, &job).await;
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &job).await), ["success"]);
}

#[tokio::test]
async fn condition_can_use_all_fields_of_the_api() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let app = &fixture.app;
    enable_platform(app, "slack").await;
    let seen = "job.retry.max_attempts == 2 && job.overlap == 'skip' && job.misfire == 'run_once' \
                && job.execution_mode == 'autonomous' && job.time_limit_seconds == 3600 && job.model == null \
                && job.delivery.channel == 'slack:https://hooks.example' && job.delivery.format == 'markdown' \
                && job.condition.type == 'expression' && job.human_readable.startsWith('Every') \
                && timestamp(job.updated_at) <= now \
                && (last_run == null || (last_run.job_id == job.id && last_run.session_id != null \
                && last_run.next_attempt_at == null && last_run.delivery != null \
                && timestamp(last_run.created_at) < now))";
    let fields = json!({
        "delivery": {"channel": "slack:https://hooks.example/services/T0/secret"},
        "retry": {"max_attempts": 2, "strategy": "fixed", "base_delay": 0},
    });
    let job = id(&create(app, &with(with(every(600), &fields), &condition(seen))).await);
    for _ in 0..2 {
        advance(app, 600);
        app.run_workers().await;
    }
    assert_eq!(statuses(&runs(app, &job).await), ["success", "success"]);
}

#[tokio::test]
async fn invalid_condition_is_rejected_with_a_specific_reason() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let app = &fixture.app;
    for (expression, reason) in [
        ("last_run == null || last_run.completed_at < now", "convert the string with `timestamp(…)`"),
        ("last_run != null || job.nothing == 1", "`job` has no field `nothing`; its fields are "),
        ("run_count > 0 || last_run.nothing == 1", "`last_run` has no field `nothing`"),
        ("1 / run_count > 0", "when `run_count` is 0"),
        ("now.getHours('Nowhere/X') < 9", "unknown time zone `Nowhere/X`"),
    ] {
        let refused = app.post("/api/scheduler/jobs").json(&with(every(600), &condition(expression))).send().await;
        let refused = refused.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["condition.expression"], "{expression}");
        assert!(refused.text().contains(reason), "{expression}: {}", refused.text());
        assert!(!refused.text().contains("start the expression"), "{expression}: {}", refused.text());
    }
}
