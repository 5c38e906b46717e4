-- Which rows changed, for what is derived from them outside of the database. `row_number` is NULL when
-- every row may have changed. Here there is one writer, so seq alone orders them.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    tx_id BIGINT NOT NULL DEFAULT 0,
    log TEXT NOT NULL,
    row_number BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX changes_order ON changes (log, tx_id, seq);
