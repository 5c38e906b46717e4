//! Devices are woken when an approval waits.

use super::*;
use crate::support::Eventually;
use crate::support::push_service::{Answer, Device, Message, PushService};

struct Asking {
    bench: Bench,
    service: PushService,
    device: Device,
}

impl Asking {
    /// A turn asks before it acts, as often as it is let.
    async fn begin() -> Self {
        let bench = Bench::with(vec![calls(&[("act", json!({"word": "secret"}))]), says("Done.")]).await;
        let service = PushService::start().await;
        let device = service.subscribe(&bench.talk.app, "phone").await;
        Self { bench, service, device }
    }

    fn app(&self) -> &TestApp {
        &self.bench.talk.app
    }

    /// What is asked; the turn waits from then on.
    async fn ask(&self) -> Value {
        let id = self.bench.conversation(json!({"execution_mode": "approval_required"})).await;
        let mut stream = self.bench.talk.send(&json!({"content": "go", "conversation_id": id})).stream().await;
        while stream.next().await.expect("the stream goes on").event != "approval_request" {}
        let mut eventually = Eventually::new();
        loop {
            if let Some(first) = self.bench.pending().await.first() {
                return first.clone();
            }
            eventually.look_again().await;
        }
    }

    async fn pass(&self, seconds: u64) {
        self.app().clock.advance(Duration::from_secs(seconds));
        // Messages are sent by a worker that runs before the one that looks for approvals.
        for _ in 0..2 {
            self.app().run_workers().await;
        }
    }

    async fn messages(&self) -> Vec<Message> {
        self.service.messages(self.app(), &self.device).await
    }
}

#[tokio::test]
async fn a_device_is_woken_once_for_an_approval_that_waits() {
    let asking = Asking::begin().await;
    let approval = asking.ask().await;
    asking.app().run_workers().await;
    asking.pass(2).await;
    assert_eq!(asking.service.count(), 0, "whoever looks at the page answers sooner");
    asking.pass(1).await;
    asking.pass(60).await;
    asking.pass(60).await;
    let messages = asking.messages().await;
    let id = approval["id"].as_str().unwrap();
    let expected = json!({
        "title": "scout asks for approval", "body": "May scout use act?",
        "url": format!("/approvals?id={id}"), "tag": format!("approval:{id}"),
    });
    assert_eq!((messages.len(), &messages[0].content), (1, &expected));
    assert_eq!((messages[0].ttl, messages[0].urgency.as_str()), (3_600 - 3, "high"), "until it expires");
}

#[tokio::test]
async fn what_is_answered_at_once_wakes_nobody() {
    let asking = Asking::begin().await;
    let approval = asking.ask().await;
    assert_eq!(asking.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    asking.pass(10).await;
    assert_eq!(asking.service.count(), 0);
}

#[tokio::test]
async fn a_setting_says_whether_approvals_wake() {
    let asking = Asking::begin().await;
    let wake = async |on: bool| {
        let settings = json!({"push_approvals": on});
        asking.app().put("/api/settings/proactive").json(&settings).send().await.expect_status(200);
    };
    wake(false).await;
    asking.ask().await;
    asking.pass(10).await;
    assert_eq!(asking.service.count(), 0);
    wake(true).await;
    asking.pass(0).await;
    assert_eq!(asking.messages().await.len(), 1, "it waits still");
}

#[tokio::test]
async fn what_was_answered_before_it_could_be_sent_is_not_sent() {
    let asking = Asking::begin().await;
    let approval = asking.ask().await;
    asking.service.then([Answer::Status(503)]);
    asking.pass(3).await;
    assert_eq!(asking.service.count(), 1);
    assert_eq!(asking.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    asking.pass(60).await;
    asking.pass(60).await;
    assert_eq!(asking.service.count(), 1);
    // The two messages to all are what is left: that to the device is no failure, and the one that would take it away
    // had nothing to do there.
    let list = asking.app().get("/api/notifications").send().await.expect_status(200).json();
    let left: Vec<_> =
        list["notifications"].as_array().unwrap().iter().map(|one| (&one["channel"], &one["status"])).collect();
    let sent = (&json!(""), &json!("sent"));
    assert_eq!(left, [sent, sent], "{list}");
}

#[tokio::test]
async fn what_is_answered_elsewhere_is_taken_away_where_it_was_shown() {
    let asking = Asking::begin().await;
    let approval = asking.ask().await;
    asking.pass(3).await;
    let late = asking.service.subscribe(asking.app(), "late").await;
    assert_eq!(asking.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    asking.pass(1).await;
    asking.pass(60).await;
    let messages = asking.messages().await;
    let expected = json!({
        "title": "The approval is settled", "body": "", "url": "/approvals?tab=answered",
        "tag": messages[0].content["tag"], "silent": true, "close": true,
    });
    assert_eq!((messages.len(), &messages[1].content), (2, &expected));
    assert_eq!((messages[1].urgency.as_str(), &messages[1].topic), ("normal", &messages[0].topic));
    assert_eq!(asking.service.messages(asking.app(), &late).await, [], "it never showed it");
}

#[tokio::test]
async fn what_expired_is_taken_away_too() {
    let asking = Asking::begin().await;
    asking.ask().await;
    asking.pass(3).await;
    asking.pass(3_600).await;
    let messages = asking.messages().await;
    assert_eq!((messages.len(), &messages[1].content["close"]), (2, &json!(true)));
}

#[tokio::test]
async fn what_was_answered_while_nobody_looked_is_taken_away_once() {
    let mut asking = Asking::begin().await;
    let approval = asking.ask().await;
    asking.pass(3).await;
    assert_eq!(asking.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    for _ in 0..2 {
        asking.bench.restart().await;
        asking.pass(60).await;
    }
    let messages = asking.messages().await;
    assert_eq!((messages.len(), &messages[1].content["close"]), (2, &json!(true)));
}

#[tokio::test]
async fn a_restart_between_asking_and_waking_changes_nothing() {
    let mut asking = Asking::begin().await;
    asking.ask().await;
    asking.bench.restart().await;
    asking.pass(3).await;
    asking.bench.restart().await;
    asking.pass(60).await;
    assert_eq!(asking.messages().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_daemons_wake_a_device_once() {
    let asking = Asking::begin().await;
    let (Some(second), Some(third)) = (asking.app().replica().await, asking.app().replica().await) else {
        // One daemon has SQLite alone.
        return;
    };
    let approval = asking.ask().await;
    asking.app().clock.advance(Duration::from_secs(3));
    let all_look = async || {
        for _ in 0..3 {
            tokio::join!(asking.app().run_workers(), second.run_workers(), third.run_workers());
        }
        asking.messages().await.len()
    };
    assert_eq!(all_look().await, 1);
    assert_eq!(asking.bench.answer(&approval["id"], json!({"decision": "reject"})).await, 200);
    assert_eq!(all_look().await, 2, "and it is taken away once");
}
