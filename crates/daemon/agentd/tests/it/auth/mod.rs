//! Authentication: bootstrap, accounts, sessions, keys, and tickets.

mod bootstrap;
mod cookies;
mod keys;
mod login;
mod races;
mod reauthentication;
mod secrets;
mod sessions;
mod tickets;

use agentd_core::auth::{Auth, AuthOptions};
use agentd_core::parts::Domains;
use agentd_core::runtime::Slots;
use agentd_core::settings::{Registry, Settings};
use agentd_core::vault::Vault;
use serde_json::{Value, json};

use crate::support::TestApp;

fn account() -> Value {
    json!({"username": "owner", "password": "correct horse"})
}

/// Creates a key with the owner's key; returns its id and secret.
async fn create_key(app: &TestApp, body: Value) -> (String, String) {
    let made = app.post("/api/auth/keys").json(&body).send().await.expect_status(200).json();
    (text(&made, "id"), text(&made, "key"))
}

async fn log_in(app: &TestApp) -> String {
    let answer = app.post("/api/auth/login").anonymous().json(&account()).send().await.expect_status(200);
    text(&answer.json(), "token")
}

#[track_caller]
fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Starts the authentication domain of another process on the same database.
async fn replica(app: &TestApp) -> Auth {
    let context = app.running().context().clone();
    let vault = Vault::open(&context.db, &context.entropy, &context.data_dir.secret_key()).await.expect("a vault");
    // The other domains are not needed.
    let (mut domains, mut slots) = (Domains::default(), Slots::default());
    let settings = Settings::open(&context, vault, Registry::new(), &mut slots).await.expect("settings");
    let settings = domains.add(settings);
    let options = AuthOptions { api_key_required: false, listens_beyond_loopback: false, own_origins: Vec::new() };
    domains.add(Auth::new(context, settings, options))
}

async fn replicas(app: &TestApp, count: usize) -> Vec<Auth> {
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(replica(app).await);
    }
    replicas
}
