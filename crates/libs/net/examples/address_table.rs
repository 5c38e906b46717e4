//! Prints the table of addresses and bypass attempts with expected and actual verdicts. Exits with 1 if any of them
//! differ.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

#[path = "../tests/table/mod.rs"]
mod table;

use std::collections::BTreeSet;
use std::process::ExitCode;

use agentd_net::Trust;
use table::Verdict;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let outcomes = table::run(folder.path()).await?;
    println!("{:<52} {:<8} {:<9} {:<9} why", "tried", "for", "expected", "got");
    for row in table::rows::ROWS {
        for trust in [Trust::Untrusted, Trust::Owner] {
            let of_row: Vec<_> =
                outcomes.iter().filter(|found| std::ptr::eq(found.row, row) && found.trust == trust).collect();
            let expected = table::expected(row.kind, trust);
            let misses: BTreeSet<_> =
                of_row.iter().filter(|found| found.is_miss()).map(|found| found.through).collect();
            let got = of_row.iter().find(|found| found.is_miss()).map_or(expected, |found| found.got);
            let who = if trust == Trust::Untrusted { "agent" } else { "owner" };
            print!("{:<52} {who:<8} {expected:<9} {got:<9} {}", format!("{:?}", row.url), row.why);
            println!("{}", misses.iter().map(|through| format!("  MISS: {through}")).collect::<String>());
        }
    }
    let misses = outcomes.iter().filter(|outcome| outcome.is_miss()).count();
    let refused = outcomes.iter().filter(|outcome| outcome.expected == Verdict::Closed).count();
    println!(
        "\n{} addresses and tricks, {} tries through client and proxy ({refused} to be refused): {misses} missed",
        table::rows::ROWS.len(),
        outcomes.len(),
    );
    Ok(if misses == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
