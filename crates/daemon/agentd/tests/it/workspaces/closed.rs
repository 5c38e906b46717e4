//! Workspaces with restrictive modes set by code.

use serde_json::json;

use super::{Bench, close, wait_until};
use crate::cli::{agentd, path};

const NESTED: &str = "mkdir -p a/b/c && echo deep > a/b/c/f && echo plain > p && chmod 0 a/b/c/f a/b/c a/b a p";

#[tokio::test]
async fn tools_work_after_code_removed_permissions() {
    let bench = Bench::new().await;
    bench.shell(NESTED).await;
    let calls = [
        ("shell", json!({"command": "echo on"}), "on"),
        ("write_file", json!({"path": "w", "content": "written"}), "created"),
        ("read_file", json!({"path": "a/b/c/f"}), "deep"),
        ("list_files", json!({"path": "a/b", "depth": 3}), "a/b/c/f"),
        ("search_files", json!({"pattern": "deep"}), "a/b/c/f"),
        ("edit_file", json!({"path": "a/b/c/f", "old_text": "deep", "new_text": "deeper"}), "replacements"),
        ("write_file", json!({"path": "a/b/new", "content": "written"}), "created"),
    ];
    for (tool, input, part) in calls {
        // Permissions restored by an earlier call are removed again.
        for name in ["a/b/c/f", "a/b/c", "a/b", "a", "p", ""] {
            close(&bench.workspace().join(name));
        }
        let done = bench.call(tool, input).await;
        assert!(done.to_string().contains(part), "{tool}: {done}");
    }
}

#[tokio::test]
async fn agent_with_a_closed_workspace_can_be_deleted_and_its_name_reused() {
    let bench = Bench::new().await;
    bench.shell(&format!("{NESTED} && chmod 0 .")).await;
    bench.process.delete("/api/agents/scout").send().await.expect_status(200);
    bench.process.create_agent("scout").await;
    let trash = bench.process.data_dir().join("agents/.trash");
    let is_empty = || std::fs::read_dir(&trash).is_ok_and(|mut entries| entries.next().is_none());
    // Waits for the purge.
    wait_until(is_empty).await;
    assert_eq!(std::fs::read_dir(bench.workspace()).unwrap().count(), 0);
}

#[tokio::test]
async fn closed_files_are_backed_up_and_restored() {
    let bench = Bench::new().await;
    bench.shell(&format!("{NESTED} && chmod 0 .")).await;
    let archive = bench.process.folder().join("backup.tar.gz");
    let ran = agentd(&bench.process, &["backup", path(&archive)]).await.success();
    assert!(!ran.stderr.contains("left out"), "{}", ran.stderr);
    // Restores over a closed workspace.
    for name in ["a/b/c/f", "a/b/c", "a/b", "a", "p", ""] {
        close(&bench.workspace().join(name));
    }
    agentd(&bench.process, &["restore", "--yes", path(&archive)]).await.success();
    let read = |name: &str| std::fs::read_to_string(bench.workspace().join(name)).expect(name);
    assert_eq!((read("a/b/c/f"), read("p")), ("deep\n".to_owned(), "plain\n".to_owned()));
    let names = std::fs::read_dir(bench.process.data_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("restore")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Files of another user cannot be opened with any mode.
#[tokio::test]
async fn backup_with_unreadable_files_fails_and_lists_them() {
    if !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: only root can make files that the daemon cannot read");
        return;
    }
    let bench = Bench::new().await;
    let folder = bench.process.folder().to_path_buf();
    for number in 0..25 {
        let file = bench.workspace().join(format!("theirs-{number:02}"));
        std::fs::write(&file, "not the daemon's").unwrap();
        close(&file);
    }
    std::fs::create_dir(bench.workspace().join("folder")).unwrap();
    close(&bench.workspace().join("folder"));
    std::fs::write(bench.workspace().join("own"), "the daemon's").unwrap();
    let archive = folder.join("backup.tar.gz");
    for arguments in [["backup", path(&archive)], ["backup", "-"]] {
        let ran = agentd(&bench.process, &arguments).await.failure();
        for part in ["26 ", "agents/scout/folder", "agents/scout/theirs-00", "permission denied", "--allow-incomplete"]
        {
            assert!(ran.stderr.contains(part), "{part} in {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("theirs-24"), "the list is limited: {}", ran.stderr);
        assert_eq!(ran.stdout.len(), 0);
    }
    assert!(!archive.exists());

    let ran = agentd(&bench.process, &["backup", "--allow-incomplete", path(&archive)]).await.success();
    assert!(ran.stderr.contains("26 ") && ran.stderr.contains("agents/scout/theirs-00"), "{}", ran.stderr);
    let ran = agentd(&bench.process, &["backup", "--allow-incomplete", "-"]).await.success();
    assert!(ran.stderr.contains("26 ") && ran.stdout.starts_with(&[0x1f, 0x8b]), "{}", ran.stderr);
    let ran = agentd(&bench.process, &["restore", "--yes", path(&archive)]).await.success();
    assert!(ran.stderr.contains("26 ") && ran.stderr.contains("agents/scout/theirs-00"), "{}", ran.stderr);
    assert!(bench.workspace().join("own").exists());
}
