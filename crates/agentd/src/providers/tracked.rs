//! A backend that remembers how its provider did, so that the list of providers can say it.

use std::sync::Arc;

use agentd_base::Clock;
use agentd_llm::{ModelBackend, ModelError, ModelEvent, ModelRequest, ModelStream};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use super::model::LastOutcome;
use super::service::Outcomes;

#[derive(Debug)]
pub(super) struct Tracked {
    inner: Arc<dyn ModelBackend>,
    note: Note,
}

#[derive(Debug, Clone)]
struct Note {
    provider: Arc<str>,
    clock: Clock,
    outcomes: Outcomes,
}

impl Note {
    fn take(&self, error: Option<&ModelError>) {
        let outcome = LastOutcome::of(error, self.clock.now());
        let mut outcomes = self.outcomes.write();
        match outcomes.get_mut(&*self.provider) {
            Some(last) => *last = outcome,
            None => {
                outcomes.insert(self.provider.to_string(), outcome);
            }
        }
    }
}

impl Tracked {
    pub(super) fn new(inner: Arc<dyn ModelBackend>, provider: &str, clock: Clock, outcomes: Outcomes) -> Self {
        Self { inner, note: Note { provider: provider.into(), clock, outcomes } }
    }
}

impl ModelBackend for Tracked {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            let stream = self.inner.generate(request).await.inspect_err(|error| self.note.take(Some(error)))?;
            let note = self.note.clone();
            let noted = stream.inspect(move |event| match event {
                Ok(ModelEvent::Finished(_)) => note.take(None),
                Ok(_) => {}
                Err(error) => note.take(Some(error)),
            });
            Ok(Box::pin(noted) as ModelStream)
        })
    }
}
