//! The schema of the whole daemon: the store's own tables and those of every domain, in the order in
//! which they were added. A step that was released is never changed. What all of them make of an empty SQLite
//! file stands at one of the last as well; a test holds the two against each other, and writes it anew.

use agentd_store::{Migration, OWN_MIGRATIONS};

const STORE: Migration = OWN_MIGRATIONS[0];
const CHANGES: Migration = OWN_MIGRATIONS[1];
const TRACES: Migration = OWN_MIGRATIONS[2];

macro_rules! migration {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $file, ".sql")),
            sqlite_schema: None,
        }
    };
}

/// Every step, numbered from 1 without a gap.
pub const MIGRATIONS: &[Migration] = &[
    STORE,
    migration!(2, "settings", "0002_settings"),
    migration!(3, "auth", "0003_auth"),
    migration!(4, "providers", "0004_providers"),
    migration!(5, "agents", "0005_agents"),
    migration!(6, "engine", "0006_engine"),
    migration!(7, "chat", "0007_chat"),
    migration!(8, "tools", "0008_tools"),
    migration!(9, "message_cuts", "0009_message_cuts"),
    migration!(10, "notify", "0010_notify"),
    migration!(11, "skills", "0011_skills"),
    migration!(12, "evolution", "0012_evolution"),
    migration!(13, "devices", "0013_devices"),
    migration!(14, "tool_servers", "0014_tool_servers"),
    Migration { version: 15, ..CHANGES },
    migration!(16, "memory", "0016_memory"),
    migration!(17, "scheduler", "0017_scheduler"),
    migration!(18, "hooks", "0018_hooks"),
    migration!(19, "webhooks", "0019_webhooks"),
    migration!(20, "job_projects", "0020_job_projects"),
    migration!(21, "proactive", "0021_proactive"),
    migration!(22, "scheduler_counts", "0022_scheduler_counts"),
    migration!(23, "memory_forgotten", "0023_memory_forgotten"),
    migration!(24, "device_conversations", "0024_device_conversations"),
    migration!(25, "memory_toggles", "0025_memory_toggles"),
    migration!(26, "rollups", "0026_rollups"),
    migration!(27, "rollups_by_label", "0027_rollups_by_label"),
    migration!(28, "alerts", "0028_alerts"),
    migration!(29, "session_traces", "0029_session_traces"),
    Migration { version: 30, ..TRACES },
    migration!(31, "costs", "0031_costs"),
    migration!(32, "channels", "0032_channels"),
    migration!(33, "channel_connections", "0033_channel_connections"),
    migration!(34, "notification_references", "0034_notification_references"),
    migration!(35, "untrusted_messages", "0035_untrusted_messages"),
    migration!(36, "browser_auth_states", "0036_browser_auth_states"),
    migration!(37, "push_subscriptions", "0037_push_subscriptions"),
    Migration {
        sqlite_schema: Some(include_str!("../migrations/sqlite_schema.sql")),
        ..migration!(38, "login_sessions", "0038_login_sessions")
    },
    migration!(39, "page_sessions", "0039_page_sessions"),
    migration!(40, "untrusted_sources", "0040_untrusted_sources"),
    migration!(41, "channel_owners", "0041_channel_owners"),
    migration!(42, "session_waits", "0042_session_waits"),
    migration!(43, "message_usage", "0043_message_usage"),
    migration!(44, "channel_albums", "0044_channel_albums"),
    migration!(45, "episode_wording", "0045_episode_wording"),
];
