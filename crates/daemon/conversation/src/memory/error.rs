//! Errors of memory.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_engine::agents::AgentError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("some fields are not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("there is no episode `{id}`; GET /api/memory/episodes lists them")]
    NotFound { id: String },
    #[error(
        "there is no cluster `{id}` any more; clusters change with memory, GET /api/memory/clusters lists them anew"
    )]
    NoCluster { id: String },
    #[error("memory is switched off; PUT /api/settings/memory {{\"enabled\": true}} switches it on")]
    Disabled,
    #[error("semantic search needs the embedding model, which is not there: {reason}; mode=keyword works without it")]
    NoEmbedder { reason: String },
    #[error(
        "entities are found by a tagger that needs the default embedding model: {reason}; add that model, or set \
         `entity_extraction` to `llm`"
    )]
    NoTagger { reason: String },
    #[error("the search index could not be read; it is built anew from the stored episodes, try again in a moment")]
    Index(#[source] agentd_search_index::IndexError),
    #[error("the folder of the search index cannot be made; look at the rights of the data directory")]
    IndexFolder {
        #[source]
        source: std::io::Error,
    },
    #[error("`{name}` is being done already; GET /api/memory/jobs shows how far it is")]
    JobRunning { name: &'static str },
    #[error(
        "entities are not looked for; PUT /api/settings/memory {{\"entity_extraction\": \"rules\"}} switches it on"
    )]
    ExtractionOff,
    /// Another run processed this part of the work first.
    #[error("another run does this already; try again when it is done")]
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
