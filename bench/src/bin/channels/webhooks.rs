//! 100 signed messages a second.

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

const A_SECOND: u32 = 100;
const SECONDS: u32 = 20;
/// A sender may write sixty messages a minute.
const CHATS: u32 = 60;
/// We want.
const MOST_MS: f64 = 50.0;

pub(crate) async fn measure(daemon: &Daemon, platforms: &[FakePlatform], name: &str) -> Outcome<()> {
    let bare = Child::start(&["bare"], 1)?;
    let bare_address = bare.lines.first().ok_or("no address")?;
    let (mut requests, mut to_bare) = (Vec::new(), Vec::new());
    for (number, fake) in (0..A_SECOND * SECONDS).zip(platforms.iter().cycle()) {
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
    println!("{} signed messages/s over six platforms for {SECONDS} s, models {name}:", A_SECOND);
    print("answered by the daemon", &answers);
    print("answered by a bare server", &reference);
    let holds = if answers.percentile(0.99) <= MOST_MS { "holds" } else { "MISSED" };
    println!("  at most {MOST_MS} ms in 99 of 100: {holds}; {} replies by the end", sent - sent_before);
    Ok(())
}

fn print(name: &str, answers: &Sample) {
    let (p50, p99, max) = (answers.median(), answers.percentile(0.99), answers.percentile(1.0));
    println!("  {name:<26} p50 {p50:>6.2}  p99 {p99:>6.2}  max {max:>6.2} ms");
}

/// How long each took, in milliseconds, from when it was due.
async fn answered(address: &str, requests: Vec<Vec<u8>>) -> Outcome<Sample> {
    let open = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now() + Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for (number, request) in (0u32..).zip(requests) {
        let due = began + Duration::from_secs(1) * number / A_SECOND;
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
