//! Builds the trace of a turn as a tree of spans from stored data: steps, tool events, approvals and the session row.
//! Times that were not recorded are omitted.

use std::collections::HashMap;

use agentd_base::Timestamp;
use agentd_store::StoreError;
use serde::Deserialize as _;
use serde_json::Value;

use crate::engine::model::{
    Approval, ApprovalStatus, AttemptEnd, CallStatus, EventKind, PLAN, Purpose, Session, SessionEvent, SessionStatus,
    SessionTrace, SpanError, SpanStatus, SpanTokens, SpanType, Step, StepKind, StoredAttempt, TraceSpan, dollars,
    elapsed_ms, source_name,
};
use crate::engine::state::EngineState;
use crate::engine::store;

/// Batch size is small because tool results may be long.
const EVENT_BATCH_SIZE: u32 = 64;
const MAX_MESSAGE_CHARACTERS: usize = 500;

pub(crate) async fn read_trace(engine: &EngineState, session: &Session) -> Result<SessionTrace, StoreError> {
    let calling = engine.live.find(&session.id).and_then(|live| live.calling());
    let mut read = engine.context.db.read_snapshot().await?;
    // Read again so that it is consistent with the snapshot.
    let session = store::find_session(&mut read, &session.id).await?.unwrap_or_else(|| session.clone());
    let mut tree = Tree::new(&session, engine.context.clock.now());
    for step in store::list_steps(&mut read, &session.id).await? {
        tree.add_step(step);
    }
    let mut seen = 0;
    loop {
        let events = store::list_tool_events(&mut read, &session.id, seen, EVENT_BATCH_SIZE).await?;
        for event in &events {
            seen = event.seq;
            tree.add_event(event);
        }
        if events.len() < EVENT_BATCH_SIZE as usize {
            break;
        }
    }
    for approval in store::approvals::list_of_session(&mut read, &session.id).await? {
        tree.add_approval(&approval);
    }
    if let Some((purpose, since)) = calling {
        tree.add_current_call(purpose, since);
    }
    Ok(tree.finish())
}

struct Tree<'s> {
    session: &'s Session,
    now: Timestamp,
    spans: Vec<TraceSpan>,
    /// Index in `spans` of each tool call.
    tools: HashMap<String, usize>,
    tokens: SpanTokens,
    cost_micro_usd: u64,
    unpriced_calls: u64,
    error: Option<SpanError>,
}

fn span(id: String, span_type: SpanType, name: &str, started_at: Option<Timestamp>) -> TraceSpan {
    TraceSpan {
        id,
        span_type,
        name: name.to_owned(),
        started_at,
        duration_ms: None,
        status: SpanStatus::Running,
        purpose: None,
        call_id: None,
        tokens: None,
        cost_estimate: None,
        error: None,
        episode_ids: Vec::new(),
        children: Vec::new(),
    }
}

impl<'s> Tree<'s> {
    fn new(session: &'s Session, now: Timestamp) -> Self {
        Self {
            session,
            now,
            spans: Vec::new(),
            tools: HashMap::new(),
            tokens: SpanTokens { source: "provider", ..SpanTokens::default() },
            cost_micro_usd: 0,
            unpriced_calls: 0,
            error: None,
        }
    }

    fn is_over(&self) -> bool {
        self.session.status != SessionStatus::Running
    }

    fn id_of(&self, name: &str) -> String {
        self.session.trace.part(&self.session.id, name).span_id.to_string()
    }

    fn add_step(&mut self, step: Step) {
        let mut new_span = match step.kind {
            StepKind::Recall => TraceSpan {
                status: SpanStatus::Done,
                episode_ids: Vec::deserialize(&step.data["episode_ids"]).unwrap_or_default(),
                ..span(step.id, SpanType::Recall, "recall", step.started_at)
            },
            StepKind::ModelCall => {
                // Another version of the daemon may have stored it in a different format.
                let Ok(stored) = serde_json::from_value::<StoredAttempt>(step.data) else { return };
                self.model_call(step.id, step.started_at, stored)
            }
        };
        new_span.duration_ms = elapsed_ms(step.started_at, step.ended_at);
        self.spans.push(new_span);
    }

    fn model_call(&mut self, id: String, started_at: Option<Timestamp>, stored: StoredAttempt) -> TraceSpan {
        let StoredAttempt { purpose, usage, cost_micro_usd, end } = stored;
        let tokens = SpanTokens {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            source: source_name(usage.source),
        };
        self.add_tokens(&tokens);
        match cost_micro_usd {
            Some(cost) => self.cost_micro_usd += cost,
            None => self.unpriced_calls += 1,
        }
        let (status, error) = match end {
            AttemptEnd::Done => (SpanStatus::Done, None),
            AttemptEnd::Failed { code, message } => (SpanStatus::Failed, Some(SpanError { code, message })),
            AttemptEnd::Abandoned => (SpanStatus::Cancelled, None),
            AttemptEnd::Interrupted => (SpanStatus::Interrupted, None),
        };
        TraceSpan {
            status,
            purpose: Some(purpose),
            tokens: Some(tokens),
            cost_estimate: cost_micro_usd.map(dollars),
            error,
            ..span(id, SpanType::ModelCall, &self.session.model, started_at)
        }
    }

    fn add_tokens(&mut self, tokens: &SpanTokens) {
        let sum = &mut self.tokens;
        sum.input_tokens += tokens.input_tokens;
        sum.output_tokens += tokens.output_tokens;
        sum.cache_read_tokens += tokens.cache_read_tokens;
        sum.cache_write_tokens += tokens.cache_write_tokens;
        sum.reasoning_tokens += tokens.reasoning_tokens;
        let certainty = |source: &str| ["missing", "estimated", "provider"].iter().position(|known| *known == source);
        if certainty(tokens.source) < certainty(sum.source) {
            sum.source = tokens.source;
        }
    }

    fn add_event(&mut self, event: &SessionEvent) {
        let data = event.value();
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        match event.kind {
            // A plan is represented by its model call.
            EventKind::ToolUse | EventKind::ToolResult if text("tool") == PLAN && text("call_id") == PLAN => {}
            EventKind::ToolUse => {
                self.tool(text("call_id"), text("tool"), event.at);
            }
            EventKind::ToolResult => {
                let status = serde_json::from_value(data["status"].clone()).unwrap_or(CallStatus::Failed);
                // Refused calls never ran; their approval has the reason.
                let is_refused = matches!(status, CallStatus::Rejected | CallStatus::Expired | CallStatus::Cancelled);
                if is_refused && !self.tools.contains_key(text("call_id")) {
                    return;
                }
                let tool = self.tool(text("call_id"), text("tool"), event.at);
                tool.duration_ms = elapsed_ms(tool.started_at, event.at);
                tool.status = match status {
                    CallStatus::Done => SpanStatus::Done,
                    CallStatus::Failed => SpanStatus::Failed,
                    CallStatus::Rejected => SpanStatus::Rejected,
                    CallStatus::Expired => SpanStatus::Expired,
                    CallStatus::Cancelled => SpanStatus::Cancelled,
                    CallStatus::Waiting | CallStatus::Running | CallStatus::Unknown => SpanStatus::Unknown,
                };
                if tool.status == SpanStatus::Failed {
                    let message = error_message(&data["output"]);
                    tool.error = Some(SpanError { code: "tool_error".to_owned(), message });
                }
            }
            EventKind::Error => {
                self.error = Some(SpanError { code: text("code").to_owned(), message: text("message").to_owned() });
            }
            EventKind::Start | EventKind::Token | EventKind::ApprovalRequest | EventKind::Done => {}
        }
    }

    /// Returns the span of a tool call; a new one starts at `at`.
    fn tool(&mut self, call_id: &str, tool: &str, at: Option<Timestamp>) -> &mut TraceSpan {
        let index = match self.tools.get(call_id) {
            Some(index) => *index,
            None => {
                let status = if self.is_over() { SpanStatus::Unknown } else { SpanStatus::Running };
                let new_span = span(self.id_of(call_id), SpanType::Tool, tool, at);
                self.spans.push(TraceSpan { status, call_id: Some(call_id.to_owned()), ..new_span });
                self.tools.insert(call_id.to_owned(), self.spans.len() - 1);
                self.spans.len() - 1
            }
        };
        &mut self.spans[index]
    }

    fn add_approval(&mut self, approval: &Approval) {
        let is_overdue = approval.status == ApprovalStatus::Pending && approval.expires_at <= self.now;
        let (status, ended_at) = match approval.status {
            ApprovalStatus::Pending if is_overdue => (SpanStatus::Expired, Some(approval.expires_at)),
            ApprovalStatus::Pending => (SpanStatus::Waiting, None),
            ApprovalStatus::Approved => (SpanStatus::Done, approval.decided_at),
            ApprovalStatus::Rejected => (SpanStatus::Rejected, approval.decided_at),
            ApprovalStatus::Expired => (SpanStatus::Expired, approval.decided_at),
            ApprovalStatus::Cancelled => (SpanStatus::Cancelled, approval.decided_at),
        };
        let began = Some(approval.requested_at);
        self.spans.push(TraceSpan {
            status,
            duration_ms: elapsed_ms(began, ended_at),
            call_id: approval.call_id.clone(),
            ..span(self.id_of(approval.id.as_str()), SpanType::Approval, &approval.tool, began)
        });
    }

    /// Adds the model call in progress in this process.
    fn add_current_call(&mut self, purpose: Purpose, since: Timestamp) {
        if self.is_over() {
            return;
        }
        let id = self.id_of("present call");
        let new_span = span(id, SpanType::ModelCall, &self.session.model, Some(since));
        self.spans.push(TraceSpan { purpose: Some(purpose), ..new_span });
    }

    fn finish(self) -> SessionTrace {
        let session = self.session;
        let mut children = self.spans;
        children.sort_by_key(|child| child.started_at.map_or(i64::MAX, Timestamp::as_micros));
        let has_called = children.iter().any(|child| child.tokens.is_some());
        let turn = span(
            session.trace.turn().span_id.to_string(),
            SpanType::Turn,
            session.agent_id.as_str(),
            Some(session.started_at),
        );
        SessionTrace {
            session_id: session.id.clone(),
            trace_id: session.trace.turn().trace_id.to_string(),
            unpriced_calls: self.unpriced_calls,
            span: TraceSpan {
                duration_ms: elapsed_ms(Some(session.started_at), session.completed_at),
                status: match session.status {
                    SessionStatus::Running if session.waiting_since.is_some() => SpanStatus::Waiting,
                    SessionStatus::Running => SpanStatus::Running,
                    SessionStatus::Done => SpanStatus::Done,
                    SessionStatus::Failed => SpanStatus::Failed,
                    SessionStatus::Cancelled => SpanStatus::Cancelled,
                    SessionStatus::Interrupted => SpanStatus::Interrupted,
                },
                tokens: has_called.then_some(self.tokens),
                cost_estimate: (has_called && self.unpriced_calls == 0).then(|| dollars(self.cost_micro_usd)),
                error: self.error,
                children,
                ..turn
            },
        }
    }
}

/// Returns the beginning of a tool's error message.
fn error_message(output: &Value) -> String {
    let message = output["error"].as_str().unwrap_or("the tool failed");
    message.chars().take(MAX_MESSAGE_CHARACTERS).collect()
}
