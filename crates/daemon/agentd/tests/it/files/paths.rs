//! Access is confined to the workspace.

use std::os::unix::fs::symlink;

use super::*;

/// Invalid paths.
const INVALID_PATHS: [&str; 9] =
    ["/etc/passwd", "../other", "a/../../other", "a/..", "~/x", "a\u{1b}[31mb", "a\nb", "a\u{7f}", ".."];

#[tokio::test]
async fn path_outside_the_workspace_is_rejected_by_every_operation() {
    let app = app().await;
    write(&app, "here", "x").send().await.expect_status(200);
    let (long, deep) = ("n".repeat(256), "d/".repeat(65) + "f");
    for bad in INVALID_PATHS.iter().copied().chain([long.as_str(), deep.as_str(), "a\0b"]) {
        let to = json!({"path": bad});
        for (what, request) in [
            ("list", app.get(&file_url("", bad))),
            ("entry", app.get(&file_url("/entry", bad))),
            ("read", read(&app, bad)),
            ("write", write(&app, bad, "x")),
            ("directory", app.put(&file_url("/directory", bad))),
            ("move", app.patch(&file_url("", bad)).json(&json!({"path": "there"}))),
            ("move to", app.patch(&file_url("", "here")).json(&to)),
            ("delete", app.delete(&(file_url("", bad) + "&recursive=true"))),
        ] {
            let answer = request.send().await.expect_status(400).json();
            assert!(!answer["error"].as_str().unwrap().is_empty(), "{what} {bad:?}: {answer}");
        }
    }
    // Names of partial files are reserved: such files are deleted at startup.
    write(&app, "a/.agentd-1.tmp", "x").send().await.expect_error(400, "invalid_request");
    let swept = json!({"path": ".agentd-1.tmp"});
    app.patch(&file_url("", "here")).json(&swept).send().await.expect_error(400, "invalid_request");
    for root in [".", "./", "a/"] {
        write(&app, root, "x").send().await.expect_error(400, "invalid_request");
    }
    for root in [".", "./."] {
        app.delete(&(file_url("", root) + "&recursive=true")).send().await.expect_error(400, "invalid_request");
        app.patch(&file_url("", root))
            .json(&json!({"path": "there"}))
            .send()
            .await
            .expect_error(400, "invalid_request");
    }
    assert_eq!(names(&list(&app, "").await), ["here"]);
    assert_eq!(std::fs::read_dir(app.data_dir().join("agents")).unwrap().count(), 2, "the workspace and its lock");
}

#[tokio::test]
async fn links_and_devices_are_not_opened() {
    let app = app().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let inside = workspace(&app);
    symlink(outside.path(), inside.join("out")).unwrap();
    symlink(outside.path().join("secret"), inside.join("secret")).unwrap();
    symlink("nowhere", inside.join("dangling")).unwrap();
    std::fs::write(inside.join("plain"), "plain").unwrap();
    symlink("plain", inside.join("alias")).unwrap();
    std::fs::hard_link(outside.path().join("secret"), inside.join("hard")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, inside.join("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();

    for (path, code) in [
        ("out/secret", "is_link"),
        ("secret", "is_link"),
        ("dangling", "is_link"),
        ("alias", "is_link"),
        ("hard", "not_a_file"),
        ("pipe", "not_a_file"),
        ("plain/x", "not_a_directory"),
    ] {
        read(&app, path).send().await.expect_error(409, code);
        write(&app, path, "changed").send().await.expect_error(409, code);
    }
    app.get(&file_url("", "out")).send().await.expect_error(409, "is_link");
    app.get(&file_url("", "plain")).send().await.expect_error(409, "not_a_directory");
    app.put(&file_url("/directory", "out/made")).send().await.expect_error(409, "is_link");
    app.put(&file_url("/directory", "plain")).send().await.expect_error(409, "not_a_directory");
    app.patch(&file_url("", "plain")).json(&json!({"path": "out/plain"})).send().await.expect_error(409, "is_link");
    app.patch(&file_url("", "out/secret")).json(&json!({"path": "mine"})).send().await.expect_error(409, "is_link");
    app.patch(&file_url("", "pipe")).json(&json!({"path": "pipe2"})).send().await.expect_error(409, "not_a_file");
    app.delete(&file_url("", "out/secret")).send().await.expect_error(409, "is_link");
    write(&app, "out", "x").send().await.expect_error(409, "is_link");

    let listed = list(&app, "").await;
    let kind = |name: &str| {
        let found = listed["files"].as_array().unwrap().iter().find(|file| file["name"] == name);
        found.map(|file| (file["kind"].clone(), file["target"].clone())).unwrap()
    };
    assert_eq!(kind("dangling"), (json!("link"), json!("nowhere")));
    assert_eq!(kind("pipe"), (json!("other"), json!(null)));
    // Such entries can be removed without affecting their targets.
    for path in ["out", "secret", "dangling", "alias", "hard", "pipe"] {
        app.delete(&(file_url("", path) + "&recursive=true")).send().await.expect_status(200);
    }
    assert_eq!(names(&list(&app, "").await), ["plain"]);
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
