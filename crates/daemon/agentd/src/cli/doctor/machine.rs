//! Checks of the machine: clock, models, browser.

use std::path::PathBuf;

use agentd_base::{Clock, Timestamp};
use agentd_engine::providers::no_tools_message;
use agentd_inference::embedder::DIMENSIONS;
use agentd_inference::{read_model_facts, supports_tools};

use super::report::Report;
use crate::config::Config;
use crate::lifecycle::{ClockAgreement, compare_clocks};

/// Earliest plausible time; an earlier clock is wrong.
const EARLIEST_PLAUSIBLE_TIME: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

pub(super) fn check_clock(report: &mut Report) {
    let now = Clock::system().now();
    let remedy = "set the clock, for instance with `timedatectl set-ntp true`: sessions and schedules depend on it";
    match report.not_before {
        Some(at) if now < at => {
            report.broken("clock", format!("the time is {now}, but the database was changed at {at}"), remedy);
        }
        _ if now < EARLIEST_PLAUSIBLE_TIME => {
            report.broken("clock", format!("the time is {now}, before this version was released"), remedy)
        }
        _ => report.good("clock", now.to_string()),
    }
}

/// Compares the clocks. If the server cannot be queried, the database check reports it.
pub(super) async fn check_clock_agreement(config: &Config, report: &mut Report) {
    const CHECK: &str = "database clock";
    let remedy = "set both clocks by NTP, for instance with `timedatectl set-ntp true`";
    match compare_clocks(config, &Clock::system()).await {
        Ok(ClockAgreement::Alone) | Err(_) => {}
        Ok(ClockAgreement::Good(difference)) => report.good(CHECK, difference),
        Ok(ClockAgreement::Warning(difference)) => report.warning(CHECK, difference, remedy),
        Ok(ClockAgreement::Unusable(difference)) => {
            report.broken(CHECK, format!("{difference}, so the daemon cannot start"), remedy);
        }
    }
}

pub(super) fn check_model(config: &Config, report: &mut Report) {
    const CHECK: &str = "local model";
    if !agentd_inference::BUILT_IN {
        report.warning(
            CHECK,
            "this program was built without the local model",
            "build with the feature `local-model`, or set a provider key: PUT /api/providers/{id}/key",
        );
        return;
    }
    if let Some(missing) = agentd_inference::worker::missing_cpu_features() {
        report.warning(CHECK, missing, "set a provider key: PUT /api/providers/{id}/key");
        return;
    }
    let directories = config.model_dirs();
    let mut models: Vec<PathBuf> = directories
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) && path.is_file()
        })
        .filter(|path| !read_model_facts(path).is_ok_and(|facts| facts.is_encoder()))
        .collect();
    models.sort_unstable_by(|one, other| one.file_name().cmp(&other.file_name()));
    models.dedup_by(|one, other| one.file_name() == other.file_name());
    if models.is_empty() {
        report.warning(
            CHECK,
            format!("no model in {}", config.data_dir.join("models").display()),
            "add a GGUF file there, set SVC_MODELS_DIR to a directory with models, or set a provider key",
        );
    } else {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        report.good(CHECK, models.iter().map(name).collect::<Vec<_>>().join(", "));
        for model in models.iter().filter(|model| !supports_tools(model)) {
            report.good(CHECK, format!("tools: false. {}", no_tools_message(&name(model))));
        }
    }
}

/// Checks the header of the file. Damage of the rest is detected at first use.
pub(super) fn check_embedding_model(config: &Config, report: &mut Report) {
    const CHECK: &str = "embedding model";
    const WITHOUT: &str = "memory search uses keywords only";
    if !agentd_inference::BUILT_IN {
        let remedy = "build with the feature `local-model`";
        report.warning(CHECK, format!("this program was built without local models: {WITHOUT}"), remedy);
        return;
    }
    if agentd_inference::worker::missing_cpu_features().is_some() {
        let remedy = "run the daemon on a newer CPU, or build without the feature `local-model`";
        report.warning(CHECK, format!("the CPU does not support local models: {WITHOUT}"), remedy);
        return;
    }
    let paths = config.embedding_model_paths();
    let Some(path) = paths.iter().find(|path| path.exists()) else {
        let wanted = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        let remedy = "download it with `make models`, or set `embedding_model` (SVC_EMBEDDING_MODEL) to another file";
        report.warning(CHECK, format!("{wanted} does not exist: {WITHOUT}"), remedy);
        return;
    };
    let problem = match read_model_facts(path) {
        Err(error) => format!("cannot be used: {error}"),
        Ok(facts) if !facts.is_encoder() => {
            format!("contains a `{}` model, which is not a sentence encoder", facts.architecture)
        }
        Ok(facts) if facts.embedding_length.is_some_and(|length| usize::try_from(length) != Ok(DIMENSIONS)) => {
            format!("does not produce vectors with {DIMENSIONS} dimensions")
        }
        Ok(_) => return report.good(CHECK, path.display().to_string()),
    };
    let remedy = "delete it and run `make models`, or set `embedding_model` (SVC_EMBEDDING_MODEL) to another file";
    report.broken(CHECK, format!("{} {problem}", path.display()), remedy);
}

/// Checks that Chromium is installed. Whether it starts is detected at first use.
pub(super) fn check_browser(config: &Config, report: &mut Report) {
    const CHECK: &str = "browser";
    match agentd_browser::find_chromium(config.browser_path.as_deref()) {
        Ok(program) => report.good(CHECK, program.display().to_string()),
        Err(error) => {
            let remedy =
                "run `apt-get install chromium` on Debian, or set `browser_path` (SVC_BROWSER_PATH) to the executable";
            report.warning(CHECK, format!("{error}; agents cannot use a browser"), remedy);
        }
    }
}
