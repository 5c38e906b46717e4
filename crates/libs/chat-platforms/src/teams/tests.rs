use agentd_base::MockClock;
use agentd_net::Trust;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_support::{NOW, any_event, client};

fn adapter(config: TeamsConfig, clock: &MockClock) -> Teams {
    Teams::new(config, client(Trust::Owner), client(Trust::Untrusted), clock.clock())
}

fn events() -> Vec<Value> {
    let message = json!({
        "type": "message", "id": "m", "timestamp": "2026-11-25T12:00:00.1234567Z", "serviceUrl": "https://x/",
        "channelId": "msteams", "from": {"id": "29:a", "name": "A"}, "recipient": {"id": "28:b"},
        "conversation": {"id": "19:c;messageid=1", "conversationType": "channel"},
        "channelData": {"tenant": {"id": "t"}}, "text": "<at>x</at> hi",
        "entities": [{"type": "mention", "text": "<at>x</at>", "mentioned": {"id": "28:b"}}],
        "attachments": [{"contentType": "image/png", "name": "a"}],
    });
    let mut decision = message.clone();
    decision["value"] = json!({"decision": "approve:1"});
    vec![message, decision]
}

proptest! {
    #[test]
    fn read_never_panics(activity in any_event(events(), &[
        "type", "message", "id", "from", "name", "role", "bot", "recipient", "conversation", "conversationType",
        "personal", "isGroup", "channelId", "msteams", "channelData", "tenant", "serviceUrl", "text", "<at>x</at>",
        "entities", "mention", "mentioned", "attachments", "contentType", "value", "decision", "replyToId",
        "timestamp",
    ])) {
        let _ = adapter(TeamsConfig::default(), &MockClock::new(NOW)).read(&activity);
    }
}
