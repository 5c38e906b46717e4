//! Forged and replayed interactions of Discord.

use std::time::Duration;

use agentd_chat_platforms::Platform;
use agentd_testing_chat_platforms::{FakePlatform, FakePress, RequestExt as _, forged};
use serde_json::{Value, json};

use super::{Bench, OWNER, Question, says, writes};
use crate::channels::{hook, settle};

async fn start_with_question() -> (Bench, Question) {
    let bench = Bench::start(Platform::Discord, [writes("exactly this"), says("Done.")]).await;
    let question = bench.ask().await;
    (bench, question)
}

/// Sends the owner's press of a button with a changed body, signed with the application's key.
async fn press_changed(bench: &Bench, question: &Question, change: impl FnOnce(&mut Value)) -> Value {
    let FakePlatform::Discord(fake) = &bench.fake else { panic!("another platform") };
    let data = question.approve();
    let number = bench.next_number();
    let press = FakePress { chat: OWNER, sender: OWNER, number, message_id: &question.message_id, data: &data };
    let now = bench.app().clock.clock().now();
    let mut body = bench.fake.press(&press, now).body_as_json();
    change(&mut body);
    let answer = hook(bench.app(), "discord", &fake.interaction(&body, now)).send().await.expect_status(200).json();
    settle(bench.app()).await;
    answer
}

#[tokio::test]
async fn interaction_of_another_application_decides_nothing() {
    let (bench, question) = start_with_question().await;
    for application in ["1", "999999999999999999"] {
        let answer = press_changed(&bench, &question, |body| body["application_id"] = json!(application)).await;
        assert_eq!(answer, json!({"type": 6}));
        assert_eq!((bench.pending().await.len(), bench.written()), (1, None), "{application}");
    }
    press_changed(&bench, &question, |_| ()).await;
    assert_eq!((bench.pending().await.len(), bench.written().as_deref()), (0, Some("exactly this")));
}

#[tokio::test]
async fn component_with_a_foreign_custom_id_decides_nothing() {
    let (bench, question) = start_with_question().await;
    let id = &question.approval_id;
    let foreign = [
        json!("approve:appr_unknown"),
        json!(format!("approve: {id}")),
        json!(format!("Approve:{id}")),
        json!(format!("approve:approve:{id}")),
        json!(format!("approve:{id}\u{200b}")),
        json!(format!("{}{id}", "approve:".repeat(20))),
        json!(["approve", id]),
        json!(null),
    ];
    for custom_id in foreign {
        press_changed(&bench, &question, |body| body["data"]["custom_id"] = custom_id.clone()).await;
        assert_eq!((bench.pending().await.len(), bench.written()), (1, None), "{custom_id}");
    }
    // A menu instead of a button, and a body that also names another user.
    press_changed(&bench, &question, |body| body["data"]["component_type"] = json!(3)).await;
    press_changed(&bench, &question, |body| {
        body["member"] = json!({"user": {"id": "9", "username": "mallory"}});
    })
    .await;
    press_changed(&bench, &question, |body| body["user"]["bot"] = json!(true)).await;
    assert_eq!((bench.pending().await.len(), bench.written()), (1, None));
}

#[tokio::test]
async fn forged_and_replayed_presses_are_refused() {
    let (bench, question) = start_with_question().await;
    let data = question.approve();
    let number = bench.next_number();
    let press = FakePress { chat: OWNER, sender: OWNER, number, message_id: &question.message_id, data: &data };
    let request = bench.fake.press(&press, bench.app().clock.clock().now());
    let send = async |request| hook(bench.app(), "discord", &request).send().await;
    send(forged(request.clone())).await.expect_error(401, "bad_signature");
    let mut other_time = request.clone();
    let time = (bench.app().clock.clock().now().as_millis() / 1000 + 60).to_string();
    other_time.headers.insert("x-signature-timestamp", time.parse().unwrap());
    send(other_time).await.expect_error(401, "bad_signature");
    bench.app().clock.advance(Duration::from_secs(301));
    send(request).await.expect_error(401, "bad_signature");
    assert_eq!((bench.pending().await.len(), bench.written()), (1, None));

    // Within the time window, a repeated press counts once.
    let request = bench.fake.press(&press, bench.app().clock.clock().now());
    for _ in 0..3 {
        send(request.clone()).await.expect_status(200);
        settle(bench.app()).await;
    }
    assert_eq!((bench.pending().await.len(), bench.written().as_deref()), (0, Some("exactly this")));
    assert_eq!(bench.fixture.vendor.requests().len(), 2);
    bench.expect_sent("Done.", 1).await;
}
