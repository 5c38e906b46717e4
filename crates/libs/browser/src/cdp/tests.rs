use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Seen(parking_lot::Mutex<Vec<String>>);

impl Observer for Seen {
    fn event(&self, event: &Event) {
        self.0.lock().push(event.method.to_string());
    }

    fn ended(&self, reason: &str) {
        self.0.lock().push(format!("ended: {reason}"));
    }
}

/// The other end of the pipes.
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

    async fn say(&mut self, message: Value) {
        self.writer.write_all(&[message.to_string().as_bytes(), &[0]].concat()).await.unwrap();
    }
}

fn connect() -> (Connection, FakeChromium, std::sync::Arc<Seen>) {
    let (ours, reader) = tokio::io::duplex(1 << 16);
    let (writer, from) = tokio::io::duplex(1 << 16);
    let seen = std::sync::Arc::<Seen>::default();
    (Connection::start(from, ours, seen.clone()), FakeChromium { reader, writer }, seen)
}

#[tokio::test]
async fn answers_find_their_commands_in_any_order() {
    let (connection, mut chromium, seen) = connect();
    let first = connection.call::<Value>(None, "First", json!({"a": 1}), LIMIT);
    let second = connection.call::<Value>(Some("S"), "Second", json!({}), LIMIT);
    let script = async {
        let (one, two) = (chromium.command().await, chromium.command().await);
        assert_eq!((&one["method"], &one["params"]["a"], one.get("sessionId")), (&json!("First"), &json!(1), None));
        assert_eq!(two["sessionId"], "S");
        chromium.say(json!({"method": "Page.loaded", "params": {}})).await;
        chromium.say(json!({"id": 4711, "result": {}})).await;
        chromium.say(json!({"id": two["id"], "error": {"code": -1, "message": "no", "data": "why"}})).await;
        chromium.say(json!({"id": one["id"], "result": {"b": 2}})).await;
    };
    let (first, second, ()) = tokio::join!(first, second, script);
    assert_eq!(first.unwrap(), json!({"b": 2}));
    assert_eq!(second.unwrap_err().to_string(), "Chromium refused Second: no (why)");
    assert_eq!(*seen.0.lock(), ["Page.loaded"], "an event is seen before the answer that follows it");
}

#[tokio::test(start_paused = true)]
async fn a_command_without_an_answer_ends_at_its_limit() {
    let (connection, _chromium, _) = connect();
    let error = connection.call::<Value>(None, "Slow", json!({}), LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), "Chromium did not answer Slow within 10000 ms");
}

#[tokio::test]
async fn the_end_of_the_pipe_ends_everything() {
    let (connection, mut chromium, seen) = connect();
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
    assert_eq!(*seen.0.lock(), ["ended: it has closed its pipe"]);
}

#[tokio::test]
async fn a_listener_that_is_too_slow_is_told_how_much_it_missed() {
    let (connection, mut chromium, _) = connect();
    let mut events = connection.subscribe(Some("S".into()), &["A"], 2);
    for number in 0..5 {
        chromium.say(json!({"method": "A", "sessionId": "S", "params": number})).await;
    }
    chromium.say(json!({"method": "A", "sessionId": "other", "params": 9})).await;
    chromium.say(json!({"method": "B", "sessionId": "S", "params": 9})).await;
    let call = connection.call::<Value>(None, "Sync", json!({}), LIMIT);
    let script = async {
        let id = chromium.command().await["id"].clone();
        chromium.say(json!({"id": id, "result": null})).await;
        chromium
    };
    let (_, mut chromium) = tokio::join!(call, script);
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(match events.next().await.unwrap() {
            Heard::Event(event) => format!("event {}", event.read::<u64>().unwrap()),
            Heard::Lost(count) => format!("lost {count}"),
        });
    }
    assert_eq!(heard, ["event 0", "event 1", "lost 3"]);
    chromium.say(json!({"method": "A", "sessionId": "S", "params": 7})).await;
    assert!(matches!(events.next().await, Some(Heard::Event(event)) if event.read::<u64>() == Some(7)));
}

#[tokio::test]
async fn what_is_not_json_is_left_out_and_the_rest_goes_on() {
    let (connection, mut chromium, seen) = connect();
    chromium.writer.write_all(b"{\"id\":\0\0[1]\0\xff\0{\"method\":5}\0").await.unwrap();
    chromium.say(json!({"method": "Fine"})).await;
    let call = connection.call::<Value>(None, "Sync", json!({}), LIMIT);
    let script = async {
        let id = chromium.command().await["id"].clone();
        chromium.say(json!({"id": id})).await;
        chromium
    };
    let (answer, _chromium) = tokio::join!(call, script);
    assert_eq!(answer.unwrap(), Value::Null);
    assert_eq!(*seen.0.lock(), ["Fine"]);
}

#[tokio::test]
async fn an_answer_that_is_too_long_fails_its_command_alone() {
    let (connection, mut chromium, seen) = connect();
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
        chromium.say(json!({"id": other, "result": 1})).await;
        chromium
    };
    let (long, other, _chromium) = tokio::join!(long, other, script);
    assert!(matches!(long, Err(CdpError::TooLong { method: "Long" })), "{long:?}");
    assert_eq!(crate::BrowserError::from(long.unwrap_err()).code(), "too_much");
    assert_eq!((other.unwrap(), connection.is_ended()), (json!(1), false));
    assert!(seen.0.lock().is_empty());
}
