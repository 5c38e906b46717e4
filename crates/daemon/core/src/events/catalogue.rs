//! Catalogue of all stored event types.

pub use super::category::Category;

/// Field of an event's `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Value in a synthetic event, as JSON.
    pub example: &'static str,
}

/// Event type that hooks can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    pub name: &'static str,
    pub category: Category,
    /// Sentence for users that tells when the event fires.
    pub fires: &'static str,
    pub data: &'static [Field],
}

pub(super) const fn field(name: &'static str, example: &'static str) -> Field {
    Field { name, example }
}

const fn event(name: &'static str, category: Category, fires: &'static str, data: &'static [Field]) -> EventType {
    EventType { name, category, fires, data }
}

/// Returns the type with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static EventType> {
    CATALOGUE.iter().find(|event| event.name == name)
}

pub(super) const SESSION: Field = field("session_id", "\"sess_example\"");
pub(super) const AGENT: Field = field("agent_id", "\"agent_example\"");
pub(super) const ORIGIN: Field = field("origin", "\"chat\"");
pub(super) const CONVERSATION: Field = field("conversation_id", "\"conv_example\"");
pub(super) const RUN: Field = field("run_id", "null");
pub(super) const JOB: Field = field("job_id", "null");
const ALERT: Field = field("alert_id", "\"alert_example\"");
const ALERT_NAME: Field = field("name", "\"Disk almost full\"");
const SEVERITY: Field = field("severity", "\"critical\"");
const CONDITION: Field = field("condition", "\"disk_percent > threshold\"");
const THRESHOLD: Field = field("threshold", "90.0");
const PERIOD: Field = field("period_minutes", "5");
const VALUE: Field = field("value", "93.5");
const APPROVAL: Field = field("approval_id", "\"appr_example\"");
const BACKUP: Field = field("name", "\"backup-2026-01-01T00-00-00-3x8q1z.tar.gz\"");
const APPROVAL_KIND: Field = field("kind", "\"tool\"");
pub(super) const TOOL: Field = field("tool", "\"write_file\"");
const EXPIRES_AT: Field = field("expires_at", "\"2026-01-01T00:10:00.000Z\"");
const FIRING_SINCE: Field = field("firing_since", "\"2026-01-01T00:00:00.000Z\"");

/// All event types, ordered by category and then by lifecycle.
pub const CATALOGUE: &[EventType] = &[
    event(
        "task.queued",
        Category::Task,
        "A turn was accepted: a job run is queued, or a message was received.",
        &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN],
    ),
    event(
        "task.started",
        Category::Task,
        "An agent started a turn.",
        &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN],
    ),
    event(
        "task.completed",
        Category::Task,
        "A turn completed successfully.",
        &[
            SESSION,
            AGENT,
            ORIGIN,
            CONVERSATION,
            JOB,
            RUN,
            field("duration_ms", "1234"),
            field("total_tokens", "321"),
            field("output", "\"The answer, its first 2,000 characters.\""),
        ],
    ),
    event(
        "task.failed",
        Category::Task,
        "A turn failed and will not be retried automatically. `reason` is `error`, `timeout` (a time limit was exceeded), \
                 `cancelled` (a user stopped it) or `interrupted` (the daemon stopped while it ran).",
        &[
            SESSION,
            AGENT,
            ORIGIN,
            CONVERSATION,
            JOB,
            RUN,
            field("reason", "\"error\""),
            field("code", "\"provider_unavailable\""),
            field("error", "\"The provider could not be reached.\""),
        ],
    ),
    event(
        "task.retrying",
        Category::Task,
        "An attempt of a run failed and another one is scheduled.",
        &[
            AGENT,
            ORIGIN,
            JOB,
            RUN,
            field("attempt", "1"),
            field("next_attempt_at", "\"2026-01-01T00:00:00.000Z\""),
            field("error", "\"The provider could not be reached.\""),
        ],
    ),
    event(
        "task.skipped",
        Category::Task,
        "A run was skipped: its condition was false, or the previous run was still in progress.",
        &[AGENT, ORIGIN, JOB, RUN, field("reason", "\"the condition was false\"")],
    ),
    event(
        "project.created",
        Category::Project,
        "A project was created.",
        &[field("project_id", "\"proj_example\""), field("name", "\"Garden\""), field("status", "\"active\"")],
    ),
    event(
        "project.updated",
        Category::Project,
        "A project's status, name or description changed.",
        &[
            field("project_id", "\"proj_example\""),
            field("name", "\"Garden\""),
            field("status", "\"paused\""),
            field("previous_status", "\"active\""),
        ],
    ),
    event(
        "project.deleted",
        Category::Project,
        "A project was deleted.",
        &[field("project_id", "\"proj_example\""), field("name", "\"Garden\"")],
    ),
    event(
        "project.completed",
        Category::Project,
        "A project's status became `completed`.",
        &[field("project_id", "\"proj_example\""), field("name", "\"Garden\"")],
    ),
    event(
        "memory.stored",
        Category::Memory,
        "An episode was stored.",
        &[
            field("episode_id", "\"ep_example\""),
            AGENT,
            field("source", "\"manual\""),
            field("importance", "0.5"),
            field("topics", "[\"garden\"]"),
        ],
    ),
    event(
        "memory.consolidated",
        Category::Memory,
        "A consolidation of conversations into memory finished.",
        &[field("processed", "10"), field("created", "4"), field("merged", "1"), field("skipped", "5")],
    ),
    event(
        "memory.recalled",
        Category::Memory,
        "An agent recalled episodes for an answer.",
        &[AGENT, SESSION, field("episode_ids", "[\"ep_example\"]")],
    ),
    event(
        "channel.message.received",
        Category::Channel,
        "A message was received through a channel.",
        &[
            field("platform", "\"telegram\""),
            field("channel", "\"42\""),
            field("thread", "null"),
            field("message_id", "\"1001\""),
            field("sender", "\"7\""),
            field("sender_name", "\"Ada\""),
            AGENT,
            field("content", "\"Hello\""),
            field("context", "\"[In reply to a message from Bob]\\n> Good morning\""),
            field("attachments", "[{\"name\": \"plan.pdf\", \"media_type\": \"application/pdf\", \"bytes\": 20480}]"),
        ],
    ),
    event(
        "channel.message.sent",
        Category::Channel,
        "A message was sent through a channel, by email or to a webhook.",
        &[
            field("notification_id", "\"ntf_example\""),
            field("platform", "\"email\""),
            field("channel", "\"ada@example.org\""),
            field("subject", "\"Report\""),
            field("format", "\"markdown\""),
            field("attempts", "1"),
            field("reference", "null"),
        ],
    ),
    event(
        "channel.message.failed",
        Category::Channel,
        "An outgoing message was dead-lettered, or its platform reported later that it was not delivered.",
        &[
            field("notification_id", "\"ntf_example\""),
            field("platform", "\"email\""),
            field("channel", "\"ada@example.org\""),
            field("subject", "\"Report\""),
            field("format", "\"markdown\""),
            field("attempts", "10"),
            field("error", "\"The mail server refused the address.\""),
        ],
    ),
    event(
        "scheduler.started",
        Category::Scheduler,
        "The scheduler of a daemon started.",
        &[field("instance", "\"example\""), field("active_jobs", "3")],
    ),
    event(
        "scheduler.stopped",
        Category::Scheduler,
        "The scheduler of a daemon was shut down.",
        &[field("instance", "\"example\"")],
    ),
    event(
        "scheduler.tick",
        Category::Scheduler,
        "Due jobs were turned into runs. A tick without due jobs emits no event.",
        &[field("due", "2"), field("run_ids", "[\"run_example\"]")],
    ),
    event(
        "webhook.received",
        Category::Webhook,
        "An inbound webhook accepted a signed request.",
        &[
            field("webhook_id", "\"whk_example\""),
            field("webhook_name", "\"ci\""),
            field("delivery_id", "\"wdl_example\""),
            field("is_replay", "false"),
            field("headers", "{\"content-type\": \"application/json\"}"),
            field("body", "{\"ref\": \"main\"}"),
            field("body_format", "\"json\""),
            field("is_body_omitted", "false"),
        ],
    ),
    event(
        "alert.firing",
        Category::Alert,
        "An alert started firing. `value` is the value of the first metric in its condition.",
        &[ALERT, ALERT_NAME, SEVERITY, CONDITION, THRESHOLD, PERIOD, VALUE, FIRING_SINCE],
    ),
    event(
        "alert.acknowledged",
        Category::Alert,
        "A firing alert was acknowledged.",
        &[ALERT, ALERT_NAME, SEVERITY, CONDITION, THRESHOLD, PERIOD, VALUE, FIRING_SINCE],
    ),
    event(
        "alert.snoozed",
        Category::Alert,
        "A firing alert was snoozed.",
        &[
            ALERT,
            ALERT_NAME,
            SEVERITY,
            CONDITION,
            THRESHOLD,
            PERIOD,
            VALUE,
            FIRING_SINCE,
            field("snoozed_until", "\"2026-01-01T01:00:00.000Z\""),
        ],
    ),
    event(
        "alert.resolved",
        Category::Alert,
        "An alert was resolved. `resolved_by` is `condition` (the condition is no longer met), `hand` (resolved by a user), `turned_off` or `deleted`.",
        &[
            ALERT,
            ALERT_NAME,
            SEVERITY,
            CONDITION,
            THRESHOLD,
            PERIOD,
            VALUE,
            FIRING_SINCE,
            field("resolved_by", "\"condition\""),
        ],
    ),
    event(
        "approval.requested",
        Category::Approval,
        "An action requires approval by the owner. `tool` names it; `GET /api/chat/approvals` returns the full input.",
        &[APPROVAL, APPROVAL_KIND, TOOL, AGENT, SESSION, CONVERSATION, field("status", "\"pending\""), EXPIRES_AT],
    ),
    event(
        "approval.decided",
        Category::Approval,
        "An approval request was closed. `status` is `approved`, `rejected`, `expired` (no response in time) or \
                 `cancelled` (the action is no longer possible).",
        &[APPROVAL, APPROVAL_KIND, TOOL, AGENT, SESSION, CONVERSATION, field("status", "\"approved\""), EXPIRES_AT],
    ),
    event(
        "backup.created",
        Category::Backup,
        "A backup was completed. `daily` tells whether the schedule created it.",
        &[BACKUP, field("size_bytes", "1048576"), field("has_secrets", "false"), field("daily", "true")],
    ),
    event(
        "backup.failed",
        Category::Backup,
        "A backup or restore failed (`kind`: `backup` or `restore`). `error` is the reason.",
        &[BACKUP, field("kind", "\"backup\""), field("error", "\"No disk space left for the backup\"")],
    ),
    event(
        "backup.restored",
        Category::Backup,
        "All data was replaced by the contents of a backup created at `created_at`.",
        &[BACKUP, field("created_at", "\"2026-01-01T00:00:00.000Z\"")],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_start_with_their_category_and_are_unique() {
        for (at, event) in CATALOGUE.iter().enumerate() {
            assert!(event.name.starts_with(&format!("{}.", event.category.as_str())), "{}", event.name);
            assert!(CATALOGUE[at + 1..].iter().all(|other| other.name != event.name), "{}", event.name);
        }
    }

    #[test]
    fn examples_are_json() {
        for field in CATALOGUE.iter().flat_map(|event| event.data) {
            assert!(serde_json::from_str::<serde_json::Value>(field.example).is_ok(), "{}", field.name);
        }
    }

    #[test]
    fn catalogue_contains_the_specified_event_types() {
        let names = |category| -> Vec<&str> {
            CATALOGUE.iter().filter(|event| event.category == category).map(|event| event.name).collect()
        };
        assert_eq!(
            names(Category::Task),
            ["task.queued", "task.started", "task.completed", "task.failed", "task.retrying", "task.skipped"]
        );
        assert_eq!(
            names(Category::Project),
            ["project.created", "project.updated", "project.deleted", "project.completed"]
        );
        assert_eq!(names(Category::Memory), ["memory.stored", "memory.consolidated", "memory.recalled"]);
        assert_eq!(
            names(Category::Channel),
            ["channel.message.received", "channel.message.sent", "channel.message.failed"]
        );
        assert_eq!(names(Category::Scheduler), ["scheduler.started", "scheduler.stopped", "scheduler.tick"]);
    }
}
