//! Well-formed archives with content that the daemon would never have written.

use super::refusing::repack;
use super::*;

/// Replaces text in the dump of the database.
fn tamper(archive: &[u8], from: &str, to: &str) -> Vec<u8> {
    with_database(archive, |dump| {
        let text = String::from_utf8(dump).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        text.replace(from, to).into_bytes()
    })
}

/// Changes the dump and updates every hash to match, as an attacker would.
pub(super) fn with_database(archive: &[u8], mut change: impl FnMut(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut replaced = None;
    repack(archive, |_, path, content| {
        if path == b"database.jsonl" {
            *content = change(std::mem::take(content));
            replaced = Some((content.len(), hex::encode(sha256(content))));
        } else if path == b"contents.jsonl" {
            let (size, hash) = replaced.clone().expect("the database comes first");
            let lines = std::str::from_utf8(content).unwrap().lines().map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                if line["path"] == "database.jsonl" {
                    line["size"] = size.into();
                    line["sha256"] = hash.clone().into();
                }
                format!("{}\n", serialize_line(&line))
            });
            *content = lines.collect::<String>().into_bytes();
        }
        true
    })
}

/// Serializes a line of the list in the order of the archive, with `kind` first.
fn serialize_line(line: &serde_json::Value) -> String {
    let mut fields = vec![format!("\"kind\":{}", line["kind"])];
    for name in ["path", "size", "sha256", "target", "entries"] {
        if !line[name].is_null() {
            fields.push(format!("\"{name}\":{}", line[name]));
        }
    }
    format!("{{{}}}", fields.join(","))
}

impl Fixture {
    async fn execute(&self, sql: &'static str) {
        self.context
            .db
            .write(async move |tx: &mut Tx| tx.execute(sql, args![]).await.map(|_| ()))
            .await
            .unwrap_or_else(|error: StoreError| panic!("{error}"));
    }
}

/// Returns a daemon with an agent, a pending purge of another agent, and settings.
async fn with_rows() -> Fixture {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "INSERT INTO agents (id, svc_name, user_name, archetypes, evolution_choice, profile, answers, created_at, \
             updated_at) VALUES ('agent_01arz3ndektsv4rrffq69g5fav', 'scout', 'Ada', '[\"coach\"]', 'check', '{}', \
             '[]', 1, 1)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO queue (id, queue, payload, status, run_at, due_at, max_attempts, attempt, fence, created_at, \
             updated_at) VALUES ('item_1', 'agents.purge', \
             '{\"agent_id\":\"agent_01arz3ndektsv4rrffq69g5faz\",\"svc_name\":\"gone\"}', 'pending', 1, 1, 9, 0, 0, 1, 1)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO settings (section, value, updated_at) VALUES \
             ('agent', '{\"temperature\":0.5,\"local_model\":\"small.gguf\"}', 1), \
             ('profile', '{\"avatar_url\":\"https://pictures.example/a.png\"}', 1), ('of a later version', '{}', 1)",
        )
        .await;
    fixture.write("agents/scout/notes.txt", b"remember");
    fixture
}

/// Adds a hook and two jobs linked by a chain.
async fn with_jobs_and_hook() -> Fixture {
    let fixture = with_rows().await;
    fixture
        .execute(
            "INSERT INTO jobs (id, name, goal, agent_id, schedule, status, retry, overlap, misfire, execution_mode, \
             time_limit_seconds, condition, delivery, counted_from, next_run_at, run_count, created_at, updated_at) VALUES \
             ('job_one', 'report', 'Say how things are.', 'agent_01arz3ndektsv4rrffq69g5fav', \
             '{\"type\":\"cron\",\"expression\":\"30 8 * * 1-5\",\"timezone\":\"Europe/Berlin\"}', 'active', \
             '{\"max_attempts\":3,\"strategy\":\"fixed\",\"base_delay\":60}', 'skip', 'run_once', 'autonomous', 3600, \
             '{\"type\":\"expression\",\"expression\":\"run_count < 10\"}', \
             '{\"channel\":\"slack:#reports\",\"format\":\"markdown\"}', 1, 2, 0, 1, 1), \
             ('job_two', 'second', 'Say so again.', 'agent_01arz3ndektsv4rrffq69g5fav', \
             '{\"type\":\"every\",\"interval\":600}', 'paused', \
             '{\"max_attempts\":1,\"strategy\":\"none\",\"base_delay\":0}', 'skip', 'run_once', 'autonomous', 3600, \
             NULL, NULL, 1, NULL, 0, 1, 1)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO job_chains (id, name, edges, created_at) VALUES ('chain_one', 'pair', \
             '[{\"from\":\"job_one\",\"to\":\"job_two\",\"type\":\"on_success\"}]', 1)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO chain_jobs (chain_id, job_id, position, is_root) VALUES ('chain_one', 'job_one', 0, 1), \
             ('chain_one', 'job_two', 1, 0)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO hooks (id, name, event_type, hook_type, enabled, scope, config, has_secret, filter_expr, \
             priority, tags, max_retries, heard_after, heard_in, created_at, updated_at) VALUES \
             ('hook_one', 'sink', 'task.failed', 'http', 1, 'global', \
             '{\"url\":\"https://receiver.example/x\",\"queued\":true}', 0, \
             '{\"field\":\"data.code\",\"op\":\"eq\",\"value\":\"auth\"}', 0, '[\"mine\"]', 5, '', '', 1, 1)",
        )
        .await;
    fixture
}

/// Adds rows of channels: a message, a pairing request, a state, and a connection of another daemon.
async fn with_channel_rows() -> Fixture {
    let fixture = with_rows().await;
    fixture
        .execute(
            "INSERT INTO channel_messages (id, platform, external_id, sender_id, sender_name, is_trusted, chat_id, thread, \
             is_group, content, attachments, reply_to, status, received_at) VALUES ('cmsg_one', 'telegram', '1', '7', \
             'Ada', 1, '7', '', 0, 'Hello', '[]', '{\"channel\":\"7\"}', 'answered', 1)",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO channel_pairings (platform, sender_id, sender_name, code, reply_to, is_refused, requested_at, \
             expires_at) VALUES ('slack', 'U1', 'Bob', 'ABCDEFGH', '{\"channel\":\"C1\"}', 0, 1, 2)",
        )
        .await;
    fixture.execute("INSERT INTO channel_states (platform, last_received_at) VALUES ('discord', 1)").await;
    fixture.execute("INSERT INTO channel_connections (platform, resume) VALUES ('telegram', 'old')").await;
    fixture
}

#[tokio::test]
async fn invalid_channel_rows_are_rejected_and_connections_are_not_restored() {
    let archive = with_channel_rows().await.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    let before = new.state().await;
    for (from, to, expected) in [
        ("\"telegram\"", "\"telegraph\"", "failed to read platform of a chat platform row: `telegraph`"),
        ("\"slack\"", "\"slick\"", "failed to read platform of a chat platform row: `slick`"),
        ("\"discord\"", "\"\"", "failed to read platform of a chat platform row: ``"),
        (r#"\"channel\":\"7\""#, r#"\"channel\":7"#, "failed to read reply_to of a chat platform row"),
        (r#"{\"channel\":\"C1\"}"#, "nowhere", "failed to read reply_to of a chat platform row"),
        ("null,\"[]\",\"7\"", "null,\"[7]\",\"7\"", "failed to read attachments of a chat platform row"),
    ] {
        let error = new.restore(&tamper(&archive, from, to), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && text.ends_with("nothing was changed"), "{to}: {text}");
        assert_eq!(new.state().await, before);
    }
    new.restore(&archive, None).await.unwrap();
    let mut read = new.context.db.read().await.unwrap();
    let sql = "SELECT (SELECT COUNT(*) FROM channel_messages) * 10 + (SELECT COUNT(*) FROM channel_connections) AS n";
    assert_eq!(read.fetch_one(sql, args![]).await.unwrap().get::<i64>("n").unwrap(), 10);
}

#[tokio::test]
async fn invalid_jobs_and_hooks_are_rejected() {
    let archive = with_jobs_and_hook().await.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    let before = new.state().await;
    for (from, to, expected) in [
        ("30 8 * * 1-5", "61 8 * * 1-5", "the schedule of the job `job_one` cannot be read"),
        (r#"\"interval\":600"#, r#"\"interval\":0"#, "the schedule of the job `job_two` cannot be read"),
        ("run_count < 10", "run_count <", "the job `report` is not valid: condition.expression"),
        ("slack:#reports", "nowhere", "the job `report` is not valid: delivery.channel must be"),
        (r#"\"max_attempts\":3"#, r#"\"max_attempts\":99"#, "the job `report` is not valid: retry.max_attempts"),
        ("\"Say so again.\"", "\"\"", "the job `second` is not valid: goal is required"),
        ("\"active\"", "\"paused\"", "the job `report` is not valid: next_run_at is set"),
        (
            r#"\"to\":\"job_two\""#,
            r#"\"to\":\"job_one\""#,
            "the chain `pair` is not valid: edges must not contain a cycle",
        ),
        (
            "https://receiver.example/x",
            "gopher://x",
            "the hook `sink` is not valid: the config is not valid: config.url",
        ),
        (r#"\"op\":\"eq\""#, r#"\"op\":\"like\""#, "the hook `sink` is not valid: the filter"),
        ("\"task.failed\"", "\"task.lost\"", "the hook `sink` is not valid: event_type is not a known event type"),
        ("\"global\"", "\"agent:scout\"", "the hook `sink` is not valid: its scope"),
        (r#"[\"mine\"]"#, r#"[\"\"]"#, "the hook `sink` is not valid: tags must be"),
    ] {
        let error = new.restore(&tamper(&archive, from, to), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && text.ends_with("nothing was changed"), "{to}: {text}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert_eq!(new.state().await, before);
    }
    // A valid change is accepted.
    new.restore(&tamper(&archive, "30 8 * * 1-5", "31 8 * * 1-5"), None).await.unwrap();
}

#[tokio::test]
async fn invalid_agents_and_settings_are_rejected() {
    let archive = with_rows().await.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    new.write("agents/stays/file", b"stays");
    let before = new.state().await;
    for (from, to, expected) in [
        ("\"scout\"", "\"../../evil\"", "`../../evil` is not a valid agent name"),
        ("\"scout\"", "\"/srv/evil\"", "`/srv/evil` is not a valid agent name"),
        ("\"agent_01arz3ndektsv4rrffq69g5fav\"", "\"../../../evil\"", "is not a valid agent id"),
        (r#"\"gone\""#, r#"\"../../evil\""#, "`../../evil` is not a valid agent name"),
        ("agent_01arz3ndektsv4rrffq69g5faz", "../../evil", "is not a valid agent id"),
        (r#"[\"coach\"]"#, r"[]", "the agent `scout` is not valid: archetype must be"),
        (r#"[\"coach\"]"#, r"nonsense", "column `archetypes` cannot be read"),
        (r#"\"temperature\":0.5"#, r#"\"temperature\":99"#, "agent.temperature, which must be"),
        ("small.gguf", "../../../etc/passwd", "agent.local_model, which"),
        ("https://pictures.example/a.png", "/etc/passwd", "profile.avatar_url, which"),
        (r#"{\"temperature\":0.5"#, r#"{\"temperature\":\"warm\""#, "its settings `agent` cannot be read"),
    ] {
        let error = new.restore(&tamper(&archive, from, to), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && text.ends_with("nothing was changed"), "{to}: {text}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert_eq!(new.state().await, before);
        assert_eq!(new.leftovers(), Vec::<String>::new());
    }
    // A valid change is accepted.
    new.restore(&tamper(&archive, "\"scout\"", "\"guide\""), None).await.unwrap();
}

#[tokio::test]
async fn changed_rows_cause_secrets_to_be_dropped() {
    let own = with_rows().await;
    own.set_secret("openai", "sk-one").await;
    let archive = own.archive(None).await;
    assert!(own.restore(&archive, None).await.unwrap().secrets_missing.is_empty());
    let report = own.restore(&tamper(&archive, "\"scout\"", "\"guide\""), None).await.unwrap();
    assert_eq!((report.secrets_missing.len(), own.secrets().await), (1, Vec::new()));
}

#[tokio::test]
async fn rows_that_violate_table_constraints_are_reported() {
    let archive = with_jobs_and_hook().await.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    let before = new.state().await;
    for (from, to, table) in [
        ("\"job_two\",null", "\"job_one\",null", "jobs"),
        ("\"second\"", "null", "jobs"),
        ("\"paused\"", "\"lost\"", "jobs"),
        ("[\"chain_one\",0,\"job_two\"", "[\"chain_one\",0,\"job_ten\"", "chain_jobs"),
    ] {
        let error = new.restore(&tamper(&archive, from, to), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line ") && text.contains(&format!("a row of the table `{table}`")), "{to}: {text}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert!(matches!(agentd_base::DomainError::kind(&error), agentd_base::ErrorKind::Invalid(_)));
        assert_eq!(new.state().await, before);
    }
}

#[tokio::test]
async fn secrets_in_the_dump_are_rejected() {
    let archive = with_rows().await.archive(None).await;
    let table = "{\"table\":{\"name\":\"secrets\",\"columns\":[\"name\",\"scope\",\"sealed\",\"updated_at\"]}}\n\
                 [\"openai\",\"providers\",\"AAAA\",1]\n";
    let rows = |archive: &[u8]| {
        let text = String::from_utf8_lossy(&unzip(archive).unwrap()).into_owned();
        let end = text.split("{\"end\":{\"rows\":").nth(1).unwrap();
        end.split('}').next().unwrap().parse::<u64>().unwrap()
    };
    let count = rows(&archive);
    let (from, to) =
        (format!("{{\"end\":{{\"rows\":{count}}}}}"), format!("{table}{{\"end\":{{\"rows\":{}}}}}", count + 1));
    let new = Fixture::new().await;
    let error = new.restore(&tamper(&archive, &from, &to), None).await.unwrap_err();
    assert!(error.to_string().contains("its database contains secrets"), "{error}");
}

#[tokio::test]
async fn links_that_lead_outside_are_neither_archived_nor_restored() {
    let old = with_rows().await;
    old.write("agents/scout/deep/file", b"x");
    for (target, link) in [
        ("/etc", "agents/scout/outside"),
        ("../stays", "agents/scout/neighbour"),
        ("scout", "agents/alias"),
        ("deep/file", "agents/scout/inside"),
    ] {
        std::os::unix::fs::symlink(target, old.root().join(link)).unwrap();
    }
    let archive = old.archive(None).await;
    let new = Fixture::new().await;
    new.restore(&archive, None).await.unwrap();
    let links: Vec<String> = new.state().await.into_iter().filter(|line| line.starts_with("link")).collect();
    assert_eq!(links, ["link \"agents/scout/inside\" \"deep/file\""]);

    let before = new.state().await;
    for (name, target) in [("agents/scout", "/tmp"), ("agents/scout/x", "/etc"), ("agents/scout/x", "../stays")] {
        let harmful = repack(&archive, |header, path, content| {
            if path.ends_with(b"notes.txt") {
                *path = name.as_bytes().to_vec();
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name(target).unwrap();
                content.clear();
            }
            true
        });
        let outcome = new.restore(&harmful, None).await;
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("is a link"), "{name} to {target}: {text}");
        assert_eq!(new.state().await, before);
    }
}
