//! Limits of a workspace.

use super::*;

async fn set_limits(app: &TestApp, megabytes: u32, files: u32) {
    let bounds = json!({"workspace_limit_mb": megabytes, "workspace_max_files": files});
    let config = app.put(SANDBOX).json(&bounds).send().await.expect_status(200).json();
    assert_eq!((&config["workspace_limit_mb"], &config["workspace_max_files"]), (&json!(megabytes), &json!(files)));
}

/// Starts a daemon with the sandbox of this machine, or without one if none is available.
async fn app_with_code_execution() -> TestApp {
    let app = app().await;
    if app.get(SANDBOX).send().await.expect_status(200).json()["in_force"]["tier"].is_null() {
        app.put(SANDBOX).json(&json!({"backend": "none"})).send().await.expect_status(200);
    }
    app
}

async fn shell(app: &TestApp, command: &str) -> Value {
    call(app, "shell", json!({"command": command})).await.unwrap()
}

fn count(app: &TestApp) -> usize {
    std::fs::read_dir(workspace(app)).unwrap().count()
}

#[tokio::test]
async fn workspace_limits_have_defaults_and_ranges() {
    let app = TestApp::with_owner().await;
    let config = app.get(SANDBOX).send().await.expect_status(200).json();
    assert_eq!((&config["workspace_limit_mb"], &config["workspace_max_files"]), (&json!(4_096), &json!(100_000)));
    for bad in [
        json!({"workspace_limit_mb": 15, "workspace_max_files": 99}),
        json!({"workspace_limit_mb": 1_048_577, "workspace_max_files": 10_000_001}),
    ] {
        let refused = app.put(SANDBOX).json(&bad).send().await.expect_error(400, "invalid_request");
        let mut fields = refused.bad_fields();
        fields.sort();
        fields.dedup();
        assert_eq!(fields, ["workspace_limit_mb", "workspace_max_files"]);
    }
}

#[tokio::test]
async fn writes_beyond_the_limits_fail_and_shrinking_is_allowed() {
    let app = app_with_code_execution().await;
    set_limits(&app, 16, 100).await;
    let write = async |name: &str, bytes: usize| {
        call(&app, "write_file", json!({"path": name, "content": "x".repeat(bytes)})).await
    };
    for number in 0..100 {
        write(&format!("f{number}"), 10).await.unwrap();
    }
    let refused = write("one_more", 10).await.unwrap_err().to_string();
    assert!(refused.contains("100 files") && refused.contains("workspace_max_files"), "{refused}");
    assert_eq!(count(&app), 100);
    // The limits are read at every call.
    set_limits(&app, 16, 101).await;
    write("one_more", 10).await.unwrap();
    set_limits(&app, 16, 100).await;
    write("f0", 7 << 20).await.unwrap();
    write("f1", 7 << 20).await.unwrap();
    let refused = write("f2", 7 << 20).await.unwrap_err().to_string();
    assert!(refused.contains("16 MB") && refused.contains("workspace_limit_mb"), "{refused}");
    // The apparent size of sparse files counts.
    shell(&app, "truncate -s 1G f3").await;
    let refused = write("f4", 11).await.unwrap_err().to_string();
    assert!(refused.contains("workspace_limit_mb"), "{refused}");
    let edit = async |text: &str| {
        call(&app, "edit_file", json!({"path": "f4", "old_text": "x".repeat(10), "new_text": text})).await
    };
    let refused = edit("longer than it was").await.unwrap_err().to_string();
    assert!(refused.contains("workspace_limit_mb"), "{refused}");
    // Edits that make a file smaller are allowed.
    edit("short").await.unwrap();
    write("f1", 5).await.unwrap();
    write("f3", 5).await.unwrap();
    write("f4", 11).await.unwrap();
}

#[tokio::test]
async fn code_that_exceeds_the_limits_is_ended_and_can_clean_up() {
    let app = app_with_code_execution().await;
    set_limits(&app, 16, 2_000).await;
    let flood = "import os\nfor n in range(150_000):\n    open(f'f{n}', 'w').close()";
    let done = call(&app, "python", json!({"code": flood})).await.unwrap();
    let ended = done["ended"].as_str().unwrap();
    assert!(ended.contains("2000 files") && ended.contains("workspace_max_files"), "{done}");
    let made = count(&app);
    assert!((2_001..4_000).contains(&made), "{made} files");
    // A workspace above the limit must not grow but may shrink.
    let done = shell(&app, "ls | wc -l; rm f1; echo again > f1").await;
    assert_eq!(done["exit_code"], 0, "{done}");
    let done = shell(&app, "for n in 1 2 3; do echo > more$n; done; sleep 30").await;
    assert!(done["ended"].as_str().unwrap().contains("workspace_max_files"), "{done}");
    let done = shell(&app, "find . -type f -delete").await;
    assert_eq!((&done["exit_code"], count(&app)), (&json!(0), 0), "{done}");

    // Sparse files are created immediately and use no disk space.
    let done = shell(&app, "for n in 1 2 3 4 5 6 7 8 9 10; do truncate -s 1G hole$n; done").await;
    assert!(done["ended"].as_str().unwrap().contains("16 MB (`workspace_limit_mb`)"), "{done}");
    shell(&app, "rm hole*").await;
    let done = shell(&app, "head -c 10000000 /dev/zero > one; ln one two").await;
    assert!(done["ended"].as_str().unwrap().contains("workspace_limit_mb"), "every hard link counts: {done}");
    let done = shell(&app, "rm one two; echo fine").await;
    assert_eq!(done["stdout"], "fine\n", "{done}");
}

#[tokio::test]
async fn flood_of_files_is_ended_shortly_after_the_limit() {
    const MAX_FILES: u32 = 30_000;
    let app = app_with_code_execution().await;
    set_limits(&app, 1_024, MAX_FILES).await;
    for (kind, code) in [
        ("files", "for n in range(900_000):\n    open(f'f{n}', 'w').close()"),
        ("folders", "for n in range(900_000):\n    os.mkdir(f'd{n}')"),
        ("hard links", "open('f', 'w').close()\nfor n in range(60_000):\n    os.link('f', f'l{n}')"),
        ("symbolic links", "for n in range(900_000):\n    os.symlink('f', f's{n}')"),
    ] {
        let done = call(&app, "python", json!({"code": format!("import os\n{code}")})).await.unwrap();
        assert!(done["ended"].as_str().unwrap_or_default().contains("workspace_max_files"), "{kind}: {done}");
        let made = count(&app);
        println!("{made} {kind} of {MAX_FILES}");
        // The watcher may wait long for a processor, and new folders are reported late by the disk.
        assert!((30_001..60_000).contains(&made), "{made} {kind}");
        let cleared = shell(&app, "find . -mindepth 1 -delete").await;
        assert_eq!((&cleared["exit_code"], count(&app)), (&json!(0), 0), "{cleared}");
    }
}

#[tokio::test]
async fn run_just_below_the_file_limit_continues() {
    let app = app_with_code_execution().await;
    set_limits(&app, 1_024, 5_000).await;
    let code = "import os\nfor n in range(20):\n    for m in range(4_950):\n        os.mkdir(f'd{m}')\n    \
                for m in range(4_950):\n        os.rmdir(f'd{m}')\nprint('fine')";
    let done = call(&app, "python", json!({"code": code})).await.unwrap();
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("fine\n"), &json!(0)), "{done}");
}

#[tokio::test]
async fn files_in_unreadable_folders_count_toward_the_limit() {
    let app = app_with_code_execution().await;
    set_limits(&app, 16, 200).await;
    let done = shell(&app, "mkdir -p d/e && cd d/e && touch $(seq 300) && cd ../.. && chmod 0 d/e d").await;
    assert!(done["ended"].as_str().unwrap().contains("workspace_max_files"), "{done}");
    let refused = call(&app, "write_file", json!({"path": "x", "content": ""})).await.unwrap_err().to_string();
    assert!(refused.contains("workspace_max_files"), "{refused}");
}
