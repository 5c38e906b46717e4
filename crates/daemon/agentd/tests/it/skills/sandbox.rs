//! Sandbox settings and sandboxed code.

use serde_json::{Value, json};

use super::{BUILTIN, SANDBOX, Server, app, app_without_sandbox, call, offered, page, workspace};
use crate::support::TestApp;

#[tokio::test]
async fn sandbox_settings_show_the_active_tier_and_its_reason() {
    let app = TestApp::with_owner().await;
    let config = app.get(SANDBOX).send().await.expect_status(200).json();
    assert_eq!((&config["backend"], &config["network"]), (&json!("auto"), &json!(false)));
    assert_eq!((&config["timeout_seconds"], &config["writable_paths"]), (&json!(60), &json!([])));
    let in_force = &config["in_force"];
    assert!(!in_force["reason"].as_str().unwrap().is_empty() && !in_force["tried"].as_array().unwrap().is_empty());
    match in_force["tier"].as_str() {
        Some(tier) => {
            assert!(in_force["tried"].as_array().unwrap().iter().any(|t| t["tier"] == tier && t["available"] == true))
        }
        None => assert!(in_force["remedy"].is_string(), "{in_force}"),
    }
    let groups = &in_force["control_groups"];
    assert!(groups["in_force"].is_boolean() && !groups["detail"].as_str().unwrap().is_empty(), "{groups}");
    assert!(groups["remedy"].is_null() || groups["in_force"] == false, "{groups}");
    let changed = app.put(SANDBOX).json(&json!({"timeout_seconds": 5, "memory_limit_mb": 256})).send().await;
    let changed = changed.expect_status(200).json();
    assert_eq!(
        (&changed["timeout_seconds"], &changed["memory_limit_mb"], &changed["backend"]),
        (&json!(5), &json!(256), &json!("auto"))
    );
    // The response can be sent back.
    let again = app.put(SANDBOX).json(&changed).send().await.expect_status(200).json();
    assert_eq!((&again["timeout_seconds"], &again["memory_limit_mb"]), (&json!(5), &json!(256)));
    let bad = json!({"backend": "jail", "timeout_seconds": 0, "memory_limit_mb": 1, "env_allowlist": ["A=B"], "writable_paths": ["x"], "netwrok": true});
    let fields = app.put(SANDBOX).json(&bad).send().await.expect_error(400, "invalid_request").bad_fields();
    for field in ["backend", "timeout_seconds", "memory_limit_mb", "env_allowlist[0]", "writable_paths[0]", "netwrok"] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
    app.post("/api/settings/reset").send().await.expect_status(200);
    assert_eq!(app.get(SANDBOX).send().await.json()["timeout_seconds"], 5, "a general reset keeps sandbox settings");
    let tools = app.get(BUILTIN).send().await.json();
    assert_eq!(tools["tools"][5]["input_schema"]["properties"]["timeout_seconds"]["maximum"], 5);
}

#[tokio::test]
async fn code_is_refused_without_a_sandbox_unless_none_is_configured() {
    let app = app().await;
    // Usually at least one of the two is unavailable on a machine.
    for backend in ["bubblewrap", "landlock"] {
        let config = app.put(SANDBOX).json(&json!({"backend": backend})).send().await.expect_status(200).json();
        let is_there = config["in_force"]["tier"] == backend;
        let shell = &app.get(BUILTIN).send().await.json()["tools"][5];
        assert_eq!(shell["available"], is_there, "{config}");
        assert_eq!(offered(&app).await.contains(&"shell".to_owned()), is_there);
        if !is_there {
            assert!(shell["problem"].as_str().unwrap().contains("no sandbox"), "{shell}");
        }
    }
    let config = app.put(SANDBOX).json(&json!({"backend": "none"})).send().await.expect_status(200).json();
    assert_eq!(config["in_force"]["tier"], "none");
    let done = call(&app, "shell", json!({"command": "echo out; echo err >&2; exit 4"})).await.unwrap();
    assert_eq!(done, json!({"exit_code": 4, "stdout": "out\n", "stderr": "err\n", "ended": "exited with code 4"}));
    let done = call(&app, "python", json!({"code": "print(6 * 7)"})).await.unwrap();
    assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(0), &json!("42\n")));
}

/// Folders must exist when they are configured. If they disappear later, code still runs.
#[tokio::test]
async fn invalid_writable_paths_are_reported() {
    let app = app_without_sandbox().await;
    let (missing, file) = (app.data_dir().with_extension("missing"), app.data_dir().with_extension("file"));
    std::fs::write(&file, "").unwrap();
    let paths = json!({"writable_paths": [missing, file, app.data_dir()]});
    let refused = app.put(SANDBOX).json(&paths).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["writable_paths[0]", "writable_paths[1]", "writable_paths[2]"]);
    for why in ["No such file", "only directories", "own data"] {
        assert!(refused.text().contains(why), "{}", refused.text());
    }
    let inside = app.data_dir().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let own = json!({"writable_paths": [inside, app.data_dir().parent()]});
    let refused = app.put(SANDBOX).json(&own).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["writable_paths[0]", "writable_paths[1]"]);
    // Reported together with other errors.
    let bad = json!({"writable_paths": ["x", missing], "timeout_seconds": 0});
    let mut fields = app.put(SANDBOX).json(&bad).send().await.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    fields.dedup();
    assert_eq!(fields, ["timeout_seconds", "writable_paths[0]", "writable_paths[1]"]);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&missing).unwrap();
    let fine = app.put(SANDBOX).json(&json!({"writable_paths": [missing]})).send().await.expect_status(200).json();
    assert_eq!(fine["in_force"]["path_problems"], json!([]));
    std::fs::remove_dir(&missing).unwrap();
    let config = app.get(SANDBOX).send().await.expect_status(200).json();
    let problem = config["in_force"]["path_problems"][0].as_str().expect("a problem");
    assert!(problem.contains(missing.to_str().unwrap()) && problem.contains("No such file"), "{problem}");
    let done = call(&app, "shell", json!({"command": "echo on"})).await.unwrap();
    assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(0), &json!("on\n")), "{done}");
    // The response can be sent back.
    app.put(SANDBOX).json(&config).send().await.expect_status(200);
}

/// Runs code in the sandbox of this machine on files that the file tools use too.
#[tokio::test]
async fn code_and_file_tools_share_only_the_workspace() {
    let app = app().await;
    app.run_workers().await;
    let tier = app.get(SANDBOX).send().await.expect_status(200).json()["in_force"]["tier"].clone();
    if tier.is_null() {
        assert!(!offered(&app).await.contains(&"shell".to_owned()));
        return;
    }
    call(&app, "write_file", json!({"path": "in/a.txt", "content": "from outside"})).await.unwrap();
    let script =
        "cat in/a.txt && echo changed > in/a.txt && mkdir made && echo new > made/b.txt && chmod 600 made/b.txt";
    let done = call(&app, "shell", json!({"command": script})).await.unwrap();
    assert_eq!((&done["exit_code"], &done["stdout"], &done["stderr"]), (&json!(0), &json!("from outside"), &json!("")));
    let read = call(&app, "read_file", json!({"path": "in/a.txt"})).await.unwrap();
    assert_eq!(read["text"], "     1\tchanged\n");
    call(&app, "edit_file", json!({"path": "made/b.txt", "old_text": "new", "new_text": "newer"})).await.unwrap();
    call(&app, "write_file", json!({"path": "made/c.txt", "content": "c"})).await.unwrap();
    let done = call(&app, "shell", json!({"command": "cat made/* && rm -r made in && ls -A"})).await.unwrap();
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("newer\nc"), &json!(0)), "{done}");

    let secret = app.data_dir().join("secret.key");
    let secret = secret.to_str().unwrap();
    let key = std::fs::read_to_string(secret).unwrap();
    for command in
        [format!("cat {secret}"), format!("ln -s {secret} link && cat link"), "cat ../../secret.key".to_owned()]
    {
        let done = call(&app, "shell", json!({"command": command})).await.unwrap();
        assert_ne!(done["exit_code"], 0, "{command}: {done}");
        assert!(!done.to_string().contains(key.trim()));
    }
    let refused = call(&app, "read_file", json!({"path": "link"})).await.unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    assert_eq!(std::fs::read_dir(workspace(&app)).unwrap().count(), 1);
    let done = call(&app, "shell", json!({"command": "sleep 600", "timeout_seconds": 1})).await.unwrap();
    assert_eq!(done["exit_code"], Value::Null);
    assert!(done["ended"].as_str().unwrap().contains("time limit"));
    let done = call(&app, "shell", json!({"command": "yes | head -c 1000000"})).await.unwrap();
    assert!(done["stdout"].as_str().unwrap().contains("bytes left out]"), "{done}");
    assert!(call(&app, "shell", json!({"command": "true", "timeout_seconds": 61})).await.is_err());
}

/// 127.0.0.1 is the sandbox itself unless the program uses the proxy for it.
const FETCH: &str = "import os, urllib.request\nos.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\ntry:\n    print(urllib.request.urlopen(URL, timeout=10).read().decode())\nexcept Exception as error:\n    print('failed:', error)";

/// The network is disabled, or uses the proxy that applies the rules.
#[tokio::test]
async fn code_uses_the_network_only_as_allowed() {
    let app = app().await;
    if app.get(SANDBOX).send().await.json()["in_force"]["tier"] != "bubblewrap" {
        return;
    }
    let server = Server::start(|_| page("hello from the server")).await;
    let code = format!("URL = '{}'\n{FETCH}", server.url("/"));
    let fetch = || call(&app, "python", json!({"code": code}));
    let allow = json!({"allowed_hosts": ["127.0.0.1"]});
    app.put("/api/settings/security").json(&allow).send().await.expect_status(200);
    let output = fetch().await.unwrap();
    assert!(output["stdout"].as_str().unwrap().starts_with("failed:"), "{output}");
    app.put(SANDBOX).json(&json!({"network": true})).send().await.expect_status(200);
    let output = fetch().await.unwrap();
    assert_eq!(output["stdout"], "hello from the server\n", "{output}");
    app.put("/api/settings/security").json(&json!({"allowed_hosts": []})).send().await.expect_status(200);
    let output = fetch().await.unwrap();
    assert!(output["stdout"].as_str().unwrap().contains("failed:"), "{output}");
    app.put(SANDBOX).json(&json!({"network": false})).send().await.expect_status(200);
    let output = fetch().await.unwrap();
    assert!(output["stdout"].as_str().unwrap().contains("failed:"), "{output}");
    assert_eq!(server.requests().len(), 1);
}
