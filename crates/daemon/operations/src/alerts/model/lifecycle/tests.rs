use proptest::prelude::*;

use super::*;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + minutes * 60_000_000)
}

const RULE: Rule = Rule { for_minutes: 0, notify_every_minutes: 60 };

fn id() -> FiringId {
    FiringId::from("fire_1")
}

fn evaluate(lifecycle: &Lifecycle, rule: Rule, truth: Truth, minute: i64) -> Transition {
    lifecycle.evaluate(rule, truth, at(minute), true, id)
}

fn firing() -> Lifecycle {
    let step = evaluate(&Lifecycle::default(), RULE, Truth::True, 0);
    assert_eq!(
        (step.lifecycle.state, step.notice, step.has_started),
        (AlertState::Firing, Some(NoticeKind::Started), true)
    );
    step.lifecycle
}

#[test]
fn alert_fires_resolves_and_returns_to_ok() {
    let resolved = evaluate(&firing(), RULE, Truth::False, 5);
    assert_eq!((resolved.lifecycle.state, resolved.has_ended), (AlertState::Resolved, true));
    assert_eq!(evaluate(&resolved.lifecycle, RULE, Truth::False, 6).lifecycle, Lifecycle::default());
    assert!(
        evaluate(&resolved.lifecycle, RULE, Truth::True, 6).has_started,
        "the condition became true again, so it fires"
    );
    assert_eq!(evaluate(&resolved.lifecycle, RULE, Truth::Unknown, 6).lifecycle.state, AlertState::Resolved);
}

#[test]
fn alert_fires_only_after_condition_held_for_minutes() {
    let rule = Rule { for_minutes: 5, ..RULE };
    let mut lifecycle = evaluate(&Lifecycle::default(), rule, Truth::True, 0).lifecycle;
    for minute in 1..5 {
        let truth = if minute == 3 { Truth::Unknown } else { Truth::True };
        lifecycle = evaluate(&lifecycle, rule, truth, minute).lifecycle;
        assert_eq!(lifecycle.state, AlertState::Ok, "{minute}");
    }
    assert!(evaluate(&lifecycle, rule, Truth::True, 5).has_started);
    let unwatched = lifecycle.evaluate(rule, Truth::True, at(500), false, id);
    assert!(
        !unwatched.has_started && unwatched.lifecycle.pending_since == Some(at(500)),
        "it is unknown whether the condition held"
    );
    let broken = evaluate(&lifecycle, rule, Truth::False, 4).lifecycle;
    assert_eq!(evaluate(&broken, rule, Truth::True, 5).lifecycle.pending_since, Some(at(5)));
}

#[test]
fn repeated_notices_stop_after_acknowledgement() {
    let lifecycle = firing();
    assert_eq!(evaluate(&lifecycle, RULE, Truth::True, 59).notice, None);
    assert_eq!(evaluate(&lifecycle, RULE, Truth::Unknown, 60).notice, None);
    assert_eq!(evaluate(&lifecycle, RULE, Truth::True, 60).notice, Some(NoticeKind::Repeated));
    let once = Rule { notify_every_minutes: 0, ..RULE };
    assert_eq!(evaluate(&lifecycle, once, Truth::True, 100_000).notice, None);
    let acknowledged = lifecycle.acknowledge(at(1)).unwrap();
    let later = evaluate(&acknowledged, RULE, Truth::True, 10_000);
    assert_eq!((later.lifecycle.state, later.notice), (AlertState::Acknowledged, None));
    assert_eq!(evaluate(&acknowledged, RULE, Truth::False, 2).lifecycle.state, AlertState::Resolved);
}

#[test]
fn expired_snooze_sends_a_notice() {
    let lifecycle = firing().snooze(30, at(1)).unwrap();
    assert_eq!(evaluate(&lifecycle, RULE, Truth::True, 30).notice, None);
    for truth in [Truth::True, Truth::Unknown] {
        let expired = evaluate(&lifecycle, RULE, truth, 31);
        assert_eq!((expired.lifecycle.state, expired.notice), (AlertState::Firing, Some(NoticeKind::SnoozeExpired)));
    }
    let gone = evaluate(&lifecycle, RULE, Truth::False, 20);
    assert_eq!((gone.lifecycle.state, gone.notice, gone.has_ended), (AlertState::Resolved, None, true));
}

#[test]
fn manually_resolved_alert_does_not_fire_again_immediately() {
    let lifecycle = firing().resolve(at(10)).unwrap();
    assert_eq!(lifecycle.state, AlertState::Resolved);
    assert_eq!(evaluate(&lifecycle, RULE, Truth::True, 69).lifecycle.state, AlertState::Resolved);
    assert!(evaluate(&lifecycle, RULE, Truth::True, 70).has_started);
    let was_false = evaluate(&lifecycle, RULE, Truth::False, 11).lifecycle;
    assert!(evaluate(&was_false, RULE, Truth::True, 12).has_started);
    let once = Rule { notify_every_minutes: 0, ..RULE };
    assert!(!evaluate(&lifecycle, once, Truth::True, 100_000).has_started);
}

#[test]
fn clock_set_back_does_not_extend_a_snooze() {
    let lifecycle = firing().snooze(30, at(0)).unwrap();
    let set_back = evaluate(&lifecycle, RULE, Truth::True, -100_000).lifecycle;
    assert_eq!(set_back.snoozed_until, Some(at(-100_000 + 30)));
    assert_eq!(evaluate(&set_back, RULE, Truth::True, -100_000 + 30).notice, Some(NoticeKind::SnoozeExpired));
    let notified = evaluate(&firing(), RULE, Truth::True, -100_000).lifecycle;
    assert_eq!(notified.noticed_at, Some(at(-100_000)));
}

#[derive(Debug, Clone, Copy)]
enum Input {
    Evaluate(Truth, bool),
    Acknowledge,
    Snooze(u32),
    Resolve,
}

fn input() -> impl Strategy<Value = Input> {
    let truth = prop_oneof![Just(Truth::True), Just(Truth::False), Just(Truth::Unknown)];
    prop_oneof![
        6 => (truth, any::<bool>()).prop_map(|(truth, is_watched)| Input::Evaluate(truth, is_watched)),
        1 => Just(Input::Acknowledge),
        1 => any::<u32>().prop_map(Input::Snooze),
        1 => Just(Input::Resolve),
    ]
}

proptest! {
    #[test]
    fn every_firing_begins_and_ends_exactly_once(
        steps in prop::collection::vec((input(), -20_000i64..20_000), 1..60),
        for_minutes in 0u32..20,
        notify_every_minutes in 0u32..100,
    ) {
        let rule = Rule { for_minutes, notify_every_minutes };
        let mut lifecycle = Lifecycle::default();
        let mut minute = 0;
        for (input, jump) in steps {
            // Mostly small steps forward, sometimes a jump in either direction.
            minute += if jump % 5 == 0 { jump } else { jump.rem_euclid(7) };
            let (before, now) = (lifecycle.clone(), at(minute));
            let was_open = before.state.is_open();
            match input {
                Input::Evaluate(truth, is_watched) => {
                    let step = before.evaluate(rule, truth, now, is_watched, id);
                    lifecycle = step.lifecycle;
                    prop_assert!(!step.has_started || (!was_open && truth == Truth::True));
                    prop_assert!(!step.has_ended || (was_open && truth == Truth::False));
                    prop_assert_eq!(step.has_started, step.notice == Some(NoticeKind::Started));
                    match step.notice {
                        Some(NoticeKind::Repeated) => {
                            prop_assert_eq!(before.state, AlertState::Firing);
                            let waited = now.since(before.noticed_at.unwrap());
                            prop_assert!(waited >= MINUTE * rule.notify_every_minutes && notify_every_minutes > 0);
                        }
                        Some(NoticeKind::SnoozeExpired) => prop_assert_eq!(before.state, AlertState::Snoozed),
                        Some(NoticeKind::Resolved) => prop_assert!(step.has_ended),
                        Some(NoticeKind::Started) | None => {}
                    }
                    if truth == Truth::Unknown {
                        prop_assert_eq!(lifecycle.state.is_open(), was_open);
                    }
                }
                Input::Acknowledge => {
                    let allowed = matches!(before.state, AlertState::Firing | AlertState::Snoozed);
                    let after = before.acknowledge(now);
                    prop_assert_eq!(after.is_some(), allowed);
                    lifecycle = after.unwrap_or(before);
                }
                Input::Snooze(minutes) => {
                    let after = before.snooze(minutes, now);
                    prop_assert_eq!(after.is_some(), was_open);
                    lifecycle = after.unwrap_or(before);
                }
                Input::Resolve => {
                    let after = before.resolve(now);
                    prop_assert_eq!(after.is_some(), was_open);
                    lifecycle = after.unwrap_or(before);
                }
            }
            prop_assert_eq!(lifecycle.state.is_open(), lifecycle.firing_id.is_some());
            prop_assert_eq!(lifecycle.state.is_open(), lifecycle.firing_since.is_some());
            prop_assert_eq!(lifecycle.state == AlertState::Snoozed, lifecycle.snoozed_until.is_some());
            prop_assert_eq!(lifecycle.state == AlertState::Acknowledged, lifecycle.acknowledged_at.is_some());
            prop_assert!(lifecycle.held_since.is_none() || lifecycle.state == AlertState::Resolved);
        }
    }
}
