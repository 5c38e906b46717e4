//! Whether what was remembered can be found: the search index and the figures against the rows.

use agentd_conversation::memory::{Disagreement, MemoryCheck};
use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;

use super::super::client::{LocalClient, accept, request};
use super::super::error::CliError;
use super::report::Report;
use crate::config::Config;

const CHECKS: [&str; 4] = ["memory index", "memory figures", "memory graph", "memory vectors"];

/// Asks the daemon, or composes one that listens nowhere; both go over every episode.
pub(super) async fn check(config: &Config, report: &mut Report) {
    if !report.is_database_usable {
        let remedy = "start `agentd` once and ask again; mend first what is broken above";
        report.warning("memory", "not looked at: there is no database that this program can use as it is", remedy);
        return;
    }
    match ask(config).await {
        Ok(found) => report_on(config, &found, report),
        Err(error) => report.broken("memory", error.to_string(), "look at the daemon's log, and ask again"),
    }
}

async fn ask(config: &Config) -> Result<MemoryCheck, CliError> {
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
        let finding = format!("{reason}; it was built anew");
        report.warning(CHECKS[0], finding, "nothing to do; if this comes again, look at the disk");
    }
    let index = config.data_dir.join("index");
    let remedies = [
        format!("stop the daemon, remove {} and start it: the index is built anew from the episodes", index.display()),
        "restore a backup from before with `agentd restore FILE`, and report this: it must not happen".to_owned(),
        "restore a backup from before with `agentd restore FILE`, and report this: it must not happen".to_owned(),
        "restore a backup from before with `agentd restore FILE`, and report this: it must not happen".to_owned(),
    ];
    let agreements = [
        format!("all {} episodes and {} vectors are there, and nothing else", found.episodes, found.vectors),
        format!("{} figures agree with a recount", found.figures),
        "mentions and relations agree with the episodes".to_owned(),
        "every vector has its episode".to_owned(),
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
