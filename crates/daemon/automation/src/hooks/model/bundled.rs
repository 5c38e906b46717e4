//! Hooks bundled with the daemon. Installing one creates an ordinary hook.

use serde_json::{Map, Value};

use super::{HookChange, HookType};

/// Template of a hook that the owner can install.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BundledHook {
    pub id: &'static str,
    pub name: &'static str,
    /// One sentence for the owner.
    pub description: &'static str,
    pub event_type: &'static str,
    pub hook_type: HookType,
    /// JSON.
    config: &'static str,
    /// JSON; empty if every event of the type matches.
    filter: &'static str,
    pub source_code: Option<&'static str>,
    /// Config members that must be set at installation.
    pub required: &'static [&'static str],
}

/// Bundled hooks in display order.
pub(crate) const BUNDLED: &[BundledHook] = &[
    BundledHook {
        id: "task-failed-notice",
        name: "Tell me when a task fails",
        description: "Sends a message to a channel, an email address or a webhook when a turn failed permanently.",
        event_type: "task.failed",
        hook_type: HookType::Builtin,
        config: r#"{"action": "send_to_channel", "subject": "A task failed",
            "template": "A task of agent {{data.agent_id}} failed ({{data.code}}): {{data.error}}"}"#,
        filter: "",
        source_code: None,
        required: &["channel"],
    },
    BundledHook {
        id: "task-completed-notice",
        name: "Tell me when a job's task is done",
        description: "Sends the output of a job's turn to a channel, an email address or a webhook.",
        event_type: "task.completed",
        hook_type: HookType::Builtin,
        config: r#"{"action": "send_to_channel", "subject": "A task is done", "template": "{{data.output}}"}"#,
        filter: r#"{"field": "data.job_id", "op": "ne", "value": null}"#,
        source_code: None,
        required: &["channel"],
    },
    BundledHook {
        id: "message-failed-memory",
        name: "Remember messages that did not arrive",
        description: "Stores an episode when a message to an external recipient could not be delivered.",
        event_type: "channel.message.failed",
        hook_type: HookType::Builtin,
        config: r#"{"action": "store_memory", "topics": ["delivery"],
            "template": "A message to {{data.platform}} ({{data.channel}}) did not arrive: {{data.error}}"}"#,
        filter: "",
        source_code: None,
        required: &[],
    },
    BundledHook {
        id: "important-memory-notice",
        name: "Tell me about important memories",
        description: "Sends a message when an episode of importance 0.8 or more was stored.",
        event_type: "memory.stored",
        hook_type: HookType::Builtin,
        config: r#"{"action": "send_to_channel", "subject": "Something important was remembered",
            "template": "Episode {{data.episode_id}} of agent {{data.agent_id}} ({{data.source}}), importance {{data.importance}}"}"#,
        filter: r#"{"field": "data.importance", "op": "gte", "value": 0.8}"#,
        source_code: None,
        required: &["channel"],
    },
    BundledHook {
        id: "project-completed-review",
        name: "Review completed projects",
        description: "Starts an agent when a project is completed. It may use only read-only tools unless `tools` permits more.",
        event_type: "project.completed",
        hook_type: HookType::Builtin,
        config: r#"{"action": "start_agent",
            "template": "The project {{data.name}} was completed. Say in a few sentences what you know of it and what is worth remembering."}"#,
        filter: "",
        source_code: None,
        required: &["agent"],
    },
    BundledHook {
        id: "forward-to-webhook",
        name: "Forward finished tasks to a URL",
        description: "Posts every completed task to a URL, through the delivery queue.",
        event_type: "task.completed",
        hook_type: HookType::Http,
        config: r#"{"queued": true}"#,
        filter: "",
        source_code: None,
        required: &["url"],
    },
    BundledHook {
        id: "webhook-digest",
        name: "Digest of inbound webhooks",
        description: "Runs code in the sandbox for each accepted inbound webhook and reports the fields and the size of its body.",
        event_type: "webhook.received",
        hook_type: HookType::Python,
        config: "{}",
        filter: "",
        source_code: Some(
            "body = event[\"data\"].get(\"body\")\nresult = {\n    \"webhook\": event[\"data\"].get(\"webhook_name\"),\n    \
             \"fields\": sorted(body) if isinstance(body, dict) else [],\n    \"characters\": len(str(body)),\n}\n",
        ),
        required: &[],
    },
];

impl BundledHook {
    #[must_use]
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        BUNDLED.iter().find(|bundled| bundled.id == id)
    }

    /// Returns the default config.
    #[must_use]
    pub(crate) fn config(&self) -> Map<String, Value> {
        serde_json::from_str(self.config).unwrap_or_default()
    }

    #[must_use]
    pub(crate) fn filter_expr(&self) -> Option<Value> {
        serde_json::from_str(self.filter).ok()
    }

    /// Returns the change that creates a hook from the template, with the owner's values merged over the defaults.
    #[must_use]
    pub(crate) fn change(&self, wanted: HookChange) -> HookChange {
        let mut config = self.config();
        config.extend(wanted.config.unwrap_or_default());
        HookChange {
            name: wanted.name.or_else(|| Some(self.name.to_owned())),
            event_type: Some(self.event_type.to_owned()),
            config: Some(config),
            source_code: self
                .source_code
                .map_or(agentd_base::Patch::Keep, |source| agentd_base::Patch::Set(source.to_owned())),
            filter_expr: self.filter_expr().map_or(agentd_base::Patch::Keep, agentd_base::Patch::Set),
            bundled_id: Some(self.id.to_owned()),
            ..wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::hooks::model::{Hook, HookId};

    #[test]
    fn bundled_hooks_install_with_their_required_config() {
        for (at, bundled) in BUNDLED.iter().enumerate() {
            assert!(BUNDLED[at + 1..].iter().all(|other| other.id != bundled.id), "{}", bundled.id);
            let given = [("channel", "slack:#x"), ("agent", "scout"), ("url", "https://x.example/")];
            let config: Map<String, Value> = given
                .into_iter()
                .filter(|(name, _)| bundled.required.contains(name))
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect();
            let empty = || Hook::empty(HookId::from("hook_1"), bundled.hook_type, Timestamp::from_micros(0));
            let change = bundled.change(HookChange { config: Some(config), ..HookChange::default() });
            change.apply(&mut empty(), |_| None).unwrap();
            if !bundled.required.is_empty() {
                let refused = bundled.change(HookChange::default()).apply(&mut empty(), |_| None).unwrap_err();
                let fields: Vec<&str> = refused.iter().map(|found| found.field.as_str()).collect();
                let required: Vec<String> = bundled.required.iter().map(|name| format!("config.{name}")).collect();
                assert_eq!(fields, required, "{}", bundled.id);
            }
            assert_eq!(bundled.filter.is_empty(), bundled.filter_expr().is_none());
        }
    }
}
