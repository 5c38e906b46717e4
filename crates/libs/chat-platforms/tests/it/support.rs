//! Helpers for the tests of several platforms.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Secret, Timestamp};
use agentd_chat_platforms::{
    Batch, Button, ButtonStyle, ChatPlatform, ConnectOptions, Connection, ConnectionEvent, Ended, Incoming,
};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use serde_json::Value;
use tokio::sync::Notify;

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_795_600_000_000_000);

pub(crate) fn client(trust: Trust) -> GuardedClient {
    GuardedClient::new(PolicyHandle::default(), trust)
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// Waits until the condition is true.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "{what} does not come about");
}

/// Connection with helpers for its events.
pub(crate) struct Listening {
    pub(crate) connection: Connection,
    wake: Arc<Notify>,
}

pub(crate) fn listen(platform: Arc<dyn ChatPlatform>, resume: Option<String>) -> Listening {
    let wake = Arc::<Notify>::default();
    let options = ConnectOptions { resume, unit: 0.5, wake: Arc::clone(&wake) };
    Listening { connection: platform.connect(options).unwrap(), wake }
}

impl Listening {
    async fn next(&mut self) -> ConnectionEvent {
        loop {
            if let Some(event) = self.connection.try_next() {
                return event;
            }
            // Longer than any timeout of a connection.
            tokio::time::timeout(Duration::from_secs(300), self.wake.notified())
                .await
                .expect("no event within the time limit");
        }
    }

    pub(crate) async fn connected(&mut self) {
        let event = self.next().await;
        assert!(matches!(event, ConnectionEvent::Connected), "{event:?}");
    }

    pub(crate) async fn leaving(&mut self) {
        let event = self.next().await;
        assert!(matches!(event, ConnectionEvent::Leaving), "{event:?}");
    }

    pub(crate) async fn batch(&mut self) -> Batch {
        match self.next().await {
            ConnectionEvent::Batch(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ended(&mut self) -> Ended {
        match self.next().await {
            ConnectionEvent::Ended(ended) => ended,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the text of the only message of a batch.
pub(crate) fn text_of(batch: &Batch) -> &str {
    match batch.incoming.as_slice() {
        [Incoming::Message(message)] => &message.text,
        other => panic!("{other:?}"),
    }
}

/// Returns buttons with the data `approve:1` and `deny:1`.
pub(crate) fn buttons() -> Vec<Button> {
    [("Yes", "approve:1", ButtonStyle::Primary), ("No", "deny:1", ButtonStyle::Danger)]
        .map(|(label, data, style)| Button { label: label.to_owned(), data: data.to_owned(), style })
        .to_vec()
}

/// Sets these fields of an object.
pub(crate) fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}
