//! `kill -9` during a backup and during a restore.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::support::TestProcess;

fn partial_files(process: &TestProcess) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(process.data_dir().join("backups")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".partial")).collect()
}

async fn create_backup(process: &TestProcess) -> String {
    let begun = process.post(BACKUPS).json(&json!({})).send().await.expect_status(202).json();
    let work = wait_until_ended(|| process.get(WORK)).await;
    assert_eq!(work["state"], "done", "{work}");
    text(&begun, "name")
}

#[tokio::test]
async fn interrupted_backup_is_not_listed() {
    let mut process = TestProcess::with_owner().await;
    write_noise(&process.data_dir(), 64);
    process.post(BACKUPS).json(&json!({})).send().await.expect_status(202);
    let mut eventually = Eventually::new();
    while partial_files(&process).is_empty() {
        eventually.retry().await;
    }
    process.kill();
    assert_eq!(partial_files(&process).len(), 1, "the backup was running");
    process.spawn().await;
    let listed = process.get(BACKUPS).send().await.expect_status(200).json();
    assert_eq!(listed["total"], 0, "{listed}");
    let work = process.get(WORK).send().await.expect_status(200).json()["work"].clone();
    assert_eq!((&work["kind"], &work["state"]), (&json!("backup"), &json!("interrupted")), "{work}");
    assert!(partial_files(&process).is_empty(), "the partial file is removed");
    create_backup(&process).await;
}

#[tokio::test]
async fn interrupted_restore_reports_the_resulting_state() {
    const KILLS: u32 = 6;
    let mut process = TestProcess::with_owner().await;
    write_noise(&process.data_dir(), 8);
    process.create_agent("ada").await;
    let name = create_backup(&process).await;
    let path = format!("{BACKUPS}/{name}/restore");
    let (mut full_duration, mut interrupted) = (Duration::ZERO, 0);
    for round in 0..KILLS {
        process.create_agent(&format!("later-{round}")).await;
        let started = Instant::now();
        process.post(&path).json(&json!({"confirm": name})).send().await.expect_status(202);
        // The first round measures the duration; the others are killed at evenly spaced times within it.
        if round == 0 {
            assert_eq!(wait_until_ended(|| process.get(WORK)).await["state"], "done");
            full_duration = started.elapsed();
        } else {
            tokio::time::sleep(full_duration * (round - 1) / KILLS).await;
        }
        process.kill();
        process.spawn().await;
        let is_old = process.get(&format!("/api/agents/later-{round}")).send().await.status == 404;
        interrupted += u32::from(!is_old);
        let work = process.get(WORK).send().await.expect_status(200).json()["work"].clone();
        let state = if is_old { "done" } else { "interrupted" };
        assert_eq!((&work["kind"], &work["state"]), (&json!("restore"), &json!(state)), "kill {round}: {work}");
        process.get("/api/agents/ada").send().await.expect_status(200);
        if !is_old {
            process.delete(&format!("/api/agents/later-{round}")).send().await.expect_status(200);
        }
    }
    assert!(interrupted > 0, "no kill interrupted the restore");
}
