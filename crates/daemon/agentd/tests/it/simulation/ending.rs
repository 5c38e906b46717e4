//! End of a seed: the faults stop, leases expire, and all work must complete, either by all daemons or by a single
//! one.

use std::collections::BTreeSet;
use std::time::Duration;

use agentd_store::args;

use super::node::{Run, WORKERS};
use super::run::{Acknowledged, Simulation};
use super::template::MAX_PROACTIVE_TURNS_PER_DAY;
use super::world::{Answer, MODEL_ANSWER, Outcome};

/// Maximum number of rounds of all workers until everything has completed.
const MAX_ROUNDS: u32 = 400;
/// Queries for the earliest due time of unfinished work.
const UNFINISHED_WORK: [(&str, &str); 6] = [
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
                // Workers that create new work are not run.
                for worker in WORKERS.iter().filter(|worker| !["scheduler.tick", "alerts.evaluate"].contains(worker)) {
                    if let Some(node) = self.nodes[slot].as_mut() {
                        node.begin(worker);
                    }
                }
                self.run(slot, Run::Idle)?;
            }
            let open = self.world.open();
            for number in &open {
                self.send_answer(*number, Answer::Success);
            }
            if !open.is_empty() {
                continue;
            }
            let unfinished = self.unfinished();
            let is_read = self.ledger().number(UNREAD) == 0;
            if unfinished.is_empty() && is_read {
                break;
            }
            if round >= MAX_ROUNDS {
                return Err(format!("after {round} rounds without faults this work is unfinished: {unfinished:?}"));
            }
            let due = unfinished.iter().map(|(_, due)| *due).min().unwrap_or_default();
            let wait = due.saturating_sub(self.now().as_micros()).clamp(1_100_000, 600_000_000);
            self.advance(Duration::from_micros(u64::try_from(wait).unwrap_or_default()));
        }
        self.check_events()?;
        self.check_messages()?;
        self.check_turns()?;
        self.check_counts()
    }

    fn unfinished(&self) -> Vec<(&'static str, i64)> {
        let due = |sql: &str| {
            let rows = self.ledger().rows(sql, args![]);
            rows.first().and_then(|row| row.first::<Option<i64>>().expect("a time"))
        };
        UNFINISHED_WORK.iter().filter_map(|(table, sql)| Some((*table, due(sql)?))).collect()
    }

    /// Checks that every acknowledged event was processed exactly once by each hook.
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
            ("the hook that sends inline", done("hook_executions", &template.inline_hook)),
        ];
        for event in self.acknowledged.iter().filter_map(Acknowledged::event) {
            for (hook, processed) in &by_hook {
                if !processed.contains(event) {
                    return Err(format!("{hook} did not process the acknowledged event {event}"));
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
                return Err(format!("there are {more} more {what} than executions that caused them"));
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
                return Err(format!("{id} was acknowledged but does not exist"));
            }
        }
        Ok(())
    }

    /// Checks that every acknowledged turn exists and its answer is stored completely.
    fn check_turns(&self) -> Result<(), String> {
        for id in self.acknowledged.iter().filter_map(Acknowledged::turn) {
            let sql = "SELECT s.status AS status, m.content AS content, m.role AS role FROM sessions s \
                       LEFT JOIN messages m ON m.session_id = s.id AND m.role = 'assistant' WHERE s.id = $1";
            let rows = self.ledger().rows(sql, args![id]);
            let [row] = rows.as_slice() else {
                return Err(format!("the acknowledged turn {id} has {} answers", rows.len()));
            };
            let (status, content): (String, Option<String>) =
                (row.get("status").expect("a status"), row.get("content").expect("a text"));
            if status == "done" && !content.as_ref().is_some_and(|content| content.starts_with(MODEL_ANSWER)) {
                return Err(format!("the turn {id} is done with the answer {content:?}"));
            }
        }
        let sql = "SELECT COUNT(*) FROM job_runs r JOIN sessions s ON s.id = r.session_id \
                   WHERE r.status = 'success' AND s.status <> 'done'";
        match self.ledger().number(sql) {
            0 => Ok(()),
            runs => Err(format!("{runs} runs succeeded without an answer")),
        }
    }

    /// Checks limits on the number of rows.
    fn check_counts(&self) -> Result<(), String> {
        let too_many = [
            (
                "messages at one position of a conversation",
                "SELECT COUNT(*) - 1 FROM messages GROUP BY conversation_id, position HAVING COUNT(*) > 1".to_owned(),
            ),
            (
                "proactive turns of one day",
                format!(
                    "SELECT COUNT(*) FROM proactive_turns GROUP BY day HAVING COUNT(*) > {MAX_PROACTIVE_TURNS_PER_DAY}"
                ),
            ),
            (
                "concurrent firings of one alert",
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
        let was_accepted = self.world.received_with_key(key).iter().any(|arrival| arrival.outcome == Outcome::Accepted);
        if was_accepted { Ok(()) } else { Err(format!("{key} counts as sent but was not received")) }
    }
}

/// Number of events that the hooks reader has not read.
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
