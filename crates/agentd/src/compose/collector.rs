//! What a collector of spans is told, where there is one: by whom, and of which requests.

use std::sync::Arc;

use agentd_base::Clock;
use agentd_net::{GuardedClient, Trust};
use agentd_otlp::{Attribute, Span, SpanKind, Tracer};
use agentd_web::{AnsweredRequest, RequestSpans};

use crate::runtime::AppContext;
use crate::settings::Settings;

/// Starts what sends spans. The owner typed in where they go.
pub(super) fn start_export(context: &AppContext, settings: &Settings) {
    if !context.tracer.is_on() {
        return;
    }
    let resource: Arc<[(&'static str, Attribute)]> = Arc::new([
        ("service.name", "agentd".into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("service.instance.id", (&*context.instance).into()),
    ]);
    let client = GuardedClient::new(settings.policy(), Trust::Owner);
    let (tracer, entropy) = (context.tracer.clone(), context.entropy.clone());
    let export = move || tracer.clone().export(client.clone(), entropy.clone(), Arc::clone(&resource));
    context.supervise("otlp.export", export);
}

/// Spans of requests to the API. Probes and metrics are asked for all the time and tell nothing.
struct TraceRequests {
    tracer: Tracer,
    clock: Clock,
}

/// Who is told of requests, where somebody collects spans.
pub(super) fn request_spans(context: &AppContext) -> Option<Arc<dyn RequestSpans>> {
    let (tracer, clock) = (context.tracer.clone(), context.clock.clone());
    tracer.is_on().then(|| Arc::new(TraceRequests { tracer, clock }) as Arc<dyn RequestSpans>)
}

impl RequestSpans for TraceRequests {
    fn answered(&self, request: &AnsweredRequest<'_>) {
        if !request.route.starts_with("/api/") {
            return;
        }
        self.tracer.record(|| {
            let ended_at = self.clock.now();
            let status = request.status;
            let mut attributes = vec![
                ("http.request.method", request.method.as_str().into()),
                ("http.route", request.route.into()),
                ("http.response.status_code", u64::from(status.as_u16()).into()),
            ];
            // Of a server, what a client did wrong is no error.
            let is_error = status.is_server_error();
            if is_error {
                attributes.push(("error.type", status.as_str().into()));
            }
            Span {
                place: request.trace.context,
                parent: request.trace.parent,
                name: format!("{} {}", request.method, request.route),
                kind: SpanKind::Server,
                started_at: ended_at - request.elapsed,
                ended_at,
                attributes,
                error: is_error.then(|| status.to_string()),
            }
        });
    }
}
