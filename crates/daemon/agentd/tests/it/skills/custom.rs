//! Custom tools: lifecycle and code execution.

use serde_json::{Value, json};

use super::{BUILTIN, CUSTOM, SANDBOX, app, app_without_sandbox, call, offered};
use crate::support::TestApp;

fn python(name: &str, source: &str) -> Value {
    json!({"name": name, "description": "For tests.", "kind": "python", "source_code": source})
}

async fn create(app: &TestApp, fields: &Value) -> Value {
    app.post(CUSTOM).json(fields).send().await.expect_status(201).json()
}

#[tokio::test]
async fn custom_tool_is_created_changed_toggled_and_deleted() {
    let mut app = app_without_sandbox().await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let mut fields = python("weather", "result = 1");
    fields["input_schema"] = schema.clone();
    let made = create(&app, &fields).await;
    let path = format!("{CUSTOM}/{}", made["id"].as_str().unwrap());
    assert!(made["id"].as_str().unwrap().starts_with("tool_"));
    assert_eq!(
        (&made["input_schema"], &made["timeout_seconds"], &made["enabled"]),
        (&schema, &json!(30), &json!(true))
    );
    assert_eq!((&made["request"], &made["available"], &made["problem"]), (&Value::Null, &json!(true), &Value::Null));
    assert!(offered(&app).await.contains(&"weather".to_owned()));

    let changed = app.put(&path).json(&json!({"description": " New. ", "timeout_seconds": 5})).send().await;
    let changed = changed.expect_status(200).json();
    assert_eq!((&changed["description"], &changed["source_code"]), (&json!("New."), &json!("result = 1")));
    let off = app.post(&format!("{path}/toggle")).send().await.expect_status(200).json();
    assert_eq!(off["enabled"], false);
    assert!(!offered(&app).await.contains(&"weather".to_owned()));
    app.restart().await;
    assert_eq!(app.get(&path).send().await.expect_status(200).json(), off);
    let list = app.get(CUSTOM).send().await.expect_status(200).json();
    assert_eq!(list, json!({"tools": [off], "total": 1}));
    assert_eq!(app.post(&format!("{path}/toggle")).send().await.json()["enabled"], true);

    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"deleted": true}));
    for gone in
        [app.get(&path), app.delete(&path), app.put(&path).json(&json!({})), app.post(&format!("{path}/toggle"))]
    {
        gone.send().await.expect_error(404, "tool_not_found");
    }
    assert!(!offered(&app).await.contains(&"weather".to_owned()));
}

#[tokio::test]
async fn toggle_accepts_the_desired_state() {
    let app = app().await;
    let made = create(&app, &python("mine", "result = 1")).await;
    let custom = format!("{CUSTOM}/{}/toggle", made["id"].as_str().unwrap());
    for path in [custom, format!("{BUILTIN}/read_file/toggle")] {
        for desired in [false, false, true, true] {
            let shown = app.post(&path).json(&json!({"enabled": desired})).send().await.expect_status(200).json();
            assert_eq!(shown["enabled"], desired, "{path}");
        }
        assert_eq!(app.post(&path).send().await.expect_status(200).json()["enabled"], false);
        assert_eq!(app.post(&path).json(&json!({})).send().await.expect_status(200).json()["enabled"], true);
        for bad in [json!({"enabled": "no"}), json!({"enabled": null}), json!({"enable": true}), json!([])] {
            app.post(&path).json(&bad).send().await.expect_error(400, "invalid_request");
        }
        app.post(&path).raw_json("{").send().await.expect_error(400, "malformed_json");
    }
}

#[tokio::test]
async fn tool_name_is_unique() {
    let app = app().await;
    let made = create(&app, &python("mine", "result = 1")).await;
    for taken in ["mine", "shell", "read_file"] {
        app.post(CUSTOM).json(&python(taken, "result = 1")).send().await.expect_error(409, "name_taken");
    }
    let other = create(&app, &python("other", "result = 1")).await;
    let other = format!("{CUSTOM}/{}", other["id"].as_str().unwrap());
    for taken in ["mine", "python"] {
        app.put(&other).json(&json!({"name": taken})).send().await.expect_error(409, "name_taken");
    }
    app.put(&other).json(&json!({"name": "other"})).send().await.expect_status(200);
    let racers = (0..8).map(|_| {
        let racer = python("raced", "result = 1");
        let request = app.post(CUSTOM).json(&racer);
        async move { request.send().await.status.as_u16() }
    });
    let mut answers = futures_util::future::join_all(racers).await;
    answers.sort_unstable();
    assert_eq!(answers, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(made["name"], "mine");
}

#[tokio::test]
async fn repeated_request_creates_one_tool() {
    let app = app().await;
    let send = |fields: Value| {
        let request = app.post(CUSTOM).json(&fields).header("idempotency-key", "once");
        async move { request.send().await }
    };
    let first = send(python("mine", "result = 1")).await.expect_status(201);
    let again = send(python("mine", "result = 1")).await.expect_status(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.json(), again.json());
    send(python("mine", "result = 2")).await.expect_status(409);
    assert_eq!(app.get(CUSTOM).send().await.json()["total"], 1);
}

#[tokio::test]
async fn all_bad_fields_of_a_tool_are_reported() {
    let app = app().await;
    let bad = json!({"name": "no good", "description": " ", "kind": "python", "input_schema": {"type": "string"}});
    let fields = app.post(CUSTOM).json(&bad).send().await.expect_error(400, "invalid_request").bad_fields();
    assert_eq!(fields, ["name", "description", "input_schema", "source_code"]);
    let request = json!({
        "method": "GET", "url": "ftp://x.example/{{input.}}", "body": "x",
        "headers": {"Host": "a", "Authorization": "b", "X-Ok": "{{oops}}"},
        "secret_headers": {"x y": "c", "x-new": {"set": true}, "x-two-lines": "a\nb"},
    });
    let bad = json!({"name": "x", "description": "x", "kind": "http", "request": request});
    let fields = app.post(CUSTOM).json(&bad).send().await.expect_error(400, "invalid_request").bad_fields();
    for field in [
        "request.url",
        "request.headers.Host",
        "request.headers.Authorization",
        "request.headers.X-Ok",
        "request.secret_headers.x y",
        "request.secret_headers.x-new",
        "request.secret_headers.x-two-lines",
        "request.body",
    ] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
    for (field, value) in [("kind", json!("perl")), ("timeout_seconds", json!(0)), ("timeout_seconds", json!(3601))] {
        let mut bad = python("x", "result = 1");
        bad[field] = value;
        let answer = app.post(CUSTOM).json(&bad).send().await.expect_error(400, "invalid_request");
        assert_eq!(answer.bad_fields(), [field]);
    }
    assert_eq!(app.get(CUSTOM).send().await.json()["total"], 0);
}

#[tokio::test]
async fn unknown_fields_of_a_tool_are_rejected() {
    let app = app().await;
    let mut fields = python("mine", "result = 1");
    let made = create(&app, &fields).await;
    let path = format!("{CUSTOM}/{}", made["id"].as_str().unwrap());
    fields["timeout_second"] = json!(5);
    let request = json!({"request": {"url": "https://api.example/", "header": {}}});
    for (answer, field) in [
        (app.post(CUSTOM).json(&fields).send().await, "timeout_second"),
        (app.put(&path).json(&json!({"enable": false})).send().await, "enable"),
        (app.put(&path).json(&request).send().await, "request.header"),
    ] {
        let refused = answer.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [field]);
        assert!(refused.text().contains("known fields"), "{}", refused.text());
    }
}

#[tokio::test]
async fn tool_can_be_read_changed_and_written_back() {
    let app = app().await;
    let http = json!({"name": "ask", "description": "For tests.", "kind": "http",
                      "request": {"url": "https://api.example/", "secret_headers": {"x-key": "very-secret"}}});
    for fields in [python("mine", "result = 1"), http] {
        let mut read = create(&app, &fields).await;
        let path = format!("{CUSTOM}/{}", read["id"].as_str().unwrap());
        read["description"] = json!("Changed.");
        let mut changed = app.put(&path).json(&read).send().await.expect_status(200).json();
        changed["updated_at"] = read["updated_at"].clone();
        assert_eq!(changed, read);
        read["id"] = json!("tool_other");
        let refused = app.put(&path).json(&read).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["id"]);
    }
}

#[tokio::test]
async fn python_result_is_read_from_variable_function_or_output() {
    let app = app_without_sandbox().await;
    for (source, answer) in [
        ("result = {'double': input['n'] * 2}", json!({"double": 14})),
        ("def run(given):\n    return given['n'] + 1", json!({"result": 8})),
        ("print('seven is', input['n'])", json!({"text": "seven is 7\n"})),
        ("result = 'text'", json!({"text": "text"})),
        ("print('noise')\nresult = [1, 2]", json!({"result": [1, 2]})),
        ("import os\nos.system('echo noise')\nresult = 0", json!({"result": 0})),
        ("result = open('here.txt').read()", json!({"text": "from the workspace"})),
        ("import sys\nresult = sys.stdin.read()", json!({"text": ""})),
    ] {
        std::fs::write(super::workspace(&app).join("here.txt"), "from the workspace").unwrap();
        let made = create(&app, &python("tool", source)).await;
        assert_eq!(call(&app, "tool", json!({"n": 7})).await.unwrap(), answer, "{source}");
        app.delete(&format!("{CUSTOM}/{}", made["id"].as_str().unwrap())).send().await.expect_status(200);
    }
    for (source, why) in [
        ("x = 1\nraise ValueError('no seven')", "line 2"),
        ("def f(:", "SyntaxError"),
        ("import sys\nsys.exit(3)", "code 3"),
        ("result = 'x' * 10_000_000", "has more than"),
        ("result = [float('nan')]", "is not JSON"),
        ("result = '\\ud800'", "surrogates not allowed"),
        ("import os\nos._exit(0)", "ended without"),
    ] {
        let made = create(&app, &python("tool", source)).await;
        let error = call(&app, "tool", json!({"n": 7})).await.unwrap_err().to_string();
        assert!(error.contains(why), "{source}: {error}");
        app.delete(&format!("{CUSTOM}/{}", made["id"].as_str().unwrap())).send().await.expect_status(200);
    }
}

#[tokio::test]
async fn shell_tool_receives_its_input() {
    let app = app_without_sandbox().await;
    let source = "echo \"$INPUT_CITY/$INPUT_MAX_COUNT\"; cat; pwd >&2; exit 3";
    let fields = json!({"name": "script", "description": "x", "kind": "shell", "source_code": source});
    create(&app, &fields).await;
    let done = call(&app, "script", json!({"city": "Köln; rm -rf /", "max-count": 3})).await.unwrap();
    assert_eq!(done["exit_code"], 3);
    let (shown, given) = done["stdout"].as_str().unwrap().split_once('\n').unwrap();
    assert_eq!(shown, "Köln; rm -rf //3");
    assert_eq!(serde_json::from_str::<Value>(given).unwrap(), json!({"city": "Köln; rm -rf /", "max-count": 3}));
    let folder = super::workspace(&app).canonicalize().unwrap();
    assert_eq!(done["stderr"].as_str().unwrap().trim(), folder.to_str().unwrap());
}

#[tokio::test]
async fn code_is_ended_at_its_time_limit() {
    let app = app_without_sandbox().await;
    let mut fields =
        json!({"name": "slow", "description": "x", "kind": "shell", "source_code": "echo begun; sleep 600"});
    fields["timeout_seconds"] = json!(1);
    create(&app, &fields).await;
    let done = call(&app, "slow", json!({})).await.unwrap();
    assert_eq!((&done["exit_code"], &done["stdout"]), (&Value::Null, &json!("begun\n")));
    assert!(done["ended"].as_str().unwrap().contains("time limit"), "{done}");
}

#[tokio::test]
async fn export_contains_tools_and_sandbox_settings() {
    let app = app_without_sandbox().await;
    create(&app, &python("mine", "result = 'a source that is exported'")).await;
    app.post(&format!("{BUILTIN}/shell/toggle")).send().await.expect_status(200);
    app.put(SANDBOX).json(&json!({"timeout_seconds": 7})).send().await.expect_status(200);
    let file = app.get("/api/settings/export").send().await.expect_status(200);
    let file = file.json();
    let skills = &file["settings"]["skills"];
    assert_eq!(skills["builtin_off"], json!(["shell"]));
    assert_eq!(skills["custom"][0]["source_code"], "result = 'a source that is exported'");
    assert_eq!(
        (&file["settings"]["sandbox"]["timeout_seconds"], &file["settings"]["sandbox"]["backend"]),
        (&json!(7), &json!("none"))
    );
    app.put(SANDBOX).json(&json!({"timeout_seconds": 9, "backend": "auto"})).send().await.expect_status(200);
    app.post("/api/settings/import?include_safety=true").json(&file).send().await.expect_status(200);
    let config = app.get(SANDBOX).send().await.json();
    assert_eq!((&config["timeout_seconds"], &config["in_force"]["tier"]), (&json!(7), &json!("none")));
    assert_eq!(app.get(CUSTOM).send().await.json()["total"], 1);
}
