//! What a workspace may hold, and what of the disk is kept for the daemon.

use std::path::Path;

use super::*;

const SANDBOX: &str = "/api/sandbox/config";

async fn bound(app: &TestApp, megabytes: u32, files: u32) {
    let bounds = json!({"workspace_limit_mb": megabytes, "workspace_max_files": files});
    app.put(SANDBOX).json(&bounds).send().await.expect_status(200);
}

#[tokio::test]
async fn files_are_taken_up_to_the_bound() {
    let app = app().await;
    bound(&app, 16, 100).await;
    for number in 0..98 {
        std::fs::write(workspace(&app).join(format!("f{number}")), "x").unwrap();
    }
    // A folder on the way is one, too.
    let refused = write(&app, "a/b/c", "x").send().await.expect_error(409, "workspace_full").json();
    assert!(refused["error"].as_str().unwrap().contains("`workspace_max_files`"), "{refused}");
    assert!(!workspace(&app).join("a").exists());
    app.put(&of("/directory", "a/b/c")).send().await.expect_error(409, "workspace_full");
    write(&app, "a/b", "x").send().await.expect_status(200);
    let usage = list(&app, "").await["usage"].clone();
    assert_eq!((&usage["files"], &usage["max_files"]), (&json!(100), &json!(100)));
    write(&app, "more", "x").send().await.expect_error(409, "workspace_full");
    call(&app, "write_file", json!({"path": "more", "content": ""})).await.unwrap_err();
    // What is there can be written, and what goes makes room at once.
    write(&app, "f0", "y").send().await.expect_status(200);
    app.delete(&of("", "f1")).send().await.expect_status(200);
    write(&app, "more", "x").send().await.expect_status(200);
    bound(&app, 16, 101).await;
    write(&app, "another", "x").send().await.expect_status(200);
}

#[tokio::test]
async fn bytes_are_taken_up_to_the_bound_and_none_of_what_is_too_much() {
    let app = app().await;
    bound(&app, 16, 1_000).await;
    let megabytes = |count: usize| vec![b'x'; count << 20];
    write(&app, "a", megabytes(10)).send().await.expect_status(200);
    let refused = write(&app, "b", megabytes(7)).send().await.expect_error(409, "workspace_full").json();
    assert!(refused["error"].as_str().unwrap().contains("`workspace_limit_mb`"), "{refused}");
    assert_eq!(std::fs::read_dir(workspace(&app)).unwrap().count(), 1, "nothing of it stays");
    write(&app, "b", megabytes(5)).send().await.expect_status(200);
    // One that is replaced makes room for what replaces it.
    write(&app, "a", megabytes(10)).send().await.expect_status(200);
    write(&app, "a", megabytes(12)).send().await.expect_error(409, "workspace_full");
    write(&app, "a", megabytes(1)).send().await.expect_status(200);
    let usage = list(&app, "").await["usage"].clone();
    assert_eq!(usage["max_bytes"], 16 << 20);
    assert!((6u64 << 20..17 << 20).contains(&usage["bytes"].as_u64().unwrap()), "{usage}");
}

/// A file system of its own, in memory, that goes with the test.
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

/// A daemon with the agent `scout`, whose workspaces are on a small disk; `None` where nobody may mount one.
#[allow(clippy::print_stdout, reason = "a test that cannot be run says so")]
async fn on_small_disk(options: &str) -> Option<(TestApp, SmallDisk)> {
    let app = TestApp::with_owner().await;
    let agents = app.data_dir().join("agents");
    std::fs::create_dir_all(&agents).unwrap();
    let Some(disk) = SmallDisk::mount(&agents, options) else {
        println!("NOT TESTED: nobody may mount a small disk here");
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
async fn has_room(app: &TestApp) {
    let left = || rustix::fs::statvfs(workspace(app)).map(|disk| disk.f_bavail * disk.f_frsize).unwrap();
    let mut eventually = Eventually::new();
    while left() < 9 << 20 {
        eventually.look_again().await;
    }
}

#[tokio::test]
async fn the_last_of_the_disk_is_kept() {
    let Some((app, _disk)) = on_small_disk("size=10m").await else { return };
    assert_eq!(health(&app).await["status"], "healthy");
    // All but a hundredth.
    std::fs::write(workspace(&app).join("large"), vec![0; (10 << 20) - (100 << 10)]).unwrap();
    let refused = write(&app, "a", "x").send().await.expect_error(503, "disk_full").json();
    assert!(refused["error"].as_str().unwrap().contains("kept for the daemon"), "{refused}");
    app.put(&of("/directory", "d")).send().await.expect_error(503, "disk_full");
    let refused = call(&app, "write_file", json!({"path": "a", "content": "x"})).await.unwrap_err().to_string();
    assert!(refused.contains("kept for the daemon"), "{refused}");
    let said = health(&app).await;
    assert_eq!(said["status"], "degraded", "{said}");
    assert!(said["message"].as_str().unwrap().contains(" kB of the disk are left"), "{said}");
    // What is there can be read and removed.
    assert_eq!(read(&app, "large").send().await.expect_status(200).body.len(), (10 << 20) - (100 << 10));
    app.delete(&of("", "large")).send().await.expect_status(200);
    // The space is freed when the last handle is closed, and the download may still hold one.
    has_room(&app).await;
    write(&app, "a", "x").send().await.expect_status(200);
    // An upload that comes too near to the end breaks off, and leaves nothing.
    write(&app, "b", vec![0; (10 << 20) - (100 << 10)]).send().await.expect_error(503, "disk_full");
    assert_eq!(names(&list(&app, "").await), ["a"]);
    has_room(&app).await;
    assert_eq!(health(&app).await["status"], "healthy");
}

#[tokio::test]
async fn the_last_files_of_the_disk_are_kept() {
    let Some((app, _disk)) = on_small_disk("size=20m,nr_inodes=1000").await else { return };
    for number in 0..985 {
        std::fs::write(workspace(&app).join(format!("f{number}")), "").unwrap();
    }
    let refused = write(&app, "a", "x").send().await.expect_error(503, "disk_full").json();
    assert!(refused["error"].as_str().unwrap().contains("more files"), "{refused}");
    assert_eq!(health(&app).await["status"], "degraded");
    for number in 0..20 {
        app.delete(&of("", &format!("f{number}"))).send().await.expect_status(200);
    }
    write(&app, "a", "x").send().await.expect_status(200);
}

#[tokio::test]
async fn code_that_comes_to_the_last_of_the_disk_is_ended() {
    let Some((app, _disk)) = on_small_disk("size=40m").await else { return };
    if app.get(SANDBOX).send().await.expect_status(200).json()["in_force"]["tier"].is_null() {
        app.put(SANDBOX).json(&json!({"backend": "none"})).send().await.expect_status(200);
    }
    let command = "head -c 39800000 /dev/zero > a; head -c 39800000 /dev/zero > b; sleep 60";
    let done = call(&app, "shell", json!({"command": command})).await.unwrap();
    assert!(done["ended"].as_str().unwrap().contains("the last of the disk"), "{done}");
    // Who takes nothing of a full disk may run.
    let done = call(&app, "shell", json!({"command": "ls; sleep 1"})).await.unwrap();
    assert_eq!(done["exit_code"], 0, "{done}");
}
