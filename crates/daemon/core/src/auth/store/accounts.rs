//! SQL of users.

use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::auth::model::User;

pub(crate) async fn insert_user(tx: &mut Tx, user: &User, password_hash: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO users (id, username, password_hash, created_at) VALUES ($1, $2, $3, $4)",
        args![&user.id, &user.username, password_hash, user.created_at],
    )
    .await?;
    Ok(())
}

/// Returns the user and the password hash.
pub(crate) async fn find_user(read: &mut Read, username: &str) -> Result<Option<(User, String)>, StoreError> {
    let row = read
        .fetch_optional(
            "SELECT id, username, password_hash, created_at FROM users WHERE username = $1",
            args![username],
        )
        .await?;
    row.map(|row| Ok((user(&row)?, row.get("password_hash")?))).transpose()
}

pub(crate) async fn find_username(read: &mut Read, id: &str) -> Result<Option<String>, StoreError> {
    let row = read.fetch_optional("SELECT username FROM users WHERE id = $1", args![id]).await?;
    row.map(|row| row.get("username")).transpose()
}

fn user(row: &Row) -> Result<User, StoreError> {
    Ok(User { id: row.get("id")?, username: row.get("username")?, created_at: row.get("created_at")? })
}
