//! Prints a table of techniques by which a page may try to reach this machine, its networks and metadata services: how
//! each was blocked, and what arrived. Exits with 1 if anything arrived.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::process::ExitCode;

use agentd_browser::BrowserOptions;
use agentd_browser_bench::Outcome;
use agentd_browser_bench::reach::tries;

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let tried = tries(BrowserOptions::default(), 1).await?;
    println!("{:<36} {:<9} how it was kept back", "tried", "arrived");
    for one in &tried {
        let why = one.refused.as_deref().unwrap_or("Chromium sends nothing");
        println!(
            "{:<36} {:<9} {}",
            one.name,
            one.arrived.as_deref().unwrap_or("no"),
            why.lines().next().unwrap_or_default()
        );
    }
    let arrived = tried.iter().filter(|one| one.arrived.is_some()).count();
    println!("\n{} ways and addresses: {arrived} arrived", tried.len());
    Ok(if arrived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
