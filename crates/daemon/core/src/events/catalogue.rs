//! Every event type.

pub use super::category::Category;

/// One entry of an event's `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// What a synthetic event of this type carries there, as JSON.
    pub example: &'static str,
}

/// A type of event that hooks may listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    pub name: &'static str,
    pub category: Category,
    /// When it fires: a sentence for people.
    pub fires: &'static str,
    pub data: &'static [Field],
}

pub(super) const fn field(name: &'static str, example: &'static str) -> Field {
    Field { name, example }
}

const fn event(name: &'static str, category: Category, fires: &'static str, data: &'static [Field]) -> EventType {
    EventType { name, category, fires, data }
}

/// The type with this name.
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
const ALERT_NAME: Field = field("name", "\"The disk is nearly full\"");
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

/// Ordered by category, then as they follow each other.
pub const CATALOGUE: &[EventType] = &[
    event(
        "task.queued",
        Category::Task,
        "An agent's turn was accepted: a run of a job waits for its place, or a message was taken.",
        &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN],
    ),
    event(
        "task.started",
        Category::Task,
        "An agent began to work on a turn.",
        &[SESSION, AGENT, ORIGIN, CONVERSATION, JOB, RUN],
    ),
    event(
        "task.completed",
        Category::Task,
        "A turn came to its end successfully.",
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
        "A turn came to no success and will not be tried again by itself. `reason` says how it ended: `error`, `timeout` (a \
         time limit ran out), `cancelled` (somebody stopped it) or \
         `interrupted` (the daemon ended in the middle of it).",
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
        "An attempt of a run failed and another one is planned.",
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
        "A run was left out: its condition was false, or the run before was still under way.",
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
        "A consolidation of conversations into memory ended.",
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
        "A message arrived through a channel.",
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
        "A message went out through a channel, by email or to a webhook.",
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
        "A message to somebody outside was given up, or its platform says later that it did not arrive.",
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
        "A daemon's scheduler began its work.",
        &[field("instance", "\"example\""), field("active_jobs", "3")],
    ),
    event(
        "scheduler.stopped",
        Category::Scheduler,
        "A daemon's scheduler stopped in an orderly way.",
        &[field("instance", "\"example\"")],
    ),
    event(
        "scheduler.tick",
        Category::Scheduler,
        "Jobs were due and became runs. A tick that finds nothing due is no event.",
        &[field("due", "2"), field("run_ids", "[\"run_example\"]")],
    ),
    event(
        "webhook.received",
        Category::Webhook,
        "A signed request was accepted by an inbound webhook.",
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
        "An alert began to fire. `value` is that of the first figure that its condition names.",
        &[ALERT, ALERT_NAME, SEVERITY, CONDITION, THRESHOLD, PERIOD, VALUE, FIRING_SINCE],
    ),
    event(
        "alert.acknowledged",
        Category::Alert,
        "Somebody takes care of an alert that fires.",
        &[ALERT, ALERT_NAME, SEVERITY, CONDITION, THRESHOLD, PERIOD, VALUE, FIRING_SINCE],
    ),
    event(
        "alert.snoozed",
        Category::Alert,
        "An alert that fires is silent for a while.",
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
        "An alert ceased to fire. `resolved_by` says why: `condition` (it does not hold any more), `hand` (somebody said so), `turned_off` or `deleted`.",
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
        "The owner is asked before something happens. `tool` says what; the whole input is at `GET /api/chat/approvals`.",
        &[APPROVAL, APPROVAL_KIND, TOOL, AGENT, SESSION, CONVERSATION, field("status", "\"pending\""), EXPIRES_AT],
    ),
    event(
        "approval.decided",
        Category::Approval,
        "Nobody is asked any more. `status` says why: `approved`, `rejected`, `expired` (nobody answered in time) or \
         `cancelled` (it cannot happen any more).",
        &[APPROVAL, APPROVAL_KIND, TOOL, AGENT, SESSION, CONVERSATION, field("status", "\"approved\""), EXPIRES_AT],
    ),
    event(
        "backup.created",
        Category::Backup,
        "A backup is whole and kept. `daily` says whether the schedule made it.",
        &[BACKUP, field("size_bytes", "1048576"), field("has_secrets", "false"), field("daily", "true")],
    ),
    event(
        "backup.failed",
        Category::Backup,
        "A backup or a restore came to nothing (`kind`: `backup` or `restore`). `error` says why.",
        &[BACKUP, field("kind", "\"backup\""), field("error", "\"There is no space left for the backup\"")],
    ),
    event(
        "backup.restored",
        Category::Backup,
        "Everything was replaced by what a backup of `created_at` held.",
        &[BACKUP, field("created_at", "\"2026-01-01T00:00:00.000Z\"")],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_their_category_and_are_unique() {
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
    fn the_five_categories_of_the_interface_stand_exactly() {
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
