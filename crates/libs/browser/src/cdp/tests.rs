use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct RecordingObserver(parking_lot::Mutex<Vec<String>>);

impl Observer for RecordingObserver {
    fn event(&self, event: &Event) {
        self.0.lock().push(event.method.to_string());
    }

    fn ended(&self, reason: &str) {
        self.0.lock().push(format!("ended: {reason}"));
    }
}

/// Remote end of the pipes.
struct FakeChromium {
    reader: DuplexStream,
    writer: DuplexStream,
}

impl FakeChromium {
    async fn command(&mut self) -> Value {
        let mut message = Vec::new();
        loop {
            match self.reader.read_u8().await.unwrap() {
                0 => return serde_json::from_slice(&message).unwrap(),
                byte => message.push(byte),
            }
        }
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(&[message.to_string().as_bytes(), &[0]].concat()).await.unwrap();
    }
}

fn connect() -> (Connection, FakeChromium, std::sync::Arc<RecordingObserver>) {
    let (ours, reader) = tokio::io::duplex(1 << 16);
    let (writer, from) = tokio::io::duplex(1 << 16);
    let observer = std::sync::Arc::<RecordingObserver>::default();
    (Connection::start(from, ours, observer.clone()), FakeChromium { reader, writer }, observer)
}

#[tokio::test]
async fn responses_are_matched_in_any_order() {
    let (connection, mut chromium, observer) = connect();
    let first = connection.call::<Value>(None, "First", json!({"a": 1}), LIMIT);
    let second = connection.call::<Value>(Some("S"), "Second", json!({}), LIMIT);
    let script = async {
        let (one, two) = (chromium.command().await, chromium.command().await);
        assert_eq!((&one["method"], &one["params"]["a"], one.get("sessionId")), (&json!("First"), &json!(1), None));
        assert_eq!(two["sessionId"], "S");
        chromium.send(json!({"method": "Page.loaded", "params": {}})).await;
        chromium.send(json!({"id": 4711, "result": {}})).await;
        chromium.send(json!({"id": two["id"], "error": {"code": -1, "message": "no", "data": "why"}})).await;
        chromium.send(json!({"id": one["id"], "result": {"b": 2}})).await;
    };
    let (first, second, ()) = tokio::join!(first, second, script);
    assert_eq!(first.unwrap(), json!({"b": 2}));
    assert_eq!(second.unwrap_err().to_string(), "Chromium refused Second: no (why)");
    assert_eq!(*observer.0.lock(), ["Page.loaded"], "an event is observed before the answer that follows it");
}

#[tokio::test(start_paused = true)]
async fn command_without_response_times_out() {
    let (connection, _chromium, _) = connect();
    let error = connection.call::<Value>(None, "Slow", json!({}), LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), "Chromium did not respond to Slow within 10000 ms");
}

#[tokio::test]
async fn pipe_end_fails_commands_and_subscriptions() {
    let (connection, mut chromium, observer) = connect();
    let mut events = connection.subscribe(None, &["A"], 4);
    let waiting = connection.call::<Value>(None, "Waiting", json!({}), LIMIT);
    let script = async {
        chromium.command().await;
        drop(chromium);
    };
    let (waiting, ()) = tokio::join!(waiting, script);
    assert!(matches!(waiting, Err(CdpError::Ended(_))), "{waiting:?}");
    assert!(events.next().await.is_none());
    let later = connection.call::<Value>(None, "Later", json!({}), LIMIT).await;
    assert!(matches!(later, Err(CdpError::Ended(_))), "{later:?}");
    assert!(connection.is_ended());
    tokio::task::yield_now().await;
    assert_eq!(*observer.0.lock(), ["ended: it closed its pipe"]);
}

#[tokio::test]
async fn slow_subscriber_is_told_how_many_events_it_missed() {
    let (connection, mut chromium, _) = connect();
    let mut events = connection.subscribe(Some("S".into()), &["A"], 2);
    for number in 0..5 {
        chromium.send(json!({"method": "A", "sessionId": "S", "params": number})).await;
    }
    chromium.send(json!({"method": "A", "sessionId": "other", "params": 9})).await;
    chromium.send(json!({"method": "B", "sessionId": "S", "params": 9})).await;
    let call = connection.call::<Value>(None, "Sync", json!({}), LIMIT);
    let script = async {
        let id = chromium.command().await["id"].clone();
        chromium.send(json!({"id": id, "result": null})).await;
        chromium
    };
    let (_, mut chromium) = tokio::join!(call, script);
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(match events.next().await.unwrap() {
            Delivery::Event(event) => format!("event {}", event.read::<u64>().unwrap()),
            Delivery::Lagged(count) => format!("lost {count}"),
        });
    }
    assert_eq!(received, ["event 0", "event 1", "lost 3"]);
    chromium.send(json!({"method": "A", "sessionId": "S", "params": 7})).await;
    assert!(matches!(events.next().await, Some(Delivery::Event(event)) if event.read::<u64>() == Some(7)));
}

#[tokio::test]
async fn invalid_json_is_skipped() {
    let (connection, mut chromium, observer) = connect();
    chromium.writer.write_all(b"{\"id\":\0\0[1]\0\xff\0{\"method\":5}\0").await.unwrap();
    chromium.send(json!({"method": "Fine"})).await;
    let call = connection.call::<Value>(None, "Sync", json!({}), LIMIT);
    let script = async {
        let id = chromium.command().await["id"].clone();
        chromium.send(json!({"id": id})).await;
        chromium
    };
    let (answer, _chromium) = tokio::join!(call, script);
    assert_eq!(answer.unwrap(), Value::Null);
    assert_eq!(*observer.0.lock(), ["Fine"]);
}

#[tokio::test]
async fn oversized_response_fails_only_its_command() {
    let (connection, mut chromium, observer) = connect();
    let long = connection.call::<Value>(None, "Long", json!({}), LIMIT);
    let other = connection.call::<Value>(None, "Other", json!({}), LIMIT);
    let script = async {
        let (long, other) = (chromium.command().await["id"].clone(), chromium.command().await["id"].clone());
        let filler = vec![b'x'; 1 << 20];
        chromium.writer.write_all(format!("{{\"id\":{long},\"result\":\"").as_bytes()).await.unwrap();
        for _ in 0..65 {
            chromium.writer.write_all(&filler).await.unwrap();
        }
        chromium.writer.write_all(b"\"}\0").await.unwrap();
        chromium.send(json!({"id": other, "result": 1})).await;
        chromium
    };
    let (long, other, _chromium) = tokio::join!(long, other, script);
    assert!(matches!(long, Err(CdpError::TooLong { method: "Long" })), "{long:?}");
    assert_eq!(crate::BrowserError::from(long.unwrap_err()).code(), "limit_exceeded");
    assert_eq!((other.unwrap(), connection.is_ended()), (json!(1), false));
    assert!(observer.0.lock().is_empty());
}
