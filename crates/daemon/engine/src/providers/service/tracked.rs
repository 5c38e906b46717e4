//! A backend that notes how each of its calls ended.

use std::sync::Arc;
use std::time::Instant;

use agentd_core::runtime::Series;
use agentd_llm::{ModelBackend, ModelError, ModelEvent, ModelRequest, ModelStream};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::Providers;
use crate::providers::model::Outcome;

/// What [`Providers::resolve`] hands out, so that nobody who calls a model can forget to report.
pub(super) struct TrackedBackend {
    pub(super) inner: Arc<dyn ModelBackend>,
    pub(super) provider: &'static str,
    /// Of the model inside.
    pub(super) file: Option<String>,
    pub(super) providers: Providers,
}

impl std::fmt::Debug for TrackedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl ModelBackend for TrackedBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        async move {
            let (providers, provider, file) = (self.providers.clone(), self.provider, self.file.clone());
            let (recorder, began) = (providers.0.recorder.clone(), Instant::now());
            let events = match self.inner.generate(request).await {
                Ok(events) => events,
                Err(error) => {
                    recorder.record(Series::ModelCall, provider, began.elapsed(), Outcome::is_of_provider(&error));
                    providers.report_outcome_of(provider, file, Err(&error)).await;
                    return Err(error);
                }
            };
            let tracked = events.then(move |event| {
                let (providers, file) = (providers.clone(), file.clone());
                let is_error = event.as_ref().err().is_some_and(Outcome::is_of_provider);
                if matches!(event, Err(_) | Ok(ModelEvent::Finished(_))) {
                    recorder.record(Series::ModelCall, provider, began.elapsed(), is_error);
                }
                async move {
                    match &event {
                        Ok(ModelEvent::Finished(_)) => providers.report_outcome_of(provider, file, Ok(())).await,
                        Err(error) => providers.report_outcome_of(provider, file, Err(error)).await,
                        Ok(_) => {}
                    }
                    event
                }
            });
            Ok(tracked.boxed() as ModelStream)
        }
        .boxed()
    }
}
