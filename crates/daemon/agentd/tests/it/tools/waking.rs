//! Push messages to devices about pending approvals.

use super::*;
use crate::support::Eventually;
use crate::support::push_service::{Answer, Device, Message, PushService};

struct ApprovalPush {
    bench: Bench,
    service: PushService,
    device: Device,
}

impl ApprovalPush {
    /// Starts a vendor that always requests an approval, and a registered device.
    async fn start() -> Self {
        let bench = Bench::with(vec![calls(&[("act", json!({"word": "secret"}))]), says("Done.")]).await;
        let service = PushService::start().await;
        let device = service.subscribe(&bench.fixture.app, "phone").await;
        Self { bench, service, device }
    }

    fn app(&self) -> &TestApp {
        &self.bench.fixture.app
    }

    /// Begins a turn that waits for an approval; returns the approval.
    async fn request_approval(&self) -> Value {
        let id = self.bench.conversation(json!({"execution_mode": "approval_required"})).await;
        let mut stream = self.bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
        while stream.next().await.expect("next event").event != "approval_request" {}
        let mut eventually = Eventually::new();
        loop {
            if let Some(first) = self.bench.pending().await.first() {
                return first.clone();
            }
            eventually.retry().await;
        }
    }

    async fn advance(&self, seconds: u64) {
        self.app().clock.advance(Duration::from_secs(seconds));
        // Messages are sent by a worker that runs before the worker that checks approvals.
        for _ in 0..2 {
            self.app().run_workers().await;
        }
    }

    async fn messages(&self) -> Vec<Message> {
        self.service.messages(self.app(), &self.device).await
    }
}

#[tokio::test]
async fn pending_approval_is_pushed_to_a_device_once() {
    let push = ApprovalPush::start().await;
    let approval = push.request_approval().await;
    push.app().run_workers().await;
    push.advance(2).await;
    assert_eq!(push.service.count(), 0, "no push within the grace period");
    push.advance(1).await;
    push.advance(60).await;
    push.advance(60).await;
    let messages = push.messages().await;
    let id = approval["id"].as_str().unwrap();
    let expected = json!({
        "title": "scout asks for approval", "body": "May scout use act?",
        "url": format!("/approvals?id={id}"), "tag": format!("approval:{id}"),
    });
    assert_eq!((messages.len(), &messages[0].content), (1, &expected));
    assert_eq!(
        (messages[0].ttl, messages[0].urgency.as_str()),
        (3_600 - 3, "high"),
        "the message is valid until the approval expires"
    );
}

#[tokio::test]
async fn approval_answered_immediately_is_not_pushed() {
    let push = ApprovalPush::start().await;
    let approval = push.request_approval().await;
    assert_eq!(push.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    push.advance(10).await;
    assert_eq!(push.service.count(), 0);
}

#[tokio::test]
async fn setting_controls_whether_approvals_are_pushed() {
    let push = ApprovalPush::start().await;
    let wake = async |on: bool| {
        let settings = json!({"push_approvals": on});
        push.app().put("/api/settings/proactive").json(&settings).send().await.expect_status(200);
    };
    wake(false).await;
    push.request_approval().await;
    push.advance(10).await;
    assert_eq!(push.service.count(), 0);
    wake(true).await;
    push.advance(0).await;
    assert_eq!(push.messages().await.len(), 1, "the approval is still pending");
}

#[tokio::test]
async fn approval_answered_before_delivery_is_not_pushed() {
    let push = ApprovalPush::start().await;
    let approval = push.request_approval().await;
    push.service.then([Answer::Status(503)]);
    push.advance(3).await;
    assert_eq!(push.service.count(), 1);
    assert_eq!(push.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    push.advance(60).await;
    push.advance(60).await;
    assert_eq!(push.service.count(), 1);
    // Only the two broadcast messages remain. The message to the device is not recorded as a failure, and the
    // message that
    // would close it was not needed.
    let list = push.app().get("/api/notifications").send().await.expect_status(200).json();
    let remaining: Vec<_> =
        list["notifications"].as_array().unwrap().iter().map(|one| (&one["channel"], &one["status"])).collect();
    let sent = (&json!(""), &json!("sent"));
    assert_eq!(remaining, [sent, sent], "{list}");
}

#[tokio::test]
async fn answered_approval_is_closed_on_devices_that_showed_it() {
    let push = ApprovalPush::start().await;
    let approval = push.request_approval().await;
    push.advance(3).await;
    let late = push.service.subscribe(push.app(), "late").await;
    assert_eq!(push.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    push.advance(1).await;
    push.advance(60).await;
    let messages = push.messages().await;
    let expected = json!({
        "title": "The approval is settled", "body": "", "url": "/approvals?tab=answered",
        "tag": messages[0].content["tag"], "silent": true, "close": true,
    });
    assert_eq!((messages.len(), &messages[1].content), (2, &expected));
    assert_eq!((messages[1].urgency.as_str(), &messages[1].topic), ("normal", &messages[0].topic));
    assert_eq!(push.service.messages(push.app(), &late).await, [], "the device never showed the approval");
}

#[tokio::test]
async fn expired_approval_is_closed_on_devices() {
    let push = ApprovalPush::start().await;
    push.request_approval().await;
    push.advance(3).await;
    push.advance(3_600).await;
    let messages = push.messages().await;
    assert_eq!((messages.len(), &messages[1].content["close"]), (2, &json!(true)));
}

#[tokio::test]
async fn approval_answered_while_stopped_is_closed_once() {
    let mut push = ApprovalPush::start().await;
    let approval = push.request_approval().await;
    push.advance(3).await;
    assert_eq!(push.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    for _ in 0..2 {
        push.bench.restart().await;
        push.advance(60).await;
    }
    let messages = push.messages().await;
    assert_eq!((messages.len(), &messages[1].content["close"]), (2, &json!(true)));
}

#[tokio::test]
async fn restart_between_request_and_push_sends_one_message() {
    let mut push = ApprovalPush::start().await;
    push.request_approval().await;
    push.bench.restart().await;
    push.advance(3).await;
    push.bench.restart().await;
    push.advance(60).await;
    assert_eq!(push.messages().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_push_an_approval_once() {
    let push = ApprovalPush::start().await;
    let (Some(second), Some(third)) = (push.app().replica().await, push.app().replica().await) else {
        // SQLite supports only one daemon.
        return;
    };
    let approval = push.request_approval().await;
    push.app().clock.advance(Duration::from_secs(3));
    let run_all_workers = async || {
        for _ in 0..3 {
            tokio::join!(push.app().run_workers(), second.run_workers(), third.run_workers());
        }
        push.messages().await.len()
    };
    assert_eq!(run_all_workers().await, 1);
    assert_eq!(push.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    assert_eq!(run_all_workers().await, 2, "the message is closed once");
}
