//! Latency of 100 signed messages per second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::Clock;
use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use agentd_bench::load::Connection;
use agentd_testing_chat_platforms::{FakeMessage, FakePlatform};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::children::Child;
use crate::{Daemon, bytes};

const MESSAGES_PER_SECOND: u32 = 100;
const SECONDS: u32 = 20;
/// Number of chats; a sender may write sixty messages per minute.
const CHATS: u32 = 60;
/// Target latency, in milliseconds.
const TARGET_MS: f64 = 50.0;

pub(crate) async fn measure(daemon: &Daemon, platforms: &[FakePlatform], name: &str) -> Outcome<()> {
    let bare = Child::start(&["bare"], 1)?;
    let bare_address = bare.lines.first().ok_or("no address")?;
    let (mut requests, mut to_bare) = (Vec::new(), Vec::new());
    for (number, fake) in (0..MESSAGES_PER_SECOND * SECONDS).zip(platforms.iter().cycle()) {
        let message = FakeMessage { chat: 1 + number / 6 % CHATS, number, text: "How are things?" };
        let mut request = fake.message(&message, Clock::system().now());
        requests.push(bytes(fake.platform(), &request));
        request.headers.insert("x-take", axum::http::HeaderValue::from_static("1"));
        to_bare.push(bytes(fake.platform(), &request));
    }
    let sent_before: usize = platforms.iter().map(|fake| fake.sent().len()).sum();
    let reference = answered(bare_address, to_bare).await?;
    let answers = answered(&daemon.daemon.address, requests).await?;
    let sent: usize = platforms.iter().map(|fake| fake.sent().len()).sum();
    println!("{} signed messages/s over six platforms for {SECONDS} s, models {name}:", MESSAGES_PER_SECOND);
    print("answered by the daemon", &answers);
    print("answered by a bare server", &reference);
    let holds = if answers.percentile(0.99) <= TARGET_MS { "holds" } else { "MISSED" };
    println!("  at most {TARGET_MS} ms in 99 of 100: {holds}; {} replies by the end", sent - sent_before);
    Ok(())
}

fn print(name: &str, answers: &Sample) {
    let (p50, p99, max) = (answers.median(), answers.percentile(0.99), answers.percentile(1.0));
    println!("  {name:<26} p50 {p50:>6.2}  p99 {p99:>6.2}  max {max:>6.2} ms");
}

/// Returns the latency of each request in milliseconds, measured from its due time.
async fn answered(address: &str, requests: Vec<Vec<u8>>) -> Outcome<Sample> {
    let open = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now() + Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for (number, request) in (0u32..).zip(requests) {
        let due = began + Duration::from_secs(1) * number / MESSAGES_PER_SECOND;
        tokio::time::sleep_until(due.into()).await;
        let (open, address) = (Arc::clone(&open), address.to_owned());
        tasks.spawn(async move {
            let kept = open.lock().await.pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection::open(&address).await?,
            };
            let (status, body) = connection.ask(&request).await?;
            let took = due.elapsed().as_secs_f64() * 1e3;
            if status != 200 {
                return Err(format!("a signed message was answered {status}: {body}").into());
            }
            open.lock().await.push(connection);
            Outcome::Ok(took)
        });
    }
    let took = tasks.join_all().await.into_iter().collect::<Outcome<Vec<f64>>>()?;
    Ok(Sample::new(took))
}
