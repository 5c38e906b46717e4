//! Three daemons over one PostgreSQL and one data directory, of which one after the other is killed: every event
//! arrives, every slot of a job runs once, and whatever a dead daemon held is taken over.

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
use crate::support::talk::COUNTED;

const EVENTS: &str = "AGENTD_TEST_REPLICA_EVENTS";
const JOBS: &str = "AGENTD_TEST_REPLICA_JOBS";
const KILLS: &str = "AGENTD_TEST_REPLICA_KILLS";
const BETWEEN_KILLS: Duration = Duration::from_secs(10);
const HOOKS: usize = 4;
/// Deliveries under way in one daemon to receivers that are slow.
const DELIVERIES_AT_ONCE: usize = 64;
/// And to those of which that is not known yet, which is found out after a moment.
const MOST_AT_ONCE: usize = 2 * DELIVERIES_AT_ONCE;
/// Turns of jobs that one daemon has at a provider.
const TURNS_AT_ONCE: usize = 8;
/// How long after the end of a lease what it held may still wait for somebody else.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);
/// After the last kill; leases of half a minute end meanwhile.
const COMES_TO_REST: Duration = Duration::from_secs(180);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn times(count: usize, duration: Duration) -> Duration {
    duration * u32::try_from(count).expect("few")
}

async fn make_hook(process: &TestProcess, url: &str) -> String {
    let hook = json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http", "enabled": false,
        "config": {"url": url, "queued": true, "retry_delay_s": 1},
    });
    let hook = process.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    hook["id"].as_str().expect("an id").to_owned()
}

/// Queues deliveries for hooks that hold them, a third at each daemon; answers the ids of their events.
async fn fill(processes: &[TestProcess], hooks: &[String], count: usize) -> BTreeSet<String> {
    let requests = futures_util::stream::iter(0..count).map(|at| async move {
        let path = format!("/api/hooks/{}/test-delivery", hooks[at % hooks.len()]);
        let process = &processes[at % processes.len()];
        let delivery = process.request(reqwest::Method::POST, &path).send().await.expect_status(202).json();
        delivery["event_id"].as_str().expect("an id").to_owned()
    });
    requests.buffer_unordered(16).collect().await
}

/// Jobs that are due once each, one after the other until `last`.
async fn make_jobs(process: &TestProcess, count: usize, first: Timestamp, within: Duration) -> Vec<String> {
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

/// Looks all the time at how long leases of deliveries and of runs are over without anybody taking over.
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

/// How often each event arrived.
fn arrivals(receivers: &[Receiver]) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for got in receivers.iter().flat_map(Receiver::received) {
        *times.entry(got.event()["id"].as_str().expect("an id").to_owned()).or_default() += 1;
    }
    times
}

async fn is_at_rest(process: &TestProcess, jobs: usize) -> Result<(), String> {
    let stats = process.get("/api/hooks/deliveries/queue-stats").send().await.expect_status(200).json();
    let stats = &stats["stats"];
    if ["pending", "processing", "failed"].iter().any(|state| stats[state] != 0) {
        return Err(format!("deliveries are left: {stats}"));
    }
    assert_eq!(stats["dead_letter"], 0, "{stats}");
    let list = process.get("/api/scheduler/jobs?status=completed&limit=1").send().await.expect_status(200).json();
    if list["count"] == jobs { Ok(()) } else { Err(format!("of {jobs} jobs these are completed: {}", list["count"])) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: leases must end; make chaos-replicas runs it on PostgreSQL"]
async fn kills_lose_no_delivery_and_no_slot() {
    let (events, jobs, kills) = (number(EVENTS, 600), number(JOBS, 60), number(KILLS, 3));
    let script = Script::always(Reply::text(["All ", "is ", "well."], COUNTED).delayed(Duration::from_millis(120)));
    let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a fake vendor");
    // One for each hook: of the deliveries under way one receiver gets a quarter at most.
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
    processes[0].make_agent("scout").await;
    let mut hooks = Vec::new();
    for (at, receiver) in receivers.iter().enumerate() {
        hooks.push(make_hook(&processes[at % processes.len()], &receiver.url()).await);
    }
    let told = fill(&processes, &hooks, events).await;
    assert_eq!(told.len(), events);
    // As slow as it takes for something to be under way at every kill.
    let lasts = times(kills, BETWEEN_KILLS);
    let places = f64::from(u32::try_from(processes.len() * DELIVERIES_AT_ONCE).expect("few"));
    let pause = lasts.mul_f64(places / f64::from(u32::try_from(events).expect("few")));
    for receiver in &receivers {
        receiver.always(Answer::Late(pause.min(Duration::from_secs(5))));
    }
    // It takes some time to make them.
    let begins = Clock::system().now() + Duration::from_secs(5) + times(jobs, Duration::from_millis(30));
    let job_ids = make_jobs(&processes[1], jobs, begins, lasts).await;
    let overdue = Overdue::open(&processes[0]).await;
    let (stop_watching, until) = tokio::sync::oneshot::channel();
    let overdue = tokio::spawn(overdue.watch(until));
    tokio::time::sleep(begins.since(Clock::system().now())).await;
    for hook in &hooks {
        let path = format!("/api/hooks/{hook}");
        processes[2].put(&path).json(&json!({"enabled": true})).send().await.expect_status(200);
    }
    let mut next = Instant::now() + BETWEEN_KILLS / 2;
    for kill in 0..kills {
        tokio::time::sleep_until(next).await;
        next += BETWEEN_KILLS;
        let victim = &mut processes[kill % 3];
        victim.kill();
        victim.spawn().await;
    }
    let (last_kill, mut left) = (Instant::now(), String::new());
    while let Err(what) = is_at_rest(&processes[1], jobs).await {
        left = what;
        assert!(last_kill.elapsed() < COMES_TO_REST, "it does not come to rest: {left}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(left);
    drop(stop_watching);
    let longest = overdue.await.expect("watched");

    let arrived = arrivals(&receivers);
    let missing: Vec<&String> = told.iter().filter(|id| !arrived.contains_key(*id)).collect();
    assert!(missing.is_empty(), "{} of {events} events never arrived: {missing:?}", missing.len());
    assert_eq!(arrived.len(), events, "nothing else arrived");
    let doubled: usize = arrived.values().map(|times| times - 1).sum();
    let asked = vendor.requests().iter().filter(|request| !request.body.is_null()).count();
    println!(
        "{kills} kills: {events} events, {doubled} came again; {jobs} slots, {asked} turns; \
         {longest:?} from the end of a lease to its takeover at most"
    );
    assert!(doubled <= kills * MOST_AT_ONCE, "{doubled} came again after {kills} kills");
    assert!(longest <= TAKEN_OVER_WITHIN, "a lease was over for {longest:?} before somebody took over");
    for id in &job_ids {
        let path = format!("/api/scheduler/jobs/{id}/runs");
        let list: Value = processes[2].get(&path).send().await.expect_status(200).json();
        assert_eq!((&list["total"], &list["runs"][0]["status"]), (&json!(1), &json!("success")), "{list}");
    }
    assert!((jobs..=jobs + kills * TURNS_AT_ONCE).contains(&asked), "{asked} turns for {jobs} slots");
}
