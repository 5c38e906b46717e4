//! Three daemons on one PostgreSQL database and data directory are killed in turn. Every event arrives, every slot
//! of a job
//! runs once, and the work of a killed daemon is taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::{Clock, Timestamp};
use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::hooks::receiver::{Answer, Receiver};
use crate::support::TestProcess;
use crate::support::chat_fixture::TEST_USAGE;

const EVENTS: &str = "AGENTD_TEST_REPLICA_EVENTS";
const JOBS: &str = "AGENTD_TEST_REPLICA_JOBS";
const KILLS: &str = "AGENTD_TEST_REPLICA_KILLS";
const KILL_INTERVAL: Duration = Duration::from_secs(10);
const HOOKS: usize = 4;
/// Concurrent deliveries of one daemon to slow receivers.
const MAX_CONCURRENT_DELIVERIES: usize = 64;
/// Concurrent deliveries before a receiver is recognized as slow.
const MAX_INITIAL_DELIVERIES: usize = 2 * MAX_CONCURRENT_DELIVERIES;
/// Concurrent turns of jobs per daemon at one provider.
const MAX_CONCURRENT_TURNS: usize = 8;
/// Maximum time from the end of a lease until another daemon takes over.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the last kill until all work is done, including leases of 30 seconds.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(180);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn times(count: usize, duration: Duration) -> Duration {
    duration * u32::try_from(count).expect("few")
}

async fn create_hook(process: &TestProcess, url: &str) -> String {
    let hook = json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http", "enabled": false,
        "config": {"url": url, "queued": true, "retry_delay_s": 1},
    });
    let hook = process.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    hook["id"].as_str().expect("an id").to_owned()
}

/// Queues deliveries for disabled hooks, a third at each daemon; returns the event ids.
async fn fill(processes: &[TestProcess], hooks: &[String], count: usize) -> BTreeSet<String> {
    let requests = futures_util::stream::iter(0..count).map(|at| async move {
        let path = format!("/api/hooks/{}/test-delivery", hooks[at % hooks.len()]);
        let process = &processes[at % processes.len()];
        let delivery = process.request(reqwest::Method::POST, &path).send().await.expect_status(202).json();
        delivery["event_id"].as_str().expect("an id").to_owned()
    });
    requests.buffer_unordered(16).collect().await
}

/// Creates one-time jobs that are due one after another within this time.
async fn create_jobs(process: &TestProcess, count: usize, first: Timestamp, within: Duration) -> Vec<String> {
    let requests = futures_util::stream::iter(0..count).map(|at| async move {
        let due = first + times(at, within) / u32::try_from(count).expect("few");
        let job = json!({
            "name": format!("job {at}"), "goal": "Say how things are.", "agent_id": "scout",
            "schedule": {"type": "at", "datetime": due},
            "retry": {"max_attempts": 10, "strategy": "fixed", "base_delay": 0},
        });
        let job = process.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
        job["id"].as_str().expect("an id").to_owned()
    });
    requests.buffer_unordered(8).collect().await
}

/// Measures how long expired leases of deliveries and runs wait for a takeover.
struct Overdue {
    connection: PgConnection,
    longest: Duration,
}

impl Overdue {
    async fn open(process: &TestProcess) -> Self {
        let url = process.database_url().expect("PostgreSQL");
        Self { connection: PgConnection::connect(url).await.expect("a connection"), longest: Duration::ZERO }
    }

    async fn watch(mut self, until: tokio::sync::oneshot::Receiver<()>) -> Duration {
        let mut until = std::pin::pin!(until);
        loop {
            let now = Clock::system().now();
            let sql = "SELECT MIN(due_at) FROM (SELECT due_at FROM hook_deliveries WHERE status = 'processing' UNION ALL \
                       SELECT due_at FROM job_runs WHERE status = 'running' AND due_at IS NOT NULL) AS held";
            let ends: Option<i64> = sqlx::query_scalar(sql).fetch_one(&mut self.connection).await.expect("an answer");
            if let Some(ends) = ends {
                self.longest = self.longest.max(now.since(Timestamp::from_micros(ends)));
            }
            tokio::select! {
                _ = &mut until => return self.longest,
                () = tokio::time::sleep(Duration::from_millis(250)) => {}
            }
        }
    }
}

/// Returns the number of arrivals of each event.
fn arrivals(receivers: &[Receiver]) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for got in receivers.iter().flat_map(Receiver::received) {
        *times.entry(got.event()["id"].as_str().expect("an id").to_owned()).or_default() += 1;
    }
    times
}

async fn check_completed(process: &TestProcess, jobs: usize) -> Result<(), String> {
    let stats = process.get("/api/hooks/deliveries/queue-stats").send().await.expect_status(200).json();
    let stats = &stats["stats"];
    if ["pending", "processing", "failed"].iter().any(|state| stats[state] != 0) {
        return Err(format!("deliveries remain: {stats}"));
    }
    assert_eq!(stats["dead_letter"], 0, "{stats}");
    let list = process.get("/api/scheduler/jobs?status=completed&limit=1").send().await.expect_status(200).json();
    if list["count"] == jobs { Ok(()) } else { Err(format!("completed {} of {jobs} jobs", list["count"])) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: leases must end; make chaos-replicas runs it on PostgreSQL"]
async fn kills_lose_no_delivery_and_no_slot() {
    let (events, jobs, kills) = (number(EVENTS, 600), number(JOBS, 60), number(KILLS, 3));
    let script = Script::always(Reply::text(["All ", "is ", "well."], TEST_USAGE).delayed(Duration::from_millis(120)));
    let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a fake vendor");
    // One receiver per hook, so that each receives at most a quarter of the concurrent deliveries.
    let mut receivers = Vec::new();
    for _ in 0..HOOKS {
        receivers.push(Receiver::start().await);
    }
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
    let mut hooks = Vec::new();
    for (at, receiver) in receivers.iter().enumerate() {
        hooks.push(create_hook(&processes[at % processes.len()], &receiver.url()).await);
    }
    let expected = fill(&processes, &hooks, events).await;
    assert_eq!(expected.len(), events);
    // Slow enough that deliveries are in progress at every kill.
    let lasts = times(kills, KILL_INTERVAL);
    let places = f64::from(u32::try_from(processes.len() * MAX_CONCURRENT_DELIVERIES).expect("few"));
    let pause = lasts.mul_f64(places / f64::from(u32::try_from(events).expect("few")));
    for receiver in &receivers {
        receiver.always(Answer::Late(pause.min(Duration::from_secs(5))));
    }
    // Creating the jobs takes some time.
    let begins = Clock::system().now() + Duration::from_secs(5) + times(jobs, Duration::from_millis(30));
    let job_ids = create_jobs(&processes[1], jobs, begins, lasts).await;
    let overdue = Overdue::open(&processes[0]).await;
    let (stop_watching, until) = tokio::sync::oneshot::channel();
    let overdue = tokio::spawn(overdue.watch(until));
    tokio::time::sleep(begins.since(Clock::system().now())).await;
    for hook in &hooks {
        let path = format!("/api/hooks/{hook}");
        processes[2].put(&path).json(&json!({"enabled": true})).send().await.expect_status(200);
    }
    let mut next = Instant::now() + KILL_INTERVAL / 2;
    for kill in 0..kills {
        tokio::time::sleep_until(next).await;
        next += KILL_INTERVAL;
        let victim = &mut processes[kill % 3];
        victim.kill();
        victim.spawn().await;
    }
    let (last_kill, mut left) = (Instant::now(), String::new());
    while let Err(what) = check_completed(&processes[1], jobs).await {
        left = what;
        assert!(last_kill.elapsed() < COMPLETION_TIMEOUT, "work remains: {left}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(left);
    drop(stop_watching);
    let longest = overdue.await.expect("measure the takeover time");

    let arrived = arrivals(&receivers);
    let missing: Vec<&String> = expected.iter().filter(|id| !arrived.contains_key(*id)).collect();
    assert!(missing.is_empty(), "{} of {events} events are missing: {missing:?}", missing.len());
    assert_eq!(arrived.len(), events, "nothing else arrived");
    let repeated: usize = arrived.values().map(|times| times - 1).sum();
    let request_count = vendor.requests().iter().filter(|request| !request.body.is_null()).count();
    println!(
        "{kills} kills: {events} events, {repeated} repeated; {jobs} slots, {request_count} turns; \
         {longest:?} from the end of a lease to its takeover at most"
    );
    assert!(repeated <= kills * MAX_INITIAL_DELIVERIES, "{repeated} repeated after {kills} kills");
    assert!(longest <= TAKEOVER_TIMEOUT, "takeover took {longest:?}");
    for id in &job_ids {
        let path = format!("/api/scheduler/jobs/{id}/runs");
        let list: Value = processes[2].get(&path).send().await.expect_status(200).json();
        assert_eq!((&list["total"], &list["runs"][0]["status"]), (&json!(1), &json!("success")), "{list}");
    }
    assert!(
        (jobs..=jobs + kills * MAX_CONCURRENT_TURNS).contains(&request_count),
        "{request_count} turns for {jobs} slots"
    );
}
