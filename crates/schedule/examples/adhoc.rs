#![allow(clippy::print_stdout, clippy::unwrap_used)]
use agentd_base::Timestamp;
use agentd_schedule::*;
fn main() {
    let zone = Zone::parse("Europe/Berlin").unwrap();
    let now = Timestamp::parse("2026-03-10T10:00:00+01:00").unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match parse_natural(&line, now, &zone, "en") {
            Some(p) => println!("{:70} {:.2} {}", line, p.confidence, match &p.schedule { Schedule::Cron(c) => format!("cron {}", c.expression().as_str()), Schedule::Every(e) => format!("every {}", e.interval_seconds()), Schedule::At(a) => format!("at {}", zone.wall(a.instant())) }),
            None => println!("{line:70} ----"),
        }
    }
}
