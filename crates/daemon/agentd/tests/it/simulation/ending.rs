//! The end of a seed: the faults stop, leases run out, and everything must come to its end; all daemons are there to
//! do it, or one that is left.

use std::collections::BTreeSet;
use std::time::Duration;

use agentd_store::args;

use super::node::{Run, WORKERS};
use super::run::{Acknowledged, Simulation};
use super::template::PROACTIVE_TURNS_A_DAY;
use super::world::{Answer, Outcome, SAID};

/// So many rounds of all workers may pass before everything is at its end.
const MOST_ROUNDS: u32 = 400;
/// What is still to be done, with when it is due.
const OPEN: [(&str, &str); 6] = [
    ("queue", "SELECT MIN(due_at) FROM queue WHERE status IN ('pending', 'leased') AND queue = 'notify'"),
    ("hook_deliveries", "SELECT MIN(due_at) FROM hook_deliveries WHERE due_at IS NOT NULL"),
    ("hook_executions", "SELECT MIN(due_at) FROM hook_executions WHERE due_at IS NOT NULL"),
    ("job_runs", "SELECT MIN(COALESCE(due_at, 0)) FROM job_runs WHERE status IN ('pending', 'running')"),
    ("sessions", "SELECT MIN(lease_until) FROM sessions WHERE status = 'running'"),
    ("notifications", "SELECT MIN(COALESCE(next_attempt_at, 0)) FROM notifications WHERE status = 'pending'"),
];

impl Simulation<'_> {
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let last = self.dice.chance(75).then(|| self.dice.index(self.nodes.len()));
        for slot in 0..self.nodes.len() {
            if last.is_some_and(|last| last != slot) {
                self.kill(slot)?;
            } else if self.nodes[slot].is_none() {
                self.boot(slot)?;
            }
        }
        for node in self.nodes.iter_mut().flatten() {
            node.ahead = 0;
        }
        self.advance(Duration::from_secs(1));
        for round in 0.. {
            for slot in 0..self.nodes.len() {
                // Nothing new: the end of all is looked for.
                for worker in WORKERS.iter().filter(|worker| !["scheduler.tick", "alerts.evaluate"].contains(worker)) {
                    if let Some(node) = self.nodes[slot].as_mut() {
                        node.begin(worker);
                    }
                }
                self.run(slot, Run::Idle)?;
            }
            let open = self.world.open();
            for number in &open {
                self.give(*number, Answer::Success);
            }
            if !open.is_empty() {
                continue;
            }
            let left = self.left();
            let is_read = self.ledger().number(UNREAD) == 0;
            if left.is_empty() && is_read {
                break;
            }
            if round >= MOST_ROUNDS {
                return Err(format!("after {round} rounds without a fault these are not at their end: {left:?}"));
            }
            let due = left.iter().map(|(_, due)| *due).min().unwrap_or_default();
            let wait = due.saturating_sub(self.now().as_micros()).clamp(1_100_000, 600_000_000);
            self.advance(Duration::from_micros(u64::try_from(wait).unwrap_or_default()));
        }
        self.check_events()?;
        self.check_messages()?;
        self.check_turns()?;
        self.check_counts()
    }

    fn left(&self) -> Vec<(&'static str, i64)> {
        let due = |sql: &str| {
            let rows = self.ledger().rows(sql, args![]);
            rows.first().and_then(|row| row.first::<Option<i64>>().expect("a time"))
        };
        OPEN.iter().filter_map(|(table, sql)| Some((*table, due(sql)?))).collect()
    }

    /// Every event that was acknowledged led to what each hook is to do, once.
    fn check_events(&self) -> Result<(), String> {
        let template = self.template;
        let done = |table: &str, hook: &str| -> BTreeSet<String> {
            let sql = format!("SELECT event_id FROM {table} WHERE hook_id = $1");
            let rows = self.ledger().rows(&sql, args![hook]);
            rows.iter().map(|row| row.get("event_id").expect("an id")).collect()
        };
        let by_hook = [
            ("the queued hook", done("hook_deliveries", &template.queued_hook)),
            ("the hook that notifies", done("hook_executions", &template.notifying_hook)),
            ("the hook that starts turns", done("hook_executions", &template.starting_hook)),
            ("the hook that sends at once", done("hook_executions", &template.inline_hook)),
        ];
        for event in self.acknowledged.iter().filter_map(Acknowledged::event) {
            for (hook, heard) in &by_hook {
                if !heard.contains(event) {
                    return Err(format!("{hook} never heard of {event}, which was acknowledged"));
                }
            }
        }
        let sent = "SELECT id FROM hook_deliveries WHERE status = 'success' \
                    UNION ALL SELECT id FROM hook_executions WHERE status = 'success' AND hook_id = $1";
        for row in self.ledger().rows(sent, args![&template.inline_hook]) {
            self.arrived(&row.get::<String>("id").expect("an id"))?;
        }
        let twice = [
            (
                "turns of a hook",
                "SELECT (SELECT COUNT(*) FROM sessions WHERE origin = 'hook') - \
                 (SELECT COUNT(*) FROM hook_executions WHERE output LIKE '%session_id%')",
            ),
            (
                "notifications of a hook",
                "SELECT (SELECT COUNT(*) FROM notifications WHERE idempotency_key LIKE 'hook:%') - \
                 (SELECT COUNT(*) FROM hook_executions WHERE output LIKE '%notification_id%')",
            ),
        ];
        for (what, sql) in twice {
            let more = self.ledger().number(sql);
            if more != 0 {
                return Err(format!("there are {more} more {what} than executions that led to them"));
            }
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), String> {
        for row in self.ledger().rows("SELECT id FROM notifications WHERE status = 'sent'", args![]) {
            self.arrived(&row.get::<String>("id").expect("an id"))?;
        }
        for id in self.acknowledged.iter().filter_map(Acknowledged::notification) {
            if self.ledger().rows("SELECT id FROM notifications WHERE id = $1", args![id]).is_empty() {
                return Err(format!("{id} was acknowledged and is gone"));
            }
        }
        Ok(())
    }

    /// A turn that was acknowledged is there, and what was said in it is kept whole.
    fn check_turns(&self) -> Result<(), String> {
        for id in self.acknowledged.iter().filter_map(Acknowledged::turn) {
            let sql = "SELECT s.status AS status, m.content AS content, m.role AS role FROM sessions s \
                       LEFT JOIN messages m ON m.session_id = s.id AND m.role = 'assistant' WHERE s.id = $1";
            let rows = self.ledger().rows(sql, args![id]);
            let [row] = rows.as_slice() else {
                return Err(format!("the turn {id} was acknowledged and has {} answers", rows.len()));
            };
            let (status, content): (String, Option<String>) =
                (row.get("status").expect("a status"), row.get("content").expect("a text"));
            if status == "done" && !content.as_ref().is_some_and(|content| content.starts_with(SAID)) {
                return Err(format!("the turn {id} is done, and its answer is {content:?}"));
            }
        }
        let sql = "SELECT COUNT(*) FROM job_runs r JOIN sessions s ON s.id = r.session_id \
                   WHERE r.status = 'success' AND s.status <> 'done'";
        match self.ledger().number(sql) {
            0 => Ok(()),
            runs => Err(format!("{runs} runs succeeded without an answer")),
        }
    }

    /// What there may be only so many of.
    fn check_counts(&self) -> Result<(), String> {
        let too_many = [
            (
                "messages at one place of a conversation",
                "SELECT COUNT(*) - 1 FROM messages GROUP BY conversation_id, position HAVING COUNT(*) > 1".to_owned(),
            ),
            (
                "turns that an agent began by itself on one day",
                format!("SELECT COUNT(*) FROM proactive_turns GROUP BY day HAVING COUNT(*) > {PROACTIVE_TURNS_A_DAY}"),
            ),
            (
                "firings of one alert at a time",
                "SELECT COUNT(*) FROM alert_firings WHERE ended_at IS NULL GROUP BY alert_id HAVING COUNT(*) > 1"
                    .to_owned(),
            ),
        ];
        for (what, sql) in too_many {
            if self.ledger().number(&sql) != 0 {
                return Err(format!("there are too many {what}"));
            }
        }
        Ok(())
    }

    fn arrived(&self, key: &str) -> Result<(), String> {
        let is_there = self.world.came_as(key).iter().any(|arrival| arrival.outcome == Outcome::Accepted);
        if is_there { Ok(()) } else { Err(format!("{key} counts as sent, and nobody got it")) }
    }
}

/// Events that the hooks have not been read for.
const UNREAD: &str = "SELECT COUNT(*) FROM outbox WHERE event_type = 'memory.stored' AND seq > \
                      COALESCE((SELECT seq FROM cursors WHERE consumer = 'hooks'), 0)";

impl Acknowledged {
    fn event(&self) -> Option<&str> {
        if let Self::Event(id) = self { Some(id) } else { None }
    }

    fn notification(&self) -> Option<&str> {
        if let Self::Notification(id) = self { Some(id) } else { None }
    }

    fn turn(&self) -> Option<&str> {
        if let Self::Turn(id) = self { Some(id) } else { None }
    }
}
