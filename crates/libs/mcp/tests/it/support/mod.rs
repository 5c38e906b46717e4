//! Servers used by the tests.

pub(crate) mod http;
pub(crate) mod installed;
pub(crate) mod script;

use serde_json::{Value, json};

/// Result of `initialize` of a server that offers tools.
pub(crate) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "scripted", "version": "1.2.3" },
    })
}

/// Result of `server/discover`.
pub(crate) fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
        "capabilities": { "tools": { "listChanged": true } },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "1.2.3" } },
    })
}

pub(crate) fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "A tool.", "inputSchema": { "type": "object" } })
}
