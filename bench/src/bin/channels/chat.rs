//! Effect of a flood of invalid signatures on chat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use agentd_bench::load::{render, streamed_on};
use agentd_testing_chat_platforms::FakePlatform;
use tokio::task::JoinSet;

use crate::Daemon;
use crate::children::Child;
use crate::flood::{Flood, write_requests};

const ROUNDS: usize = 5;
const ROUND_DURATION: Duration = Duration::from_secs(4);
const REQUESTS_PER_SECOND: u64 = 10_000;
/// Time until the flood is running.
const WARM_UP: Duration = Duration::from_millis(300);
/// Users who pause between their turns.
const PACED: (usize, Duration) = (8, Duration::from_millis(100));
/// Maximum rate of turns.
const BUSY: (usize, Duration) = (32, Duration::ZERO);

/// Chat performance in one round.
struct Round {
    first_tokens_ms: Vec<f64>,
    turns_per_second: f64,
}

/// Results of one configuration over all rounds.
#[derive(Default)]
struct Rounds {
    first_tokens_ms: Vec<f64>,
    turns_per_second: Vec<f64>,
    refused_per_second: Vec<f64>,
}

pub(crate) async fn chat_during_flood(daemon: &Daemon, platforms: &[FakePlatform]) -> Outcome<()> {
    let bare = Child::start(&["bare"], 1)?;
    let bare_address = bare.lines.first().ok_or("no address")?.clone();
    let folder = tempfile::tempdir()?;
    write_requests(folder.path(), platforms)?;
    let names = ["alone", "a flood at a bare server", "a flood at the daemon"];
    for (how, load) in [("8 people who wait 0.1 s between turns", PACED), ("32 at once", BUSY)] {
        let mut rounds: [Rounds; 3] = Default::default();
        for _ in 0..ROUNDS {
            let targets = [None, Some(bare_address.as_str()), Some(daemon.daemon.address.as_str())];
            for (target, rounds) in targets.into_iter().zip(&mut rounds) {
                let round = measure_chat(daemon, load, target, folder.path(), rounds).await?;
                rounds.first_tokens_ms.extend(round.first_tokens_ms);
                rounds.turns_per_second.push(round.turns_per_second);
            }
        }
        println!("chat, {how}, beside bad signatures of all platforms, {REQUESTS_PER_SECOND} a second wanted:");
        for (name, rounds) in names.iter().zip(rounds) {
            let first = Sample::new(rounds.first_tokens_ms);
            let (p50, p99) = (first.median(), first.percentile(0.99));
            let turns = Sample::new(rounds.turns_per_second).median();
            let refused = Sample::new(rounds.refused_per_second).median();
            println!(
                "  {name:<26} first token p50 {p50:>6.2}  p99 {p99:>6.2} ms, {turns:>6.0} turns/s, {refused:>6.0} refused/s"
            );
        }
    }
    Ok(())
}

async fn measure_chat(
    daemon: &Daemon,
    load: (usize, Duration),
    target: Option<&str>,
    requests: &Path,
    rounds: &mut Rounds,
) -> Outcome<Round> {
    let Some(address) = target else { return chat(daemon, load).await };
    let count = REQUESTS_PER_SECOND * (ROUND_DURATION + WARM_UP).as_secs();
    let mut child = Flood::begin(address, requests, REQUESTS_PER_SECOND, count)?;
    tokio::time::sleep(WARM_UP).await;
    let round = chat(daemon, load).await?;
    let flood = tokio::task::spawn_blocking(move || Flood::end(&mut child)).await??;
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    rounds.refused_per_second.push(flood.refused as f64 / flood.seconds);
    Ok(round)
}

async fn chat(daemon: &Daemon, (at_once, pause): (usize, Duration)) -> Outcome<Round> {
    let body = serde_json::json!({"agent_id": "bench", "content": "hello"}).to_string();
    let request = render("POST", "/api/chat/messages/stream", &daemon.daemon.key, Some(&body), true);
    let request = Arc::new(request.into_bytes());
    let turns = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let (request, turns) = (Arc::clone(&request), Arc::clone(&turns));
        let mut stream = tokio::net::TcpStream::connect(&daemon.daemon.address).await?;
        stream.set_nodelay(true)?;
        tasks.spawn(async move {
            let mut first_tokens = Vec::new();
            while began.elapsed() < ROUND_DURATION {
                let reply = streamed_on(&mut stream, &request, "event: token", "event: done").await?;
                first_tokens.push(reply.first_token.as_secs_f64() * 1e3);
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pause).await;
            }
            Outcome::Ok(first_tokens)
        });
    }
    let first_tokens = tasks.join_all().await.into_iter().collect::<Outcome<Vec<_>>>()?;
    #[allow(clippy::cast_precision_loss, reason = "a count of turns")]
    let turns_per_second = turns.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    Ok(Round { first_tokens_ms: first_tokens.concat(), turns_per_second })
}
