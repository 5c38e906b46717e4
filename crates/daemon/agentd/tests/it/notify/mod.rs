//! Notifications: every accepted message is sent or fails visibly.

mod crash;
mod email;
mod push;
mod sending;

use agentd_automation::notify::{Notification, NotificationId, NotifyError};
use agentd_store::{Tx, args};
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::smtp::{PASSWORD, SmtpServer, USERNAME};

/// Configures a mail server.
pub async fn use_server(app: &TestApp, server: &SmtpServer, change: Value) {
    let mut settings = json!({
        "enabled": true, "smtp_host": "127.0.0.1", "smtp_port": server.address.port(), "tls": "none",
        "username": USERNAME, "password": PASSWORD, "from_address": "agentd@example.org",
    });
    settings.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    app.put("/api/settings/email").json(&settings).send().await.expect_status(200);
}

pub fn mail(subject: &str) -> Notification {
    Notification::new("email:ada@example.net".parse().unwrap(), subject, "The *text*.")
}

pub async fn enqueue(app: &TestApp, notification: Notification) -> NotificationId {
    let notify = app.running().daemon.notify().clone();
    let work = async move |tx: &mut Tx| Ok::<_, NotifyError>(notify.enqueue(tx, &notification).await?);
    app.running().context().db.write(work).await.expect("enqueue the message")
}

async fn get_notification(app: &TestApp, id: &NotificationId) -> Value {
    app.get(&format!("/api/notifications/{id}")).send().await.expect_status(200).json()
}

/// Returns the events of a type, oldest first. Reads the table directly, because on PostgreSQL a cursor only
/// returns events
/// before all open transactions, including those of other tests.
async fn events(app: &TestApp, event_type: &str) -> Vec<Value> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT data FROM outbox WHERE event_type = $1 ORDER BY seq";
    let rows = read.fetch_all(sql, args![event_type]).await.expect("events");
    rows.iter().map(|row| row.json("data").expect("JSON")).collect()
}
