//! Round trips of values; both databases reject the same ones.

use agentd_base::Timestamp;
use agentd_store::{NewEvent, StoreError, Tx, ValueError, args, stored_ids};
use serde_json::json;

use crate::support::{first_events, on_each, put};

agentd_base::typed_id!(ThingId, "thing");
stored_ids!(ThingId);

const COLUMNS: &str = "a_text, a_number, a_real, some_bytes, a_flag, a_time, a_json";

#[tokio::test]
async fn every_type_round_trips() {
    on_each(async |test_db| {
        let id = ThingId::generate(test_db.db.ids());
        let written = id.clone();
        let made: Result<(), StoreError> = test_db
            .db
            .write(async move |tx: &mut Tx| {
                let bytes = tx.dialect().pick("BLOB", "BYTEA");
                tx.execute(
                    format!(
                        "CREATE TABLE every (a_text TEXT, a_number BIGINT, a_real DOUBLE PRECISION, some_bytes {bytes}, \
                         a_flag BIGINT, a_time BIGINT, a_json TEXT)"
                    ),
                    args![],
                )
                .await?;
                let sql = format!("INSERT INTO every ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)");
                let time = Timestamp::from_micros(1_780_000_000_123_456);
                let json = json!({"deep": [1, "ü", null]});
                tx.execute(sql.clone(), args![&written, i64::MIN, 0.1, vec![0u8, 255], true, time, json]).await?;
                let none = None::<ThingId>;
                tx.execute(
                    sql,
                    args![none, None::<i64>, None::<f64>, None::<Vec<u8>>, None::<bool>, None::<Timestamp>, None::<serde_json::Value>],
                )
                .await?;
                Ok(())
            })
            .await;
        made.unwrap();
        let mut read = test_db.db.read().await.unwrap();
        let rows = read.fetch_all(format!("SELECT {COLUMNS} FROM every ORDER BY a_text"), args![]).await.unwrap();
        let full = rows.iter().find(|row| row.get::<Option<String>>("a_text").unwrap().is_some()).unwrap();
        let empty = rows.iter().find(|row| row.get::<Option<String>>("a_text").unwrap().is_none()).unwrap();
        assert_eq!(full.get::<ThingId>("a_text").unwrap(), id);
        assert_eq!(full.get::<i64>("a_number").unwrap(), i64::MIN);
        assert_eq!(full.get::<f64>("a_real").unwrap().to_bits(), 0.1f64.to_bits());
        assert_eq!(full.get::<Vec<u8>>("some_bytes").unwrap(), [0, 255]);
        assert!(full.get::<bool>("a_flag").unwrap());
        assert_eq!(full.get::<Timestamp>("a_time").unwrap().as_micros(), 1_780_000_000_123_456);
        assert_eq!(full.json::<serde_json::Value>("a_json").unwrap(), json!({"deep": [1, "ü", null]}));
        for column in COLUMNS.split(", ") {
            assert!(matches!(
                empty.get::<i64>(column),
                Err(StoreError::Column { source: ValueError::Null, .. })
            ));
        }
        assert_eq!(empty.get::<Option<f64>>("a_real").unwrap(), None);
        assert!(matches!(full.get::<i64>("a_text"), Err(StoreError::Column { .. })));
        assert!(matches!(full.get::<i64>("nowhere"), Err(StoreError::Column { source: ValueError::Missing, .. })));
        assert!(matches!(full.get::<u32>("a_number"), Err(StoreError::Column { source: ValueError::OutOfRange, .. })));
    })
    .await;
}

#[tokio::test]
async fn aggregates_have_the_same_types_in_both_dialects() {
    on_each(async |test_db| {
        let made: Result<(), StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                put(tx, "a", 4_000_000_000_000).await?;
                put(tx, "b", 3).await
            })
            .await;
        made.unwrap();
        let row = test_db
            .db
            .read()
            .await
            .unwrap()
            .fetch_one(
                "SELECT SUM(amount) AS total, COUNT(*) AS things, AVG(amount) AS mean, MAX(amount) AS most, \
                 COALESCE(SUM(CASE WHEN amount > $1 THEN 1 ELSE 0 END), 0) AS large FROM things",
                args![100i64],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<i64>("total").unwrap(), 4_000_000_000_003);
        assert_eq!(row.get::<u64>("things").unwrap(), 2);
        assert_eq!(row.get::<f64>("mean").unwrap(), 2_000_000_000_001.5);
        assert_eq!(row.get::<i64>("most").unwrap(), 4_000_000_000_000);
        assert_eq!(row.get::<i64>("large").unwrap(), 1);
        let none = test_db.db.read().await.unwrap();
        let mut none = none;
        let row = none.fetch_one("SELECT SUM(amount) AS total FROM things WHERE amount < 0", args![]).await.unwrap();
        assert_eq!(row.get::<Option<i64>>("total").unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn unstorable_values_are_rejected_with_a_reason() {
    on_each(async |test_db| {
        let nul: Result<(), StoreError> = test_db.db.write(async |tx: &mut Tx| put(tx, "a\0b", 1).await).await;
        assert!(matches!(&nul, Err(StoreError::Argument { position: 1, source: ValueError::Nul })), "{nul:?}");
        let large: Result<u64, StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                tx.execute("INSERT INTO things (name, amount) VALUES ($1, $2)", args!["large", u64::MAX]).await
            })
            .await;
        assert!(matches!(&large, Err(StoreError::Argument { position: 2, .. })), "{large:?}");
        // JSON escapes NUL, so it can be stored there.
        let event: Result<_, StoreError> =
            test_db.db.write(async |tx: &mut Tx| tx.emit(NewEvent::new("odd", json!({"text": "a\0b"}))).await).await;
        event.unwrap();
        let events = first_events(&test_db.db, 1).await;
        assert_eq!(events[0].data["text"], "a\0b");
    })
    .await;
}

#[tokio::test]
async fn streamed_rows_come_from_one_state() {
    on_each(async |test_db| {
        let made: Result<(), StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                for number in 0..500 {
                    put(tx, &format!("{number:03}"), number).await?;
                }
                Ok(())
            })
            .await;
        made.unwrap();
        let mut snapshot = test_db.db.read_snapshot().await.unwrap();
        let mut expected = 0;
        {
            use futures_util::StreamExt as _;
            let mut rows = snapshot.fetch_stream("SELECT amount FROM things ORDER BY name", args![]).unwrap();
            while let Some(row) = rows.next().await {
                assert_eq!(row.unwrap().get::<i64>("amount").unwrap(), expected);
                if expected == 10 {
                    let more: Result<(), StoreError> =
                        test_db.db.write(async |tx: &mut Tx| put(tx, "zzz", -1).await).await;
                    more.unwrap();
                }
                expected += 1;
            }
        }
        assert_eq!(expected, 500);
        let row = snapshot.fetch_one("SELECT COUNT(*) FROM things", args![]).await.unwrap();
        assert_eq!(row.first::<i64>().unwrap(), 500, "the snapshot stands");
    })
    .await;
}
