use agentd_base::MockClock;
use agentd_net::Trust;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_support::{NOW, any_event, client};

fn adapter(config: GoogleChatConfig, clock: &MockClock) -> GoogleChat {
    GoogleChat::new(config, client(Trust::Owner), clock.clock())
}

fn events() -> Vec<Value> {
    let user = json!({"name": "users/1", "displayName": "A", "type": "HUMAN"});
    let space = json!({"name": "spaces/A", "type": "ROOM", "spaceType": "SPACE"});
    vec![
        json!({"type": "MESSAGE", "space": space, "message": {
            "name": "spaces/A/messages/B", "sender": user, "text": "@a hi", "argumentText": " hi",
            "createTime": "2026-11-25T12:00:00.123456789Z", "thread": {"name": "spaces/A/threads/C"},
            "attachment": [{"contentName": "a", "contentType": "b"}],
        }}),
        json!({"type": "CARD_CLICKED", "space": space, "user": user, "message": {"name": "spaces/A/messages/B"},
            "action": {"parameters": [{"key": "decision", "value": "approve:1"}]}}),
    ]
}

proptest! {
    #[test]
    fn read_never_panics(event in any_event(events(), &[
        "type", "MESSAGE", "CARD_CLICKED", "message", "name", "spaces/A", "spaces/A/messages/B", "sender", "user",
        "users/1", "HUMAN", "BOT", "displayName", "argumentText", "text", "thread", "threadReply", "space",
        "spaceType", "DM", "attachment", "contentName", "contentType", "action", "parameters", "key", "value",
        "decision", "common", "createTime", "eventTime",
    ])) {
        let _ = adapter(GoogleChatConfig::default(), &MockClock::new(NOW)).read(&event);
    }
}
