//! Rows of deliveries, their requests, and the message ids of senders.

use agentd_base::Page;
use agentd_engine::agents::{AgentId, live_agent_condition};
use agentd_store::{Args, Read, Row, StoreError, Tx, args};

use crate::webhooks::model::{
    DEDUPLICATION_WINDOW, Delivery, DeliveryStatus, StoredRequest, WebhookDeliveryId, WebhookId,
};

/// Maximum length of an output in a list, in characters.
const MAX_LISTED_CHARACTERS: u32 = 2_000;

/// Returns the columns of a delivery. The output is hidden if its agent was deleted.
fn columns(output: &str) -> String {
    let live_agent_condition = live_agent_condition("webhook_deliveries.agent_id");
    format!(
        "id, webhook_id, message_id, replay_of, event_id, status, body_bytes, agent_id, session_id, \
         CASE WHEN {live_agent_condition} THEN {output} END AS output, error, created_at, started_at, completed_at"
    )
}

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: row.get("id")?,
        webhook_id: row.get("webhook_id")?,
        message_id: row.get("message_id")?,
        replay_of: row.get("replay_of")?,
        event_id: row.get("event_id")?,
        status: DeliveryStatus::from_stored(&row.get::<String>("status")?),
        body_bytes: row.get("body_bytes")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        output: row.get("output")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
    })
}

/// Registers a message as this delivery. If the same message was received within a day, returns that delivery instead.
/// `message` is the deduplication key within the webhook.
pub(crate) async fn claim_message(
    tx: &mut Tx,
    webhook: &WebhookId,
    message: &str,
    delivery: &WebhookDeliveryId,
) -> Result<Option<WebhookDeliveryId>, StoreError> {
    let now = tx.clock().now();
    let claimed = tx
        .execute(
            "INSERT INTO webhook_messages (webhook_id, message_id, delivery_id, received_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (webhook_id, message_id) DO UPDATE \
             SET delivery_id = excluded.delivery_id, received_at = excluded.received_at \
             WHERE webhook_messages.received_at <= $5",
            args![webhook, message, delivery, now, now - DEDUPLICATION_WINDOW],
        )
        .await?;
    if claimed == 1 {
        return Ok(None);
    }
    let row = tx
        .fetch_one(
            "SELECT delivery_id FROM webhook_messages WHERE webhook_id = $1 AND message_id = $2",
            args![webhook, message],
        )
        .await?;
    row.get("delivery_id").map(Some)
}

pub(crate) async fn insert_delivery(
    tx: &mut Tx,
    delivery: &Delivery,
    request: &StoredRequest,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO webhook_deliveries (id, webhook_id, message_id, replay_of, event_id, status, body_bytes, \
         created_at, completed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        args![
            &delivery.id,
            &delivery.webhook_id,
            delivery.message_id.as_deref(),
            delivery.replay_of.as_ref(),
            &delivery.event_id,
            delivery.status.as_str(),
            delivery.body_bytes,
            delivery.created_at,
            delivery.completed_at
        ],
    )
    .await?;
    tx.execute(
        "INSERT INTO webhook_requests (delivery_id, headers, body) VALUES ($1, $2, $3)",
        args![&delivery.id, serde_json::Value::Object(request.headers.clone()), request.body.as_slice()],
    )
    .await
    .map(|_| ())
}

pub(crate) async fn find_delivery(read: &mut Read, id: &WebhookDeliveryId) -> Result<Option<Delivery>, StoreError> {
    let sql = format!("SELECT {} FROM webhook_deliveries WHERE id = $1", columns("output"));
    read.fetch_optional(sql, args![id]).await?.as_ref().map(delivery).transpose()
}

pub(crate) async fn find_request(read: &mut Read, id: &WebhookDeliveryId) -> Result<Option<StoredRequest>, StoreError> {
    let row =
        read.fetch_optional("SELECT headers, body FROM webhook_requests WHERE delivery_id = $1", args![id]).await?;
    row.map(|row| Ok(StoredRequest { headers: row.json("headers")?, body: row.get("body")? })).transpose()
}

/// Returns a page of deliveries with truncated outputs, newest first, and the total number of matches.
pub(crate) async fn list_deliveries(
    read: &mut Read,
    webhook: &WebhookId,
    status: Option<DeliveryStatus>,
    page: Page,
) -> Result<(Vec<Delivery>, u64), StoreError> {
    let mut args: Args = args![webhook];
    let of_status = match status {
        None => String::new(),
        Some(status) => format!("AND status = ${}", args.push(status.as_str())),
    };
    let sql = format!("SELECT COUNT(*) FROM webhook_deliveries WHERE webhook_id = $1 {of_status}");
    let total = read.fetch_one(sql, args.clone()).await?.first()?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {} FROM webhook_deliveries WHERE webhook_id = $1 {of_status} \
         ORDER BY created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}",
        columns(&format!("SUBSTR(output, 1, {MAX_LISTED_CHARACTERS})"))
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(delivery).collect::<Result<_, _>>()?, total))
}

/// Records the start of a turn. Returns false if the delivery was not pending.
pub(crate) async fn update_started(
    tx: &mut Tx,
    id: &WebhookDeliveryId,
    agent: &AgentId,
    session: &str,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let started = tx
        .execute(
            "UPDATE webhook_deliveries SET status = 'running', agent_id = $2, session_id = $3, error = NULL, \
             started_at = $4 WHERE id = $1 AND status = 'pending'",
            args![id, agent, session, now],
        )
        .await?;
    Ok(started == 1)
}

/// Records why a turn could not start yet.
pub(crate) async fn update_delayed(tx: &mut Tx, id: &WebhookDeliveryId, error: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE webhook_deliveries SET error = $2 WHERE id = $1 AND status = 'pending'", args![id, error])
        .await
        .map(|_| ())
}

/// Ends a delivery whose turn will not start.
pub(crate) async fn update_not_started(
    tx: &mut Tx,
    id: &WebhookDeliveryId,
    status: DeliveryStatus,
    error: &str,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE webhook_deliveries SET status = $2, error = $3, completed_at = $4 \
         WHERE id = $1 AND status = 'pending'",
        args![id, status.as_str(), error, now],
    )
    .await
    .map(|_| ())
}

/// Records the outcome of a turn.
pub(crate) async fn update_ended(
    tx: &mut Tx,
    id: &WebhookDeliveryId,
    status: DeliveryStatus,
    output: Option<&str>,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE webhook_deliveries SET status = $2, output = $3, error = $4, completed_at = $5 \
         WHERE id = $1 AND status = 'running'",
        args![id, status.as_str(), output, error, now],
    )
    .await
    .map(|_| ())
}

/// Removes the outputs and the id of an agent from up to `limit` deliveries and returns their number.
pub(crate) async fn forget_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE webhook_deliveries SET agent_id = NULL, session_id = NULL, output = NULL WHERE id IN \
         (SELECT id FROM webhook_deliveries WHERE agent_id = $1 LIMIT $2)",
        args![agent, limit],
    )
    .await
}
