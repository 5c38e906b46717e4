//! Share of the turns with the answer to a question that are among the first ten search results.
//!
//! Ingested as by a user: one agent per conversation, one episode per turn, `speaker: text [image]`, at the date of its
//! session. Each question searches the memory of its own conversation.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::load::{Connection, render};
use serde_json::{Value, json};

use crate::fill::remember;
use crate::texts::encoded;

const FIRST: usize = 10;
const MODES: [&str; 3] = ["hybrid", "keyword", "semantic"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Sums of recall by category, and number of questions.
type Recall = BTreeMap<u64, (f64, usize)>;

pub(crate) async fn measure(model: &Path, folder: &Path) -> Outcome<()> {
    let episodes = lines(&folder.join("episodes.jsonl"))?;
    let questions = lines(&folder.join("questions.jsonl"))?;
    let mut conversations: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for episode in episodes {
        conversations.entry(text(&episode, "conversation")?.to_owned()).or_default().push(episode);
    }
    let data = tempfile::tempdir()?;
    let model = model.to_str().ok_or("the path of the model is no text")?;
    let variables = [("SVC_EMBEDDING_MODEL", model)];
    let daemon = DaemonUnderTest::spawn_with(&data.path().join("data"), &variables)?.with_owner()?;
    let mut tasks = Vec::new();
    for (conversation, turns) in conversations {
        let agent = json!({"svc_name": agent(&conversation), "user_name": "Owner", "archetype": "assistant"});
        daemon.call("POST", "/api/agents", &agent)?;
        let mut connection = Connection::open(&daemon.address).await?;
        let key = daemon.key.clone();
        tasks.push(tokio::spawn(async move {
            let mut turn_of = HashMap::new();
            for turn in &turns {
                let id = remember(&mut connection, &key, &episode(turn)?).await?;
                turn_of.insert(id, (conversation.clone(), text(turn, "id")?.to_owned()));
            }
            Outcome::Ok(turn_of)
        }));
    }
    let mut turn_of = HashMap::new();
    for task in tasks {
        turn_of.extend(task.await??);
    }
    let mut connection = Connection::open(&daemon.address).await?;
    let mut recall: [Recall; MODES.len()] = std::array::from_fn(|_| Recall::new());
    for question in &questions {
        for (mode, recall) in MODES.into_iter().zip(&mut recall) {
            let found = ask(&mut connection, &daemon.key, question, mode, &turn_of).await?;
            let evidence: Vec<&str> =
                question["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if evidence.is_empty() {
                continue;
            }
            let hits = evidence.iter().filter(|id| found.iter().any(|found| found == *id)).count();
            let sum = recall.entry(question["category"].as_u64().ok_or("a question without a category")?).or_default();
            *sum = (sum.0 + share(hits, evidence.len()), sum.1 + 1);
        }
    }
    print(turn_of.len(), &recall);
    daemon.stop()
}

fn lines(path: &Path) -> Outcome<Vec<Value>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn text<'a>(line: &'a Value, field: &str) -> Outcome<&'a str> {
    line[field].as_str().ok_or_else(|| format!("`{field}` is missing in {line}").into())
}

fn agent(conversation: &str) -> String {
    format!("conversation-{conversation}")
}

fn episode(turn: &Value) -> Outcome<Value> {
    let image = turn["image"].as_str().map(|image| format!(" [{image}]")).unwrap_or_default();
    Ok(json!({
        "content": format!("{}: {}{image}", text(turn, "speaker")?, text(turn, "text")?),
        "agent_id": agent(text(turn, "conversation")?),
        "source": "conversation",
        "occurred_at": time(text(turn, "date")?)?,
    }))
}

/// Converts `1:56 pm on 8 May, 2023` to `2023-05-08T13:56:00Z`.
fn time(date: &str) -> Outcome<String> {
    let bad = || format!("`{date}` is no date of a session");
    let (clock, day) = date.split_once(" on ").ok_or_else(bad)?;
    let (hour, minute) = clock.split_once(':').ok_or_else(bad)?;
    let (minute, half) = minute.split_once(' ').ok_or_else(bad)?;
    let hour = hour.trim().parse::<u32>()? % 12 + if half.trim() == "pm" { 12 } else { 0 };
    let mut day = day.split([' ', ',']).filter(|part| !part.is_empty());
    let (Some(of_month), Some(month), Some(year)) = (day.next(), day.next(), day.next()) else {
        return Err(bad().into());
    };
    let month = MONTHS.iter().position(|name| *name == month).ok_or_else(bad)? + 1;
    Ok(format!("{year}-{month:02}-{:02}T{hour:02}:{:02}:00Z", of_month.parse::<u32>()?, minute.parse::<u32>()?))
}

/// Returns the found turns, best first.
async fn ask(
    connection: &mut Connection,
    key: &str,
    question: &Value,
    mode: &str,
    turn_of: &HashMap<String, (String, String)>,
) -> Outcome<Vec<String>> {
    let conversation = text(question, "conversation")?;
    let (query, agent) = (encoded(text(question, "question")?), agent(conversation));
    let path = format!("/api/memory/search?q={query}&mode={mode}&agent_id={agent}&limit={FIRST}");
    let (status, answer) = connection.ask(render("GET", &path, key, None, true).as_bytes()).await?;
    let answer: Value = serde_json::from_str(&answer)?;
    if status != 200 || (mode == "hybrid" && answer["degraded"] == true) {
        return Err(format!("a search was answered with {status}: {answer}").into());
    }
    let mut found = Vec::new();
    for hit in answer["results"].as_array().into_iter().flatten() {
        let (source, turn) = turn_of.get(text(&hit["episode"], "id")?).ok_or("an unknown episode")?;
        if source != conversation {
            return Err("a turn of another conversation was found".into());
        }
        found.push(turn.clone());
    }
    Ok(found)
}

fn print(episodes: usize, recall: &[Recall; MODES.len()]) {
    let questions: usize = recall[0].values().map(|(_, count)| count).sum();
    println!("{episodes} turns, {questions} questions; evidence recall@{FIRST}\n");
    println!("| category | questions | {} |", MODES.join(" | "));
    println!("|---|---|{}", "---|".repeat(MODES.len()));
    let names = ["multi-hop", "temporal", "open domain", "single hop", "adversarial"];
    for (category, (_, count)) in &recall[0] {
        let name = usize::try_from(*category).ok().and_then(|category| names.get(category.wrapping_sub(1)));
        let row: Vec<String> = recall
            .iter()
            .map(|recall| recall.get(category).map_or(0.0, |(sum, count)| average(*sum, *count)))
            .map(|recall| format!("{recall:.3}"))
            .collect();
        println!("| {} | {count} | {} |", name.unwrap_or(&"other"), row.join(" | "));
    }
    let whole = recall.iter().map(|recall| {
        let (sum, count) = recall.values().fold((0.0, 0), |(sum, all), (of, count)| (sum + of, all + count));
        format!("**{:.3}**", average(sum, count))
    });
    println!("| all | {questions} | {} |", whole.collect::<Vec<_>>().join(" | "));
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn average(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_dates_are_parsed() {
        assert_eq!(time("1:56 pm on 8 May, 2023").unwrap(), "2023-05-08T13:56:00Z");
        assert_eq!(time("12:05 am on 31 December, 2022").unwrap(), "2022-12-31T00:05:00Z");
        assert!(time("soon").is_err());
    }
}
