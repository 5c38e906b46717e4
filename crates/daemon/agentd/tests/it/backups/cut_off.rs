//! `kill -9` while a backup is made, and while one is restored.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::support::TestProcess;

fn parts(process: &TestProcess) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(process.data_dir().join("backups")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".partial")).collect()
}

async fn make_on(process: &TestProcess) -> String {
    let begun = process.post(BACKUPS).json(&json!({})).send().await.expect_status(202).json();
    let work = ended(|| process.get(WORK)).await;
    assert_eq!(work["state"], "done", "{work}");
    text(&begun, "name")
}

#[tokio::test]
async fn a_backup_that_was_cut_off_is_never_listed() {
    let mut process = TestProcess::with_owner().await;
    write_noise(&process.data_dir(), 64);
    process.post(BACKUPS).json(&json!({})).send().await.expect_status(202);
    let mut eventually = Eventually::new();
    while parts(&process).is_empty() {
        eventually.look_again().await;
    }
    process.kill();
    assert_eq!(parts(&process).len(), 1, "it was under way");
    process.spawn().await;
    let listed = process.get(BACKUPS).send().await.expect_status(200).json();
    assert_eq!(listed["total"], 0, "{listed}");
    let work = process.get(WORK).send().await.expect_status(200).json()["work"].clone();
    assert_eq!((&work["kind"], &work["state"]), (&json!("backup"), &json!("interrupted")), "{work}");
    assert!(parts(&process).is_empty(), "what was left of it is removed");
    make_on(&process).await;
}

#[tokio::test]
async fn a_restore_that_was_cut_off_says_which_state_stands() {
    const KILLS: u32 = 6;
    let mut process = TestProcess::with_owner().await;
    write_noise(&process.data_dir(), 8);
    process.make_agent("ada").await;
    let name = make_on(&process).await;
    let path = format!("{BACKUPS}/{name}/restore");
    let (mut whole, mut undone) = (Duration::ZERO, 0);
    for round in 0..KILLS {
        process.make_agent(&format!("later-{round}")).await;
        let started = Instant::now();
        process.post(&path).json(&json!({"confirm": name})).send().await.expect_status(202);
        // The first shows how long it takes; the others are killed at moments spread over that.
        if round == 0 {
            assert_eq!(ended(|| process.get(WORK)).await["state"], "done");
            whole = started.elapsed();
        } else {
            tokio::time::sleep(whole * (round - 1) / KILLS).await;
        }
        process.kill();
        process.spawn().await;
        let is_old = process.get(&format!("/api/agents/later-{round}")).send().await.status == 404;
        undone += u32::from(!is_old);
        let work = process.get(WORK).send().await.expect_status(200).json()["work"].clone();
        let state = if is_old { "done" } else { "interrupted" };
        assert_eq!((&work["kind"], &work["state"]), (&json!("restore"), &json!(state)), "kill {round}: {work}");
        process.get("/api/agents/ada").send().await.expect_status(200);
        if !is_old {
            process.delete(&format!("/api/agents/later-{round}")).send().await.expect_status(200);
        }
    }
    assert!(undone > 0, "no kill came soon enough");
}
