//! Size limits of a HAR.

use serde_json::{Value, json};

use super::recorder::MAX_BYTES;
use super::sockets::MAX_MESSAGES;
use super::{Event, HarRecorder};

fn dispatch(har: &mut HarRecorder, method: &str, params: Value) {
    let params = serde_json::value::to_raw_value(&params).unwrap();
    har.event(&Event::new(Some("S"), method, Some(&params)), None);
}

fn sent(har: &mut HarRecorder, id: &str) {
    let request = json!({"url": format!("http://a/{id}"), "method": "GET", "headers": {}});
    let params = json!({"requestId": id, "timestamp": 1.0, "wallTime": 1e9, "type": "Fetch", "request": request});
    dispatch(har, "Network.requestWillBeSent", params);
}

#[test]
fn headers_count_towards_the_size_limit() {
    let mut har = HarRecorder::default();
    let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    ids.iter().for_each(|id| sent(&mut har, id));
    let long = json!({"x-long": "x".repeat(250_000)});
    for id in &ids {
        let response = json!({"url": format!("http://a/{id}"), "status": 200, "headers": long});
        let params = json!({"requestId": id, "timestamp": 2.0, "hasExtraInfo": true, "response": response});
        dispatch(&mut har, "Network.responseReceived", params);
        dispatch(&mut har, "Network.responseReceivedExtraInfo", json!({"requestId": id, "headers": long}));
        // Headers of unknown requests.
        dispatch(
            &mut har,
            "Network.requestWillBeSentExtraInfo",
            json!({"requestId": format!("{id}?"), "headers": long}),
        );
    }
    assert!(har.bytes <= MAX_BYTES);
    let har = har.finish("Chrome/1");
    assert!(har.to_string().len() < 2 * MAX_BYTES);
    let entries = har["log"]["entries"].as_array().unwrap();
    assert_eq!((entries.len(), entries[0].get("comment")), (100, None));
    assert_eq!(entries[0]["response"]["headers"][0]["name"], "x-long");
    let last = &entries[99];
    assert_eq!((&last["response"]["status"], &last["response"]["headers"]), (&json!(200), &json!([])));
    assert_eq!(last["comment"], "omitted: headers");
}

#[test]
fn socket_messages_are_recorded_up_to_the_limit() {
    let mut har = HarRecorder::default();
    dispatch(&mut har, "Network.webSocketCreated", json!({"requestId": "1", "url": "ws://a/"}));
    let handshake = json!({"requestId": "1", "timestamp": 5.0, "wallTime": 1e9, "request": {"headers": {}}});
    dispatch(&mut har, "Network.webSocketWillSendHandshakeRequest", handshake);
    let message = |id: &str, at: f64, opcode: u8, data: &str| json!({"requestId": id, "timestamp": at, "response": {"opcode": opcode, "mask": true, "payloadData": data}});
    dispatch(&mut har, "Network.webSocketFrameSent", message("1", 6.5, 1, "hello"));
    dispatch(&mut har, "Network.webSocketFrameReceived", message("1", 7.0, 2, "AQI="));
    // A socket from before the start.
    dispatch(&mut har, "Network.webSocketFrameSent", message("0", 7.0, 1, "unknown"));
    dispatch(&mut har, "Network.webSocketFrameSent", message("1", 8.0, 1, &"x".repeat(3 << 20)));
    for _ in 0..MAX_MESSAGES {
        dispatch(&mut har, "Network.webSocketFrameReceived", message("1", 8.0, 1, "again"));
    }
    let har = har.finish("Chrome/1");
    let socket = &har["log"]["entries"][0];
    let messages = socket["_webSocketMessages"].as_array().unwrap();
    assert_eq!(messages[0], json!({"type": "send", "time": 1_000_000_001.5, "opcode": 1, "data": "hello"}));
    assert_eq!(messages[1], json!({"type": "receive", "time": 1_000_000_002.0, "opcode": 2, "data": "AQI="}));
    assert_eq!((messages.len(), &socket["comment"]), (MAX_MESSAGES, &json!("omitted: 3 messages")));
}
