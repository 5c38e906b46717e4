use proptest::prelude::*;

use super::*;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + minutes * 60_000_000)
}

const RULE: Rule = Rule { for_minutes: 0, notify_every_minutes: 60 };

fn id() -> FiringId {
    FiringId::from("fire_1")
}

fn evaluate(life: &Life, rule: Rule, truth: Truth, minute: i64) -> Step {
    life.evaluate(rule, truth, at(minute), true, id)
}

fn firing() -> Life {
    let step = evaluate(&Life::default(), RULE, Truth::True, 0);
    assert_eq!((step.life.state, step.notice, step.has_begun), (AlertState::Firing, Some(NoticeKind::Begun), true));
    step.life
}

#[test]
fn it_fires_resolves_and_is_well_by_itself() {
    let resolved = evaluate(&firing(), RULE, Truth::False, 5);
    assert_eq!((resolved.life.state, resolved.has_ended), (AlertState::Resolved, true));
    assert_eq!(evaluate(&resolved.life, RULE, Truth::False, 6).life, Life::default());
    assert!(evaluate(&resolved.life, RULE, Truth::True, 6).has_begun, "it came back by itself, so it is told");
    assert_eq!(evaluate(&resolved.life, RULE, Truth::Unknown, 6).life.state, AlertState::Resolved);
}

#[test]
fn it_must_hold_as_long_as_it_says() {
    let rule = Rule { for_minutes: 5, ..RULE };
    let mut life = evaluate(&Life::default(), rule, Truth::True, 0).life;
    for minute in 1..5 {
        let truth = if minute == 3 { Truth::Unknown } else { Truth::True };
        life = evaluate(&life, rule, truth, minute).life;
        assert_eq!(life.state, AlertState::Ok, "{minute}");
    }
    assert!(evaluate(&life, rule, Truth::True, 5).has_begun);
    let unseen = life.evaluate(rule, Truth::True, at(500), false, id);
    assert!(!unseen.has_begun && unseen.life.pending_since == Some(at(500)), "nobody knows whether it held");
    let broken = evaluate(&life, rule, Truth::False, 4).life;
    assert_eq!(evaluate(&broken, rule, Truth::True, 5).life.pending_since, Some(at(5)));
}

#[test]
fn repeats_stop_when_somebody_takes_care() {
    let life = firing();
    assert_eq!(evaluate(&life, RULE, Truth::True, 59).notice, None);
    assert_eq!(evaluate(&life, RULE, Truth::Unknown, 60).notice, None);
    assert_eq!(evaluate(&life, RULE, Truth::True, 60).notice, Some(NoticeKind::Repeated));
    let once = Rule { notify_every_minutes: 0, ..RULE };
    assert_eq!(evaluate(&life, once, Truth::True, 100_000).notice, None);
    let cared_for = life.acknowledge(at(1)).unwrap();
    let later = evaluate(&cared_for, RULE, Truth::True, 10_000);
    assert_eq!((later.life.state, later.notice), (AlertState::Acknowledged, None));
    assert_eq!(evaluate(&cared_for, RULE, Truth::False, 2).life.state, AlertState::Resolved);
}

#[test]
fn a_snooze_ends_in_a_notice() {
    let life = firing().snooze(30, at(1)).unwrap();
    assert_eq!(evaluate(&life, RULE, Truth::True, 30).notice, None);
    for truth in [Truth::True, Truth::Unknown] {
        let over = evaluate(&life, RULE, truth, 31);
        assert_eq!((over.life.state, over.notice), (AlertState::Firing, Some(NoticeKind::SnoozeOver)));
    }
    let gone = evaluate(&life, RULE, Truth::False, 20);
    assert_eq!((gone.life.state, gone.notice, gone.has_ended), (AlertState::Resolved, None, true));
}

#[test]
fn what_was_resolved_by_hand_does_not_come_back_at_once() {
    let life = firing().resolve(at(10)).unwrap();
    assert_eq!(life.state, AlertState::Resolved);
    assert_eq!(evaluate(&life, RULE, Truth::True, 69).life.state, AlertState::Resolved);
    assert!(evaluate(&life, RULE, Truth::True, 70).has_begun);
    let was_false = evaluate(&life, RULE, Truth::False, 11).life;
    assert!(evaluate(&was_false, RULE, Truth::True, 12).has_begun);
    let once = Rule { notify_every_minutes: 0, ..RULE };
    assert!(!evaluate(&life, once, Truth::True, 100_000).has_begun);
}

#[test]
fn a_clock_that_is_set_back_prolongs_nothing() {
    let life = firing().snooze(30, at(0)).unwrap();
    let back = evaluate(&life, RULE, Truth::True, -100_000).life;
    assert_eq!(back.snoozed_until, Some(at(-100_000 + 30)));
    assert_eq!(evaluate(&back, RULE, Truth::True, -100_000 + 30).notice, Some(NoticeKind::SnoozeOver));
    let told = evaluate(&firing(), RULE, Truth::True, -100_000).life;
    assert_eq!(told.noticed_at, Some(at(-100_000)));
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
    fn whatever_happens_each_firing_is_told_once_and_ends_once(
        steps in prop::collection::vec((input(), -20_000i64..20_000), 1..60),
        for_minutes in 0u32..20,
        notify_every_minutes in 0u32..100,
    ) {
        let rule = Rule { for_minutes, notify_every_minutes };
        let mut life = Life::default();
        let mut minute = 0;
        for (input, jump) in steps {
            // Mostly forward by little, now and then by any distance either way.
            minute += if jump % 5 == 0 { jump } else { jump.rem_euclid(7) };
            let (before, now) = (life.clone(), at(minute));
            let was_open = before.state.is_open();
            match input {
                Input::Evaluate(truth, is_watched) => {
                    let step = before.evaluate(rule, truth, now, is_watched, id);
                    life = step.life;
                    prop_assert!(!step.has_begun || (!was_open && truth == Truth::True));
                    prop_assert!(!step.has_ended || (was_open && truth == Truth::False));
                    prop_assert_eq!(step.has_begun, step.notice == Some(NoticeKind::Begun));
                    match step.notice {
                        Some(NoticeKind::Repeated) => {
                            prop_assert_eq!(before.state, AlertState::Firing);
                            let waited = now.since(before.noticed_at.unwrap());
                            prop_assert!(waited >= MINUTE * rule.notify_every_minutes && notify_every_minutes > 0);
                        }
                        Some(NoticeKind::SnoozeOver) => prop_assert_eq!(before.state, AlertState::Snoozed),
                        Some(NoticeKind::Resolved) => prop_assert!(step.has_ended),
                        Some(NoticeKind::Begun) | None => {}
                    }
                    if truth == Truth::Unknown {
                        prop_assert_eq!(life.state.is_open(), was_open);
                    }
                }
                Input::Acknowledge => {
                    let allowed = matches!(before.state, AlertState::Firing | AlertState::Snoozed);
                    let after = before.acknowledge(now);
                    prop_assert_eq!(after.is_some(), allowed);
                    life = after.unwrap_or(before);
                }
                Input::Snooze(minutes) => {
                    let after = before.snooze(minutes, now);
                    prop_assert_eq!(after.is_some(), was_open);
                    life = after.unwrap_or(before);
                }
                Input::Resolve => {
                    let after = before.resolve(now);
                    prop_assert_eq!(after.is_some(), was_open);
                    life = after.unwrap_or(before);
                }
            }
            prop_assert_eq!(life.state.is_open(), life.firing_id.is_some());
            prop_assert_eq!(life.state.is_open(), life.firing_since.is_some());
            prop_assert_eq!(life.state == AlertState::Snoozed, life.snoozed_until.is_some());
            prop_assert_eq!(life.state == AlertState::Acknowledged, life.acknowledged_at.is_some());
            prop_assert!(life.held_since.is_none() || life.state == AlertState::Resolved);
        }
    }
}
