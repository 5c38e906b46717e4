//! Measures the rate of small transactions: `cargo run --release -p agentd-store --example write_rates [folder |
//! postgres://…] [seconds]`.
//!
//! Each closure inserts one row of about 100 bytes. Choose a folder on the disk to be measured.

#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_store::{DatabaseUrl, Db, DbOptions, OWN_MIGRATIONS, StoreError, Tx, args};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().unwrap_or_else(|| "target/write_rates".to_owned());
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let is_postgres = place.starts_with("postgres");
    let data_dir = PathBuf::from(if is_postgres { "target/write_rates" } else { &place });
    let url = DatabaseUrl::parse(is_postgres.then(|| Secret::new(place.clone())).as_ref(), &data_dir)?;
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let ids = IdGenerator::new(clock.clone(), entropy.clone());
    let started = Instant::now();
    let db = Db::open(DbOptions { url, data_dir, clock, ids, entropy, migrations: OWN_MIGRATIONS }).await?;
    println!("opened in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    db.write(async |tx: &mut Tx| {
        tx.execute("DROP TABLE IF EXISTS rate_rows", args![]).await?;
        tx.execute("CREATE TABLE rate_rows (id TEXT PRIMARY KEY NOT NULL, note TEXT NOT NULL)", args![]).await?;
        Ok::<_, StoreError>(())
    })
    .await?;
    for (name, is_full) in [("full", true), ("relaxed", false)] {
        for writers in [1, 32, 128] {
            let rate = rate(&db, writers, is_full, Duration::from_secs(seconds)).await?;
            println!("{name:8} {writers:4} writers  {rate:9.0} transactions/s");
        }
    }
    let mut reads = 0u32;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        db.read().await?.fetch_optional("SELECT note FROM rate_rows WHERE id = $1", args!["none"]).await?;
        reads += 1;
    }
    println!("point reads, one at a time  {:9.0} /s", f64::from(reads) / started.elapsed().as_secs_f64());
    db.write(async |tx: &mut Tx| tx.execute("DROP TABLE rate_rows", args![]).await).await?;
    db.close().await;
    Ok(())
}

async fn rate(db: &Db, writers: usize, is_full: bool, time: Duration) -> Result<f64, StoreError> {
    let mut tasks = tokio::task::JoinSet::new();
    let started = Instant::now();
    for _ in 0..writers {
        let db = db.clone();
        tasks.spawn(async move {
            let mut written = 0u32;
            while started.elapsed() < time {
                let id = db.ids().next_ulid();
                let work = async move |tx: &mut Tx| {
                    tx.execute("INSERT INTO rate_rows (id, note) VALUES ($1, $2)", args![&id, NOTE]).await
                };
                if is_full {
                    db.write(work).await?
                } else {
                    db.write_relaxed(work).await?
                };
                written += 1;
            }
            Ok::<_, StoreError>(written)
        });
    }
    let mut total = 0u32;
    while let Some(joined) = tasks.join_next().await {
        total += joined.unwrap_or(Ok(0))?;
    }
    Ok(f64::from(total) / started.elapsed().as_secs_f64())
}

const NOTE: &str = "a note of about as many bytes as a small row of this daemon carries around";
