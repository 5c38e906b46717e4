//! Backups over HTTP: create, upload, restore, schedule, and interrupt.

mod cut_off;
mod daily;
mod making;
mod restoring;
mod uploading;

use serde_json::Value;

use crate::support::{Eventually, TestApp, TestRequest, TestResponse};

const BACKUPS: &str = "/api/backups";
const WORK: &str = "/api/backups/work";

#[track_caller]
fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Waits until the work has ended and returns it. During a restore, the daemon responds with 503.
async fn wait_until_ended(ask: impl Fn() -> TestRequest) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let answer = ask().send().await;
        match answer.status.as_u16() {
            200 if answer.json()["work"]["state"] != "running" => return answer.json()["work"].clone(),
            200 => {}
            _ => {
                answer.expect_error(503, "restoring");
            }
        }
        eventually.retry().await;
    }
}

/// Creates a backup, waits for it, and returns its entry in the list.
async fn create(app: &TestApp, body: &Value) -> Value {
    let begun = app.post(BACKUPS).json(body).send().await.expect_status(202).json();
    assert_eq!((&begun["kind"], &begun["state"]), (&"backup".into(), &"running".into()), "{begun}");
    let work = wait_until_ended(|| app.get(WORK)).await;
    assert_eq!(work["state"], "done", "{work}");
    list(app).await.into_iter().find(|backup| backup["name"] == begun["name"]).expect("it is listed")
}

async fn list(app: &TestApp) -> Vec<Value> {
    let answer = app.get(BACKUPS).send().await.expect_status(200).json();
    let backups = answer["backups"].as_array().cloned().expect("a list");
    assert_eq!(answer["total"], backups.len());
    backups
}

async fn download(app: &TestApp, name: &str) -> TestResponse {
    app.get(&format!("{BACKUPS}/{name}/download")).send().await
}

/// Lists all files in the folder, including partial ones.
fn files(app: &TestApp) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(app.data_dir().join("backups")) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name != "work.json");
    names.sort();
    names
}

/// Writes incompressible data into a workspace.
fn write_noise(folder: &std::path::Path, mib: usize) {
    std::fs::create_dir_all(folder.join("agents/noisy")).expect("a workspace");
    let mut noise = vec![0; mib << 20];
    agentd_base::Entropy::seeded(7).fill(&mut noise);
    std::fs::write(folder.join("agents/noisy/noise"), noise).expect("written");
}
