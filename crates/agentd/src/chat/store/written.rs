//! How much was written when.

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, args};

/// Messages of owners by interval; an index holds just those.
pub(in crate::chat) async fn count_written(
    read: &mut Read,
    since: Timestamp,
    interval_micros: i64,
) -> Result<Vec<(Timestamp, u64)>, StoreError> {
    let sql = "SELECT created_at / $2 AS place, COUNT(*) AS messages FROM messages \
        WHERE role = 'user' AND created_at >= $1 GROUP BY place ORDER BY place";
    let rows = read.fetch_all(sql, args![since, interval_micros]).await?;
    rows.iter()
        .map(|row| {
            let place: i64 = row.get("place")?;
            Ok((Timestamp::from_micros(place * interval_micros), row.get("messages")?))
        })
        .collect()
}
