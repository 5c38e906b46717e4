//! Prints the schedules parsed from phrases: one phrase per line on standard input, read at the time and in the zone of
//! `tests/data/phrases.tsv`. Only the last column of lines with tabs is used.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for the terminal")]

use std::io::BufRead;

use agentd_base::Timestamp;
use agentd_schedule::{Schedule, Zone, parse_natural};

fn main() {
    let zone = Zone::parse("Europe/Berlin").expect("the zone is in the database");
    let now = Timestamp::parse("2026-03-10T10:00:00+01:00").expect("a timestamp");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let text = line.rsplit('\t').next().unwrap_or_default();
        let Some(parsed) = parse_natural(text, now, &zone, "en") else {
            println!("none\t\t{text}");
            continue;
        };
        let own = |zone_named: &Zone| if *zone_named == zone { String::new() } else { format!(" {zone_named}") };
        let schedule = match &parsed.schedule {
            Schedule::Cron(cron) => format!("cron {}{}", cron.expression().as_str(), own(cron.zone())),
            Schedule::Every(every) => format!("every {}", every.interval_seconds()),
            Schedule::At(at) => format!("at {}", zone.wall(at.instant()).strftime("%Y-%m-%dT%H:%M")),
        };
        println!("{schedule}\t{}\t{text}", parsed.confidence);
    }
}
