//! Errors of memory.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_engine::agents::AgentError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("the request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("episode `{id}` not found; list episodes with GET /api/memory/episodes")]
    NotFound { id: String },
    #[error(
        "cluster `{id}` not found; clusters change with memory, list the current ones with GET /api/memory/clusters"
    )]
    NoCluster { id: String },
    #[error("memory is disabled; enable it with PUT /api/settings/memory {{\"enabled\": true}}")]
    Disabled,
    #[error("semantic search is unavailable: {reason}; use mode=keyword instead")]
    NoEmbedder { reason: String },
    #[error(
        "entity extraction by rules is unavailable: {reason}; install the default embedding model, or set \
         `entity_extraction` to `llm`"
    )]
    NoTagger { reason: String },
    #[error("the search index could not be read and is being rebuilt from the stored episodes; retry shortly")]
    Index(#[source] agentd_search_index::IndexError),
    #[error("the folder of the search index could not be created; check the permissions of the data directory")]
    IndexFolder {
        #[source]
        source: std::io::Error,
    },
    #[error("job `{name}` is already running; follow it with GET /api/memory/jobs")]
    JobRunning { name: &'static str },
    #[error(
        "entity extraction is disabled; enable it with PUT /api/settings/memory {{\"entity_extraction\": \"rules\"}}"
    )]
    ExtractionOff,
    /// Another run processed this part of the work first.
    #[error("another run is processing the same data; retry when it has ended")]
    Overtaken,
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for MemoryError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::NotFound { .. } | Self::NoCluster { .. } => ErrorKind::NotFound,
            Self::JobRunning { .. } | Self::Overtaken => ErrorKind::Conflict,
            Self::Disabled | Self::ExtractionOff | Self::NoEmbedder { .. } | Self::NoTagger { .. } | Self::Index(_) => {
                ErrorKind::Unavailable
            }
            Self::IndexFolder { .. } => ErrorKind::Internal,
            Self::Agent(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::NotFound { .. } | Self::NoCluster { .. } => "not_found",
            Self::Disabled => "memory_disabled",
            Self::NoEmbedder { .. } | Self::NoTagger { .. } => "no_embedding_model",
            Self::JobRunning { .. } | Self::Overtaken => "job_running",
            Self::ExtractionOff => "entity_extraction_off",
            Self::Index(_) | Self::IndexFolder { .. } => "index_unavailable",
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
