//! Counters of recalls and their use, per episode.

use std::collections::HashMap;

use agentd_store::{Args, Read, StoreError, Tx, args};

use super::placeholders;

/// Counts a recall of each episode.
pub(crate) async fn count_access(tx: &mut Tx, ids: &[String]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let now = tx.clock().now();
    let mut args = Args::new();
    let now = args.push(now);
    let placeholders = placeholders(&mut args, ids.iter().map(String::as_str));
    let sql = format!(
        "UPDATE episodes SET access_count = access_count + 1, touched_at = ${now} WHERE number IN \
         (SELECT number FROM episodes WHERE id IN ({placeholders}) ORDER BY number)"
    );
    tx.execute(sql, args).await.map(|_| ())
}

/// Recall statistics of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Feedback {
    /// Number of evaluated answers.
    pub evaluated: u64,
    /// Number of answers that used it.
    pub used: u64,
}

pub(crate) async fn count_feedback(tx: &mut Tx, number: i64, is_used: bool) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE episodes SET judged_count = judged_count + 1, used_count = used_count + $2 WHERE number = $1",
        args![number, is_used],
    )
    .await
    .map(|_| ())
}

pub(crate) async fn list_feedback(read: &mut Read, numbers: &[i64]) -> Result<HashMap<i64, Feedback>, StoreError> {
    if numbers.is_empty() {
        return Ok(HashMap::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, numbers.iter().copied());
    let sql = format!(
        "SELECT number, judged_count, used_count FROM episodes WHERE judged_count > 0 AND number IN ({placeholders})"
    );
    let rows = read.fetch_all(sql, args).await?;
    rows.iter()
        .map(|row| {
            let feedback = Feedback { evaluated: row.get("judged_count")?, used: row.get("used_count")? };
            Ok((row.get("number")?, feedback))
        })
        .collect()
}
