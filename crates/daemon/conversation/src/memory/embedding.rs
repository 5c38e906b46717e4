//! Vectors and named entities that the built-in embedding model computes from texts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_entities::{EntityRef, EntityType, TaggedName, extract};
use agentd_inference::embedder::{EmbeddedText, Embedder, NameKind, NamedSpan};
use agentd_inference::{LocalError, LocalErrorCode};
use agentd_store::{Db, StoreError};

use super::error::MemoryError;
use super::store::entities::{EntityKey, ExtractedEntities, ExtractedEntity};
use super::store::episodes;

/// Version of the tagger, its word lists and its relation rules. Increment it when results change; episodes of an older
/// version can then be extracted again.
pub(super) const TAGGER_VERSION: i64 = 3;
/// Maximum number of entities of an episode.
const MAX_ENTITIES: usize = 100;
/// Maximum number of relations of an episode.
const MAX_RELATIONS: usize = 200;

/// Result of embedding a text.
#[derive(Debug, Clone)]
pub(crate) struct Embedded {
    pub(super) model: String,
    /// One vector per chunk of the text.
    pub(super) vectors: Vec<Vec<f32>>,
    /// Names found in the text; `None` if the model has no tagger.
    pub(super) names: Option<Vec<TaggedName>>,
}

impl Embedded {
    fn of(text: EmbeddedText, model: &str) -> Self {
        let has_words = !text.chunks.is_empty();
        let names = text.names.or_else(|| (!has_words).then(Vec::new));
        Self {
            model: model.to_owned(),
            vectors: text.chunks.into_iter().map(|chunk| chunk.vector).collect(),
            names: names.map(|names| names.into_iter().map(tagged).collect()),
        }
    }

    /// Returns the entities in `text`, the embedded text; `None` if the model has no tagger.
    pub(super) fn find_entities(&self, text: &str) -> Option<ExtractedEntities> {
        let extraction = extract(text, self.names.as_deref()?);
        let mut found = ExtractedEntities::default();
        for mention in extraction.mentions {
            let key = EntityKey { entity_type: mention.entity_type.as_str().to_owned(), key: mention.key };
            if found.entities.len() >= MAX_ENTITIES && !found.entities.contains_key(&key) {
                continue;
            }
            let entity =
                found.entities.entry(key).or_insert_with(|| ExtractedEntity { name: mention.name, mentions: 0 });
            entity.mentions += 1;
        }
        for relation in extraction.relations {
            let end = |end: EntityRef| EntityKey { entity_type: end.entity_type.as_str().to_owned(), key: end.key };
            let (source, target) = (end(relation.source), end(relation.target));
            let is_known = found.entities.contains_key(&source) && found.entities.contains_key(&target);
            if !is_known || source == target || found.relations.len() >= MAX_RELATIONS {
                continue;
            }
            #[allow(clippy::cast_possible_truncation, reason = "a small weight")]
            let thousandths = (relation.weight * 1e3).round() as i64;
            let weight =
                found.relations.entry((source, target, relation.relation_type.as_str().to_owned())).or_default();
            *weight += thousandths.max(1);
        }
        Some(found)
    }
}

fn tagged(name: NamedSpan) -> TaggedName {
    let entity_type = match name.kind {
        NameKind::Person => Some(EntityType::Person),
        NameKind::Organization => Some(EntityType::Organization),
        NameKind::Place => Some(EntityType::Place),
        NameKind::Other => None,
    };
    TaggedName { range: name.range, entity_type }
}

/// Reason reported when a model is installed that has no tagger.
pub(super) const NO_TAGGER_REASON: &str = "the installed embedding model is not the default one";

/// Text that a model must embed before it replaces the model of the stored vectors.
const TRIAL_TEXT: &str = "word";

#[derive(Debug)]
struct Inner {
    embedder: Arc<dyn Embedder>,
    db: Db,
    /// Id of the model that last embedded a text successfully.
    proven: parking_lot::Mutex<Option<String>>,
    /// Whether the last embedded texts were tagged; initially true.
    has_tagger: AtomicBool,
}

/// Embedding of texts with the configured model. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Embedding(Arc<Inner>);

impl Embedding {
    pub(super) fn new(embedder: Arc<dyn Embedder>, db: Db) -> Self {
        Self(Arc::new(Inner { embedder, db, proven: parking_lot::Mutex::default(), has_tagger: true.into() }))
    }

    pub(super) fn dimensions(&self) -> usize {
        self.0.embedder.dimensions()
    }

    /// Returns the id of the model that computes vectors; `None` while no model works. A damaged model file has an id
    /// too, so a model that differs from the one of the stored vectors must first embed a trial text.
    pub(super) async fn model_id(&self) -> Option<String> {
        let id = self.0.embedder.model_id().await.ok()?;
        if self.is_proven(&id) {
            return Some(id);
        }
        match self.stored_model().await {
            Ok(None) => return Some(id),
            Ok(Some(stored)) if stored == id => {}
            Ok(Some(_)) => {
                self.0.embedder.embed_query(TRIAL_TEXT).await.ok()?;
            }
            Err(error) => {
                tracing::debug!(%error, "failed to read the model of the stored vectors");
                return None;
            }
        }
        self.mark_proven(&id);
        Some(id)
    }

    /// Returns why no model is installed. An installed model may still fail.
    pub(super) async fn missing_reason(&self) -> Option<String> {
        self.0.embedder.model_id().await.err().map(|error| error.message)
    }

    /// Returns why the tagger is unavailable; `None` if it works.
    pub(super) async fn tagger_problem(&self) -> Option<String> {
        match self.missing_reason().await {
            Some(problem) => Some(problem),
            None => (!self.0.has_tagger.load(Ordering::Relaxed)).then(|| NO_TAGGER_REASON.to_owned()),
        }
    }

    async fn stored_model(&self) -> Result<Option<String>, StoreError> {
        episodes::newest_model(&mut self.0.db.read().await?).await
    }

    fn is_proven(&self, model: &str) -> bool {
        self.0.proven.lock().as_deref() == Some(model)
    }

    fn mark_proven(&self, model: &str) {
        *self.0.proven.lock() = Some(model.to_owned());
    }

    /// Returns the vector of a search query; `None` if it contains no words.
    pub(super) async fn embed_query(&self, text: &str) -> Result<Option<Vec<f32>>, MemoryError> {
        match self.0.embedder.embed_query(text).await {
            Ok(vector) => Ok(Some(vector)),
            Err(error) if error.code == LocalErrorCode::Invalid => Ok(None),
            Err(error) => Err(MemoryError::NoEmbedder { reason: error.message }),
        }
    }

    /// Embeds texts; results are in the order of `texts`.
    pub(super) async fn embed_texts(&self, texts: Vec<String>) -> Result<Vec<Embedded>, LocalError> {
        let model = self.0.embedder.model_id().await?;
        let embedded = self.0.embedder.embed_texts(texts).await?;
        if !self.is_proven(&model) {
            self.mark_proven(&model);
        }
        let embedded: Vec<Embedded> = embedded.into_iter().map(|text| Embedded::of(text, &model)).collect();
        self.0.has_tagger.store(embedded.iter().all(|text| text.names.is_some()), Ordering::Relaxed);
        Ok(embedded)
    }

    /// Embeds texts that are about to be stored; see [`embed_text`](Self::text).
    pub(super) async fn embed_texts_or_none(&self, texts: Vec<String>) -> Vec<Option<Embedded>> {
        let count = texts.len();
        if count == 0 {
            return Vec::new();
        }
        match self.embed_texts(texts).await {
            Ok(embedded) => embedded.into_iter().map(Some).collect(),
            Err(error) => {
                if error.code != LocalErrorCode::ModelMissing {
                    tracing::warn!(%error, "failed to embed episodes; storing them without vectors");
                }
                vec![None; count]
            }
        }
    }

    /// Embeds one text that is about to be stored. A text that cannot be embedded is stored without a vector; a
    /// background worker embeds it later.
    pub(super) async fn embed_text(&self, text: &str) -> Option<Embedded> {
        match self.embed_texts(vec![text.to_owned()]).await {
            Ok(embedded) => embedded.into_iter().next(),
            Err(error) if error.code == LocalErrorCode::ModelMissing => None,
            Err(error) => {
                tracing::warn!(%error, "failed to embed episode; storing it without vectors");
                None
            }
        }
    }
}
