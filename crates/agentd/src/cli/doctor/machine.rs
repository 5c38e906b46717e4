//! The machine: its clock, its processor, its model.

use agentd_base::{Clock, Timestamp};

use super::report::Report;
use crate::config::Config;

/// The clock of a machine that was built before this program cannot be right.
const OLDEST: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

pub(super) fn check_clock(report: &mut Report) {
    let now = Clock::system().now();
    let remedy = "set the clock, for instance with `timedatectl set-ntp true`: sessions and schedules depend on it";
    match report.not_before {
        Some(at) if now < at => {
            report.broken("clock", format!("it says {now}, but the database was changed at {at}"), remedy);
        }
        _ if now < OLDEST => report.broken("clock", format!("it says {now}, before this program was made"), remedy),
        _ => report.good("clock", now.to_string()),
    }
}

pub(super) fn check_model(config: &Config, report: &mut Report) {
    const CHECK: &str = "local model";
    if !cfg!(feature = "local-model") {
        report.warning(
            CHECK,
            "this program was built without the model inside",
            "build it with the feature `local-model`, or set the key of a provider: PUT /api/providers/{id}/key",
        );
        return;
    }
    if let Some(missing) = agentd_inference::worker::missing_cpu_features() {
        report.warning(CHECK, missing, "set the key of a provider: PUT /api/providers/{id}/key");
        return;
    }
    let folder = config.data_dir.join("models");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().metadata().is_ok_and(|found| found.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".gguf"))
        .collect();
    names.sort_unstable();
    if names.is_empty() {
        report.warning(
            CHECK,
            format!("there is no model in {}", folder.display()),
            "`make models` fetches one; or put any GGUF file there, or set the key of a provider",
        );
    } else {
        report.good(CHECK, names.join(", "));
    }
}
