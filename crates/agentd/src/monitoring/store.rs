//! What the figures read from the database.

use agentd_store::{Read, StoreError, args};

/// How many items wait, are worked on or were given up, by queue. Finished ones are not counted:
/// they are many and say nothing.
pub(super) async fn list_queue_depths(read: &mut Read) -> Result<Vec<(String, String, u64)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT queue, status, COUNT(*) AS items FROM queue WHERE status IN ('pending', 'leased') \
             GROUP BY queue, status \
             UNION ALL \
             SELECT queue, status, COUNT(*) AS items FROM queue WHERE status = 'dead_letter' GROUP BY queue, status",
            args![],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("queue")?, row.get("status")?, row.get("items")?))).collect()
}
