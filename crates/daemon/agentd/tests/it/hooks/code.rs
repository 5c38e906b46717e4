//! Python hooks.

use serde_json::{Value, json};

use super::{HOOKS, SECRET, create_hook, emit, only_execution, settle};
use crate::support::TestApp;

pub(super) async fn app_without_sandbox() -> TestApp {
    let app = TestApp::with_owner().await;
    app.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
    app
}

pub(super) fn python(source: &str) -> Value {
    json!({"name": "code", "event_type": "memory.stored", "hook_type": "python", "source_code": source})
}

#[tokio::test]
async fn code_receives_the_event_and_its_config() {
    let app = app_without_sandbox().await;
    let mut hook = python(
        "print('seen', event['type'])\nresult = {'n': event['data']['n'] + config['add'], 'secret': len(config['secret'])}",
    );
    hook["config"] = json!({"add": 40, "secret": SECRET});
    let id = create_hook(&app, hook).await;
    let function = create_hook(&app, python("def run(event):\n    return event['id']")).await;
    let nothing = create_hook(&app, python("print('only this')")).await;
    emit(&app, "memory.stored", json!({"n": 2})).await;
    settle(&app).await;
    let done = only_execution(&app, &id).await;
    assert_eq!(done["output"], json!({"result": {"n": 42, "secret": 32}, "printed": "seen memory.stored\n"}), "{done}");
    let function = only_execution(&app, &function).await;
    assert_eq!(function["output"]["result"], function["event_id"]);
    let nothing = only_execution(&app, &nothing).await;
    assert_eq!(
        (&nothing["status"], &nothing["output"]),
        (&json!("success"), &json!({"result": null, "printed": "only this\n"}))
    );
    let shown = app.get(&format!("{HOOKS}/{id}")).send().await.expect_status(200).json();
    assert_eq!(shown["config"], json!({"add": 40, "secret": {"set": true}, "timeout_seconds": 30}));
    let key = json!({"name": "reader", "scope": "read"});
    let key = app.post("/api/auth/keys").json(&key).send().await.expect_status(200).json();
    let shown = app.get(&format!("{HOOKS}/{id}")).bearer(key["key"].as_str().unwrap()).send().await.expect_status(200);
    assert_eq!(shown.json()["config"], json!({"add": "[hidden]", "secret": {"set": true}, "timeout_seconds": 30}));
}

#[tokio::test]
async fn failure_and_timeout_of_code_are_reported() {
    let app = app_without_sandbox().await;
    let mut failing = python("raise ValueError('no ' + config['secret'])");
    failing["config"] = json!({"secret": SECRET});
    let failing = create_hook(&app, failing).await;
    let mut slow = python("import time\ntime.sleep(60)");
    slow["config"] = json!({"timeout_seconds": 1});
    let slow = create_hook(&app, slow).await;
    let long = create_hook(&app, python("result = 'x' * 100000")).await;
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let failed = only_execution(&app, &failing).await;
    assert_eq!((&failed["status"], &failed["attempt_count"]), (&json!("error"), &json!(1)));
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("ValueError: no [hidden]") && !error.contains(SECRET), "{error}");
    let timed_out = only_execution(&app, &slow).await;
    assert_eq!(timed_out["status"], "timeout", "{timed_out}");
    let long = only_execution(&app, &long).await;
    assert_eq!((&long["status"], &long["output"]["result"]), (&json!("success"), &Value::Null));
}

#[tokio::test]
async fn printed_output_is_stored_for_every_outcome() {
    let app = app_without_sandbox().await;
    let ends = [
        ("print('before', 'ü')\nraise ValueError('no')", "error", "ValueError: no"),
        ("print('before ü')\nimport sys\nsys.exit(3)", "error", "the program exited with code 3"),
        ("print('before ü')\nresult = float('nan')", "error", "the result is not JSON"),
        ("print('before ü')\nresult = 'x' * 5_000_000", "error", "the result has more than"),
        ("print('before ü')\nimport os\nos._exit(0)", "error", "ended without a result"),
        ("print('before ü')\nimport time\ntime.sleep(60)", "timeout", "did not end within 5 seconds"),
        ("print('before ü')\nresult = 7\nimport sys\nsys.exit(0)", "success", ""),
    ];
    let mut hooks = Vec::new();
    for (source, ..) in ends {
        let mut hook = python(source);
        hook["config"] = json!({"timeout_seconds": if source.contains("sleep") { 5 } else { 60 }});
        hooks.push(create_hook(&app, hook).await);
    }
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    for ((source, status, says), id) in ends.iter().zip(&hooks) {
        let done = only_execution(&app, id).await;
        assert_eq!((&done["status"], &done["output"]["printed"]), (&json!(status), &json!("before ü\n")), "{source}");
        let error = done["error"].as_str().unwrap_or_default();
        assert!(error.contains(says) && !error.ends_with(": "), "{source}: {error}");
        assert_eq!(done["output"]["result"], if *status == "success" { json!(7) } else { Value::Null });
    }
}
