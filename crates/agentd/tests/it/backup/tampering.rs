//! Archives that are whole, and hold what this program would never have written.

use super::refusing::repack;
use super::*;

/// Replaces text in the dump and makes every hash agree again, as an attacker would.
fn tampered(archive: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut replaced = None;
    repack(archive, |_, path, content| {
        if path == b"database.jsonl" {
            let text = String::from_utf8(content.clone()).unwrap();
            assert!(text.contains(from), "{from} in {text}");
            *content = text.replace(from, to).into_bytes();
            replaced = Some((content.len(), hex::encode(sha256(content))));
        } else if path == b"contents.jsonl" {
            let (size, hash) = replaced.clone().expect("the database comes first");
            let lines = std::str::from_utf8(content).unwrap().lines().map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                if line["path"] == "database.jsonl" {
                    line["size"] = size.into();
                    line["sha256"] = hash.clone().into();
                }
                format!("{}\n", reordered(&line))
            });
            *content = lines.collect::<String>().into_bytes();
        }
        true
    })
}

/// As the archive writes a line: its kind first.
fn reordered(line: &serde_json::Value) -> String {
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
        self.ground
            .db
            .write(async move |tx: &mut Tx| tx.execute(sql, args![]).await.map(|_| ()))
            .await
            .unwrap_or_else(|error: StoreError| panic!("{error}"));
    }
}

/// A daemon with an agent, one that is being purged, and settings.
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

#[tokio::test]
async fn rows_that_no_domain_would_have_written_are_refused() {
    let archive = with_rows().await.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    new.write("agents/stays/file", b"stays");
    let before = new.state().await;
    for (from, to, said) in [
        ("\"scout\"", "\"../../evil\"", "`../../evil` is no name of an agent"),
        ("\"scout\"", "\"/srv/evil\"", "`/srv/evil` is no name of an agent"),
        ("\"agent_01arz3ndektsv4rrffq69g5fav\"", "\"../../../evil\"", "is no id of an agent"),
        (r#"\"gone\""#, r#"\"../../evil\""#, "`../../evil` is no name of an agent"),
        ("agent_01arz3ndektsv4rrffq69g5faz", "../../evil", "is no id of an agent"),
        (r#"[\"coach\"]"#, r"[]", "the agent `scout` is not valid: archetype must be"),
        (r#"[\"coach\"]"#, r"nonsense", "column `archetypes` cannot be read"),
        (r#"\"temperature\":0.5"#, r#"\"temperature\":99"#, "agent.temperature, which must be"),
        ("small.gguf", "../../../etc/passwd", "agent.local_model, which"),
        ("https://pictures.example/a.png", "/etc/passwd", "profile.avatar_url, which"),
        (r#"{\"temperature\":0.5"#, r#"{\"temperature\":\"warm\""#, "its settings `agent` cannot be read"),
    ] {
        let error = new.restore(&tampered(&archive, from, to), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(said) && text.ends_with("nothing was changed"), "{to}: {text}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert_eq!(new.state().await, before);
        assert_eq!(new.leftovers(), Vec::<String>::new());
    }
    // The tampering alone is not what was refused.
    new.restore(&tampered(&archive, "\"scout\"", "\"guide\""), None).await.unwrap();
}

#[tokio::test]
async fn secrets_that_come_as_rows_are_refused() {
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
    let error = new.restore(&tampered(&archive, &from, &to), None).await.unwrap_err();
    assert!(error.to_string().contains("its database holds secrets"), "{error}");
}

#[tokio::test]
async fn links_that_lead_out_are_neither_taken_nor_written() {
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
