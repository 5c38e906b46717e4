//! Consistency check of memory: compares the search index, counts, graph and vectors with the stored episodes.

use agentd_conversation::memory::{Disagreement, MemoryCheck};
use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;

use super::super::client::{LocalClient, accept, request};
use super::super::error::CliError;
use super::report::Report;
use crate::config::Config;

const CHECKS: [&str; 4] = ["memory index", "memory figures", "memory graph", "memory vectors"];

/// Runs the check in the running daemon, or in an offline daemon. It processes all episodes.
pub(super) async fn check(config: &Config, report: &mut Report) {
    if !report.is_database_usable {
        let remedy = "fix the problems above, start `agentd` once, and run the check again";
        report.warning("memory", "not checked: no usable database", remedy);
        return;
    }
    match request_check(config).await {
        Ok(found) => report_on(config, &found, report),
        Err(error) => report.broken("memory", error.to_string(), "check the daemon's log, and run the check again"),
    }
}

async fn request_check(config: &Config) -> Result<MemoryCheck, CliError> {
    let client = LocalClient::connect(config).await?;
    let asking = async {
        let answer = accept(client.send(request(Method::POST, "/local/memory/check", Body::empty())?, None).await?);
        let body = answer.await?.into_body().collect().await.map_err(CliError::broken)?.to_bytes();
        serde_json::from_slice(&body).map_err(|source| CliError::Unreadable { source })
    };
    let outcome = asking.await;
    client.close().await;
    outcome
}

fn report_on(config: &Config, found: &MemoryCheck, report: &mut Report) {
    if let Some(reason) = &found.rebuilt {
        let finding = format!("{reason}; the index was rebuilt");
        report.warning(CHECKS[0], finding, "no action needed; if this happens again, check the disk");
    }
    let index = config.data_dir.join("index");
    let remedies = [
        format!("stop the daemon, remove {} and start it: the index is rebuilt from the episodes", index.display()),
        "restore an earlier backup with `agentd restore FILE`, and report this as a bug".to_owned(),
        "restore an earlier backup with `agentd restore FILE`, and report this as a bug".to_owned(),
        "restore an earlier backup with `agentd restore FILE`, and report this as a bug".to_owned(),
    ];
    let agreements = [
        format!("contains exactly the {} episodes and {} vectors", found.episodes, found.vectors),
        format!("{} counts match a recount", found.figures),
        "mentions and relations match the episodes".to_owned(),
        "every vector belongs to an episode".to_owned(),
    ];
    let mut is_good = [true; CHECKS.len()];
    for disagreement in &found.disagreements {
        let (of, what) = match disagreement {
            Disagreement::Index(what) => (0, what),
            Disagreement::Figures(what) => (1, what),
            Disagreement::Graph(what) => (2, what),
            Disagreement::Vectors(what) => (3, what),
        };
        is_good[of] = false;
        report.broken(CHECKS[of], what, &remedies[of]);
    }
    for ((check, agreement), is_good) in CHECKS.into_iter().zip(agreements).zip(is_good) {
        if is_good {
            report.good(check, agreement);
        }
    }
}
