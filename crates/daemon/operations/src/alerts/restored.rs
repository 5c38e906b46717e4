//! Validation of alerts from a restored backup.

use agentd_base::Problems;
use agentd_core::runtime::ValidateRestored;
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::model::{Alert, AlertChange, MAX_ALERTS};
use super::store;

/// Validates restored alerts with the same rules as saving.
#[derive(Debug)]
pub struct ValidateAlerts;

impl ValidateRestored for ValidateAlerts {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(tx).boxed_local()
    }
}

async fn find_fault(read: &mut Read) -> Result<Option<String>, StoreError> {
    if store::count_alerts(read).await? > MAX_ALERTS {
        return Ok(Some(format!("it contains more than {MAX_ALERTS} alerts")));
    }
    Ok(store::list_alerts(read).await?.iter().find_map(describe_fault))
}

fn describe_fault(alert: &Alert) -> Option<String> {
    let mut problems = Problems::new();
    alert.clone().apply(AlertChange::default(), false, &mut problems);
    let lifecycle = &alert.lifecycle;
    let is_whole = lifecycle.state.is_open() == lifecycle.firing_id.is_some()
        && lifecycle.state.is_open() == lifecycle.firing_since.is_some();
    problems.require(is_whole, "state", "does not match the start of the firing");
    let found = problems.into_result().err()?;
    let messages: Vec<String> = found.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
    let display_name = alert.name.chars().take(80).collect::<String>().escape_debug().to_string();
    Some(format!("the alert `{display_name}` is not valid: {}", messages.join("; ")))
}
