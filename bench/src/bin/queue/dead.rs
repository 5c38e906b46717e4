//! Effect of a tenth receiver on nine healthy ones: a healthy one, and an unavailable one.

use std::time::Duration;

use agentd::lifecycle::Running;
use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::sink::{Sink, rate};
use crate::{Api, EVENT, REPEATS, emit, latency};

const GOOD: usize = 9;
const EVENTS_TO_EACH: usize = 1_000;
const WAITING: usize = 100_000;
/// Event type that only the unavailable receiver subscribes to.
const UNAVAILABLE_EVENT: &str = "project.updated";
/// Longer than the timeout of an unanswered request.
const TIME_LIMIT: Duration = Duration::from_secs(11);

/// Starts a receiver that accepts connections and never responds.
async fn silent() -> Outcome<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/dead", listener.local_addr()?);
    let holds = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    Ok((url, holds))
}

/// Returns an address that refuses connections.
async fn refusing() -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(format!("http://{}/dead", listener.local_addr()?))
}

/// Returns the deliveries per second to nine receivers, next to the one at `tenth`.
async fn rate_of_nine(running: &Running, api: &Api, sink: &mut Sink, tenth: Option<&str>) -> Outcome<f64> {
    let mut hooks = Vec::new();
    if let Some(url) = tenth {
        hooks.push(api.make_hook(EVENT, url).await?);
    }
    for receiver in 0..GOOD {
        hooks.push(api.make_hook(EVENT, &sink.url(&format!("r{receiver}"))).await?);
    }
    let (emitted, arrivals) = tokio::join!(emit(running, EVENT, 0..EVENTS_TO_EACH), sink.take(EVENTS_TO_EACH * GOOD));
    emitted?;
    let rate = rate(&arrivals?);
    api.delete_hooks(hooks).await?;
    // Hanging deliveries have ended, so that the next round begins with all permits free.
    tokio::time::sleep(TIME_LIMIT).await;
    Ok(rate)
}

pub(crate) async fn dead_receivers(running: &Running, api: &Api, sink: &mut Sink) -> Outcome<()> {
    let ((silent, holds), refusing, well) = (silent().await?, refusing().await?, Sink::start().await?);
    let well = well.url("well");
    let (mut alone, mut beside_well, mut beside_silent, mut beside_refusing) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    for _ in 0..REPEATS {
        alone.push(rate_of_nine(running, api, sink, None).await?);
        beside_well.push(rate_of_nine(running, api, sink, Some(&well)).await?);
        beside_silent.push(rate_of_nine(running, api, sink, Some(&silent)).await?);
        beside_refusing.push(rate_of_nine(running, api, sink, Some(&refusing)).await?);
    }
    holds.abort();
    let (alone, well) = (Sample::new(alone), Sample::new(beside_well));
    let (hangs, refuses) = (Sample::new(beside_silent), Sample::new(beside_refusing));
    println!("nine receivers alone, a second:                      {alone}");
    println!("nine receivers beside a tenth that is well, a second: {well}");
    println!("nine receivers beside one that hangs, a second:      {hangs}");
    println!("nine receivers beside one that refuses, a second:    {refuses}");
    println!(
        "of what they get alone: well {:.2}, hangs {:.2}, refuses {:.2}",
        ratio(&well, &alone),
        ratio(&hangs, &alone),
        ratio(&refuses, &alone)
    );
    println!(
        "of what they get beside one that is well: hangs {:.2}, refuses {:.2}",
        ratio(&hangs, &well),
        ratio(&refuses, &well)
    );
    Ok(())
}

fn ratio(of: &Sample, to: &Sample) -> f64 {
    of.median() / to.median()
}

/// Measures the same with a large backlog for an unavailable receiver.
pub(crate) async fn backlog(running: &Running, api: &Api, sink: &mut Sink) -> Outcome<()> {
    let mut alone = Vec::new();
    for _ in 0..REPEATS {
        alone.push(rate_of_nine(running, api, sink, None).await?);
    }
    let dead = api.make_hook(UNAVAILABLE_EVENT, &refusing().await?).await?;
    let begun = std::time::Instant::now();
    emit(running, UNAVAILABLE_EVENT, 0..WAITING).await?;
    loop {
        let stats = api.call("GET", "/api/hooks/deliveries/queue-stats", Value::Null).await?;
        let waiting = ["pending", "processing", "failed"].iter().filter_map(|state| stats["stats"][*state].as_u64());
        if waiting.sum::<u64>() >= u64::try_from(WAITING)? {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{WAITING} events emitted, matched and queued in {:.1} s", begun.elapsed().as_secs_f64());
    let mut behind = Vec::new();
    for _ in 0..REPEATS {
        behind.push(rate_of_nine(running, api, sink, None).await?);
    }
    let (alone, behind) = (Sample::new(alone), Sample::new(behind));
    println!("nine receivers alone, a second:                      {alone}");
    println!("nine beside {WAITING} that wait for a dead one:       {behind}");
    println!("ratio of the medians: {:.2}", ratio(&behind, &alone));
    latency(running, api, sink, &format!(" beside {WAITING} that wait")).await?;
    api.delete_hooks(vec![dead]).await
}
