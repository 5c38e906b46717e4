//! Chaos test: three daemons share one PostgreSQL and are killed in turn while messages of six platforms arrive, each
//! several times and at any daemon. Every message has one turn and an answer. An answer is sent twice only if a kill
//! fell between sending and recording it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Clock, Entropy};
use agentd_chat_platforms::Platform;
use agentd_llm::Vendor;
use agentd_testing_chat_platforms::{FakeMessage, FakePlatform};
use agentd_testing_llm::{FakeVendor, RecordedRequest, Reply, Script};
use parking_lot::Mutex;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::slow_answers::SlowAnswers;
use crate::support::TestProcess;
use crate::support::chat_fixture::TEST_USAGE;

const MESSAGES: &str = "AGENTD_TEST_CHANNEL_MESSAGES";
const KILLS: &str = "AGENTD_TEST_CHANNEL_KILLS";
const BETWEEN_KILLS: Duration = Duration::from_secs(6);
/// Number of chats per platform; one sender may write 60 messages a minute.
const CHATS_PER_PLATFORM: u32 = 15;
const MAX_DELIVERIES: usize = 5;
/// Maximum delay of a repeated delivery, regardless of the result of the first one.
const MAX_REPEAT_DELAY: Duration = Duration::from_secs(15);
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Response time of a platform.
const PLATFORM_DELAY: Duration = Duration::from_millis(150);
/// Delay before each of the four pieces of a reply.
const PIECE_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of notifications that one daemon sends concurrently.
const MAX_CONCURRENT_SENDS: usize = 4;
/// Maximum number of concurrent turns of one daemon at a provider.
const MAX_CONCURRENT_TURNS: usize = 8;
/// Maximum time after the last kill until all messages are answered; leases of 30 seconds expire meanwhile.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(240);

fn count_from_env(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns the number after the last occurrence of `mark`, such as 7 in `message number 7.`.
fn number_after(text: &str, mark: &str) -> Option<u32> {
    let digits = text.rsplit_once(mark)?.1;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Replies slowly with the number of the answered message.
fn answer(request: &RecordedRequest) -> Reply {
    let last_message = request.body["messages"].as_array().and_then(|all| all.last()).map(ToString::to_string);
    let number =
        last_message.and_then(|last_message| number_after(&last_message, "message number ")).unwrap_or_default();
    let begin = format!("The answer to number {number} ");
    Reply::text([begin.as_str(), "is: ", "all is ", "well."], TEST_USAGE).delayed(PIECE_DELAY)
}

/// A fake platform with the observations about it.
struct Line {
    fake: FakePlatform,
    slow: SlowAnswers,
    /// Number of messages that the platform had received at each kill.
    sent_at_kills: Mutex<Vec<usize>>,
}

impl Line {
    async fn start(platform: Platform) -> Self {
        let fake = FakePlatform::start(platform, Clock::system()).await.expect("a fake platform");
        let base_url = fake.settings()["api_base_url"].as_str().expect("a url").to_owned();
        Self { fake, slow: SlowAnswers::before(&base_url, PLATFORM_DELAY).await, sent_at_kills: Mutex::default() }
    }

    fn id(&self) -> &'static str {
        self.fake.platform().id()
    }

    async fn enable(&self, process: &TestProcess) {
        let mut settings = self.fake.settings();
        settings["api_base_url"] = json!(self.slow.url());
        settings["enabled"] = json!(true);
        settings["agent_id"] = json!("scout");
        settings["sender_policy"] = json!("open");
        let settings = json!({ self.id(): settings });
        process.put("/api/channels/settings").json(&settings).send().await.expect_status(200);
    }

    /// Returns the positions of the answers to each message among all sent messages. The key is `None` for answers cut
    /// off before their number.
    fn answers(&self) -> BTreeMap<Option<u32>, Vec<usize>> {
        let mut answers: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, sent) in self.fake.sent().iter().enumerate() {
            answers.entry(number_after(&sent.to_string(), "answer to number ")).or_default().push(at);
        }
        answers
    }

    fn has_kill_between(&self, earlier: usize, later: usize) -> bool {
        self.sent_at_kills.lock().iter().any(|sent| (earlier + 1..=later).contains(sent))
    }
}

/// Results of deliveries.
#[derive(Default)]
struct Deliveries {
    acknowledged: usize,
    failed: usize,
}

struct Platforms {
    lines: Vec<Line>,
    addresses: Mutex<Vec<SocketAddr>>,
    entropy: Entropy,
    client: reqwest::Client,
    deliveries: Mutex<BTreeMap<&'static str, Deliveries>>,
}

impl Platforms {
    fn line(&self, number: u32) -> &Line {
        &self.lines[number as usize % self.lines.len()]
    }

    /// Delivers a message to random daemons until one acknowledges it.
    async fn deliver(&self, number: u32) {
        let line = self.line(number);
        let text = format!("This is message number {number}.");
        let chat = 1 + (number / 6) % CHATS_PER_PLATFORM;
        loop {
            let request = line.fake.message(&FakeMessage { chat, number, text: &text }, Clock::system().now());
            let address = {
                let addresses = self.addresses.lock();
                addresses[pick_index(&self.entropy, addresses.len())]
            };
            let url = format!("http://{address}/api/channels/{}/webhook", line.id());
            let sent = self.client.post(url).headers(request.headers).body(request.body).send().await;
            let is_acknowledged = sent.is_ok_and(|answer| answer.status().is_success());
            self.record_delivery(line.id(), is_acknowledged);
            if is_acknowledged {
                return;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    fn record_delivery(&self, platform: &'static str, is_acknowledged: bool) {
        let mut deliveries = self.deliveries.lock();
        let Deliveries { acknowledged, failed } = deliveries.entry(platform).or_default();
        *(if is_acknowledged { acknowledged } else { failed }) += 1;
    }
}

fn pick_index(entropy: &Entropy, of: usize) -> usize {
    let share = entropy.unit() * f64::from(u32::try_from(of).expect("few"));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = share as usize;
    index.min(of - 1)
}

/// Returns the delivery times of all messages, one to [`MAX_DELIVERIES`] per message.
fn plan_deliveries(messages: u32, lasts: Duration, entropy: &Entropy) -> Vec<(Duration, u32)> {
    let mut plan = Vec::new();
    for number in 0..messages {
        let first = lasts * number / messages;
        plan.push((first, number));
        for _ in 0..pick_index(entropy, MAX_DELIVERIES) {
            plan.push((first + MAX_REPEAT_DELAY.mul_f64(entropy.unit()), number));
        }
    }
    plan.sort_unstable();
    plan
}

struct Stored {
    connection: PgConnection,
}

impl Stored {
    async fn open(process: &TestProcess) -> Self {
        let url = process.database_url().expect("PostgreSQL");
        Self { connection: PgConnection::connect(url).await.expect("a connection") }
    }

    async fn count(&mut self, sql: &'static str) -> usize {
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut self.connection).await.expect("a count");
        usize::try_from(count).expect("a count")
    }

    /// Returns each message with its platform, text, status, notification status and body, and numbers of turns and of
    /// conversation messages.
    async fn messages(&mut self) -> Vec<Message> {
        let sql = "SELECT m.platform, m.content, m.status, COALESCE(n.status, ''), COALESCE(n.body, ''), \
                   (SELECT COUNT(*) FROM sessions AS s WHERE s.id = m.session_id), \
                   (SELECT COUNT(*) FROM messages AS c WHERE c.role = 'user' AND c.content = m.content) \
                   FROM channel_messages AS m LEFT JOIN notifications AS n ON n.idempotency_key = 'channel:' || m.id";
        sqlx::query_as(sql).fetch_all(&mut self.connection).await.expect("rows")
    }
}

type Message = (String, String, String, String, String, i64, i64);

/// Totals of a platform, shown in the table.
#[derive(Default)]
struct Totals {
    messages: usize,
    turns: usize,
    interrupted: usize,
    /// Number of answers without a message number.
    unnumbered: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: leases must end; make chaos-channels runs it on PostgreSQL"]
async fn kills_neither_lose_messages_nor_repeat_turns() {
    let (messages, kills) = (count_from_env(MESSAGES, 150), count_from_env(KILLS, 3));
    let vendor = FakeVendor::start(Vendor::Openai, Script::by(answer)).await.expect("a fake vendor");
    let mut first = TestProcess::with_owner().await;
    let (Some(mut second), Some(mut third)) = (first.replica(), first.replica()) else {
        panic!("replicas share a PostgreSQL; scripts/with-postgres.sh starts one");
    };
    second.spawn().await;
    third.spawn().await;
    let mut processes = [first, second, third];
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    processes[0].put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    processes[0].create_agent("scout").await;
    let mut lines = Vec::new();
    for platform in Platform::ALL {
        let line = Line::start(platform).await;
        line.enable(&processes[lines.len() % 3]).await;
        lines.push(line);
    }
    let platforms = Arc::new(Platforms {
        lines,
        addresses: Mutex::new(processes.iter().map(|process| process.address).collect()),
        entropy: Entropy::seeded(11),
        client: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().expect("a client"),
        deliveries: Mutex::default(),
    });

    let (began, lasts) = (Instant::now(), BETWEEN_KILLS * kills);
    let plan = plan_deliveries(messages, lasts, &platforms.entropy);
    let delivering = tokio::spawn({
        let platforms = Arc::clone(&platforms);
        async move {
            let mut tasks = JoinSet::new();
            for (at, number) in plan {
                tokio::time::sleep_until(began + at).await;
                let platforms = Arc::clone(&platforms);
                tasks.spawn(async move { platforms.deliver(number).await });
            }
            tasks.join_all().await;
        }
    });
    for kill in 0..kills {
        let share = (f64::from(kill) + 0.3 + 0.6 * platforms.entropy.unit()) / f64::from(kills);
        tokio::time::sleep_until(began + lasts.mul_f64(share)).await;
        let at = pick_index(&platforms.entropy, processes.len());
        processes[at].kill();
        processes[at].spawn().await;
        platforms.addresses.lock()[at] = processes[at].address;
        // The platform has received everything that the killed daemon sent, and no other daemon has taken over yet.
        for line in &platforms.lines {
            line.sent_at_kills.lock().push(line.fake.sent().len());
        }
    }
    let last_kill = Instant::now();
    delivering.await.expect("all messages are delivered");
    let mut stored = Stored::open(&processes[0]).await;
    loop {
        let open = stored.count("SELECT COUNT(*) FROM channel_messages WHERE status IN ('pending', 'running')").await;
        let unsent = stored.count("SELECT COUNT(*) FROM notifications WHERE status = 'pending'").await;
        if open + unsent == 0 {
            break;
        }
        assert!(last_kill.elapsed() < MAX_SETTLE_TIME, "{open} messages are open and {unsent} answers not sent");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let settle_time = last_kill.elapsed();
    let problems = check_results(&platforms, &mut stored, messages, kills as usize).await;
    let request_count = vendor.requests().iter().filter(|request| !request.body.is_null()).count();
    println!(
        "{kills} kills of one of three daemons; at settle_time {settle_time:.0?} after the last one; {request_count} calls of the model"
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Prints the table and returns the violated guarantees.
#[allow(clippy::print_stdout, reason = "a long run reports its results")]
async fn check_results(platforms: &Platforms, stored: &mut Stored, messages: u32, kills: usize) -> Vec<String> {
    let mut problems = Vec::new();
    let mut figures: BTreeMap<String, Totals> = BTreeMap::new();
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let answers: Vec<_> = platforms.lines.iter().map(Line::answers).collect();
    for (platform, content, status, sent, body, sessions, reply_count) in stored.messages().await {
        let number = number_after(&content, "message number ").expect("the number of a message");
        *seen.entry(number).or_default() += 1;
        let totals = figures.entry(platform.clone()).or_default();
        totals.messages += 1;
        totals.turns += usize::try_from(reply_count).expect("a count");
        totals.interrupted += usize::from(status == "failed");
        if (sessions, reply_count) != (1, 1) {
            problems.push(format!("message {number} of {platform}: {sessions} sessions, {reply_count} replies"));
        }
        if sent != "sent" || !["answered", "failed"].contains(&status.as_str()) {
            problems.push(format!("message {number} of {platform} is {status}, and its answer is {sent:?}: {body}"));
        }
        let says_number = number_after(&body, "answer to number ") == Some(number);
        totals.unnumbered += usize::from(!says_number);
        if says_number && !answers[number as usize % answers.len()].contains_key(&Some(number)) {
            problems.push(format!("message {number} of {platform} was never answered"));
        }
    }
    for number in 0..messages {
        if seen.get(&number) != Some(&1) {
            problems.push(format!("message {number} has {:?} rows", seen.get(&number)));
        }
    }
    println!("platform     messages  deliveries  refused  turns  interrupted  replies  duplicates");
    let (mut duplicates, mut interrupted) = (0, 0);
    for (line, answers) in platforms.lines.iter().zip(&answers) {
        let totals = figures.remove(line.id()).unwrap_or_default();
        let replies: usize = answers.values().map(Vec::len).sum();
        let unnumbered = answers.get(&None).map_or(0, Vec::len);
        if unnumbered < totals.unnumbered {
            problems.push(format!("{} answers of {} did not arrive", totals.unnumbered - unnumbered, line.id()));
        }
        let mut platform_duplicates = unnumbered.saturating_sub(totals.unnumbered);
        for (number, positions) in answers.iter().filter(|(number, _)| number.is_some()) {
            platform_duplicates += positions.len() - 1;
            for pair in positions.windows(2).filter(|pair| !line.has_kill_between(pair[0], pair[1])) {
                problems.push(format!("{number:?} of {} was answered twice without a kill: {pair:?}", line.id()));
            }
        }
        let deliveries = platforms.deliveries.lock().remove(line.id()).unwrap_or_default();
        println!(
            "{:<12} {:>8}  {:>10}  {:>7}  {:>5}  {:>11}  {:>7}  {:>10}",
            line.id(),
            totals.messages,
            deliveries.acknowledged,
            deliveries.failed,
            totals.turns,
            totals.interrupted,
            replies,
            platform_duplicates,
        );
        duplicates += platform_duplicates;
        interrupted += totals.interrupted;
    }
    if duplicates > kills * MAX_CONCURRENT_SENDS {
        problems.push(format!("{duplicates} answers were repeated after {kills} kills"));
    }
    if interrupted > kills * MAX_CONCURRENT_TURNS {
        problems.push(format!("{interrupted} turns were interrupted by {kills} kills"));
    }
    problems
}
