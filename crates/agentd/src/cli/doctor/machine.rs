//! The machine: its clock, its processor, its model.

use std::path::Path;

use agentd_base::{Clock, Timestamp};

use super::report::Report;
use crate::config::Config;
use crate::lifecycle::{ClockAgreement, compare_clocks};

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

/// Of a server that cannot be asked the check of the database speaks.
pub(super) async fn check_clock_agreement(config: &Config, report: &mut Report) {
    const CHECK: &str = "database clock";
    let remedy = "set both clocks by NTP, for instance with `timedatectl set-ntp true`";
    match compare_clocks(config, &Clock::system()).await {
        Ok(ClockAgreement::Alone) | Err(_) => {}
        Ok(ClockAgreement::Good(difference)) => report.good(CHECK, difference),
        Ok(ClockAgreement::Warning(difference)) => report.warning(CHECK, difference, remedy),
        Ok(ClockAgreement::Unusable(difference)) => {
            report.broken(CHECK, format!("{difference}, so no daemon starts"), remedy);
        }
    }
}

pub(super) fn check_model(config: &Config, report: &mut Report) {
    const CHECK: &str = "local model";
    if !agentd_inference::BUILT_IN {
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
    // Where the daemon looks: its own folder, then where `make models` puts them.
    let folder = config.data_dir.join("models");
    let mut names: Vec<String> = [folder.as_path(), Path::new("models")]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) && path.is_file())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort_unstable();
    names.dedup();
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
