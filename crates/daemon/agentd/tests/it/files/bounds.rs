//! Limits of a workspace, and disk space reserved for the daemon.

use std::path::Path;

use super::*;

const SANDBOX: &str = "/api/sandbox/config";

async fn set_limits(app: &TestApp, megabytes: u32, files: u32) {
    let bounds = json!({"workspace_limit_mb": megabytes, "workspace_max_files": files});
    app.put(SANDBOX).json(&bounds).send().await.expect_status(200);
}

#[tokio::test]
async fn files_are_accepted_up_to_the_limit() {
    let app = app().await;
    set_limits(&app, 16, 100).await;
    for number in 0..98 {
        std::fs::write(workspace(&app).join(format!("f{number}")), "x").unwrap();
    }
    // Parent folders count, too.
    let refused = write(&app, "a/b/c", "x").send().await.expect_error(409, "workspace_full").json();
    assert!(refused["error"].as_str().unwrap().contains("`workspace_max_files`"), "{refused}");
    assert!(!workspace(&app).join("a").exists());
    app.put(&file_url("/directory", "a/b/c")).send().await.expect_error(409, "workspace_full");
    write(&app, "a/b", "x").send().await.expect_status(200);
    let usage = list(&app, "").await["usage"].clone();
    assert_eq!((&usage["files"], &usage["max_files"]), (&json!(100), &json!(100)));
    write(&app, "more", "x").send().await.expect_error(409, "workspace_full");
    call(&app, "write_file", json!({"path": "more", "content": ""})).await.unwrap_err();
    // Existing files can be overwritten, and deletions free capacity immediately.
    write(&app, "f0", "y").send().await.expect_status(200);
    app.delete(&file_url("", "f1")).send().await.expect_status(200);
    write(&app, "more", "x").send().await.expect_status(200);
    set_limits(&app, 16, 101).await;
    write(&app, "another", "x").send().await.expect_status(200);
}

#[tokio::test]
async fn bytes_are_accepted_up_to_the_limit() {
    let app = app().await;
    set_limits(&app, 16, 1_000).await;
    let megabytes = |count: usize| vec![b'x'; count << 20];
    write(&app, "a", megabytes(10)).send().await.expect_status(200);
    let refused = write(&app, "b", megabytes(7)).send().await.expect_error(409, "workspace_full").json();
    assert!(refused["error"].as_str().unwrap().contains("`workspace_limit_mb`"), "{refused}");
    assert_eq!(std::fs::read_dir(workspace(&app)).unwrap().count(), 1, "no partial file remains");
    write(&app, "b", megabytes(5)).send().await.expect_status(200);
    // Overwriting a file reuses its space.
    write(&app, "a", megabytes(10)).send().await.expect_status(200);
    write(&app, "a", megabytes(12)).send().await.expect_error(409, "workspace_full");
    write(&app, "a", megabytes(1)).send().await.expect_status(200);
    let usage = list(&app, "").await["usage"].clone();
    assert_eq!(usage["max_bytes"], 16 << 20);
    assert!((6u64 << 20..17 << 20).contains(&usage["bytes"].as_u64().unwrap()), "{usage}");
}

/// A small in-memory file system, unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    #[allow(clippy::disallowed_methods, reason = "a test need not outlive its children")]
    fn mount(at: &Path, options: &str) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then(|| Self(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    #[allow(clippy::disallowed_methods, reason = "a test need not outlive its children")]
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Starts a daemon with the agent `scout` and its workspaces on a small disk. Returns `None` without the permission to
/// mount one.
#[allow(clippy::print_stdout, reason = "skipped tests are reported")]
async fn on_small_disk(options: &str) -> Option<(TestApp, SmallDisk)> {
    let app = TestApp::with_owner().await;
    let agents = app.data_dir().join("agents");
    std::fs::create_dir_all(&agents).unwrap();
    let Some(disk) = SmallDisk::mount(&agents, options) else {
        println!("NOT TESTED: mounting a file system is not permitted");
        return None;
    };
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
    Some((app, disk))
}

async fn health(app: &TestApp) -> Value {
    app.clock.advance(std::time::Duration::from_secs(2));
    app.get("/api/monitoring/health/components/db").send().await.expect_status(200).json()
}

/// Waits until the space of removed files is free.
async fn wait_for_space(app: &TestApp) {
    let left = || rustix::fs::statvfs(workspace(app)).map(|disk| disk.f_bavail * disk.f_frsize).unwrap();
    let mut eventually = Eventually::new();
    while left() < 9 << 20 {
        eventually.retry().await;
    }
}

#[tokio::test]
async fn last_disk_space_is_reserved_for_the_daemon() {
    let Some((app, _disk)) = on_small_disk("size=10m").await else { return };
    assert_eq!(health(&app).await["status"], "healthy");
    // All but one percent.
    std::fs::write(workspace(&app).join("large"), vec![0; (10 << 20) - (100 << 10)]).unwrap();
    let refused = write(&app, "a", "x").send().await.expect_error(503, "disk_full").json();
    assert!(refused["error"].as_str().unwrap().contains("reserved for the daemon"), "{refused}");
    app.put(&file_url("/directory", "d")).send().await.expect_error(503, "disk_full");
    let refused = call(&app, "write_file", json!({"path": "a", "content": "x"})).await.unwrap_err().to_string();
    assert!(refused.contains("reserved for the daemon"), "{refused}");
    let status = health(&app).await;
    assert_eq!(status["status"], "degraded", "{status}");
    assert!(status["message"].as_str().unwrap().contains(" kB are free"), "{status}");
    // Existing files can be read and removed.
    assert_eq!(read(&app, "large").send().await.expect_status(200).body.len(), (10 << 20) - (100 << 10));
    app.delete(&file_url("", "large")).send().await.expect_status(200);
    // The space is freed when the last handle is closed, which the download may still hold.
    wait_for_space(&app).await;
    write(&app, "a", "x").send().await.expect_status(200);
    // An upload that reaches the reserved space is aborted and leaves no file.
    write(&app, "b", vec![0; (10 << 20) - (100 << 10)]).send().await.expect_error(503, "disk_full");
    assert_eq!(names(&list(&app, "").await), ["a"]);
    wait_for_space(&app).await;
    assert_eq!(health(&app).await["status"], "healthy");
}

#[tokio::test]
async fn last_inodes_are_reserved_for_the_daemon() {
    let Some((app, _disk)) = on_small_disk("size=20m,nr_inodes=1000").await else { return };
    for number in 0..985 {
        std::fs::write(workspace(&app).join(format!("f{number}")), "").unwrap();
    }
    let refused = write(&app, "a", "x").send().await.expect_error(503, "disk_full").json();
    assert!(refused["error"].as_str().unwrap().contains("too few files can be created"), "{refused}");
    assert_eq!(health(&app).await["status"], "degraded");
    for number in 0..20 {
        app.delete(&file_url("", &format!("f{number}"))).send().await.expect_status(200);
    }
    write(&app, "a", "x").send().await.expect_status(200);
}

#[tokio::test]
async fn program_that_reaches_the_reserved_space_is_stopped() {
    let Some((app, _disk)) = on_small_disk("size=40m").await else { return };
    if app.get(SANDBOX).send().await.expect_status(200).json()["in_force"]["tier"].is_null() {
        app.put(SANDBOX).json(&json!({"backend": "none"})).send().await.expect_status(200);
    }
    let command = "head -c 39800000 /dev/zero > a; head -c 39800000 /dev/zero > b; sleep 60";
    let done = call(&app, "shell", json!({"command": command})).await.unwrap();
    assert!(done["ended"].as_str().unwrap().contains("reserved for the daemon"), "{done}");
    // A program that needs no disk space may run.
    let done = call(&app, "shell", json!({"command": "ls; sleep 1"})).await.unwrap();
    assert_eq!(done["exit_code"], 0, "{done}");
}
