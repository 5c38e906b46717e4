//! What the built-in embedding model makes of texts: vectors, and the entities that it tags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_entities::{EntityRef, EntityType, TaggedName, extract};
use agentd_inference::embedder::{EmbeddedText, Embedder, NameKind, NamedSpan};
use agentd_inference::{LocalError, LocalErrorCode};
use agentd_store::{Db, StoreError};

use super::error::MemoryError;
use super::store::entities::{EntityKey, Found, FoundEntity};
use super::store::episodes;

/// Raised when tagger, lists or relations find something else than before; what was extracted by an older version can
/// then be extracted again.
pub(super) const TAGGER_VERSION: i64 = 3;
/// Maximum number of entities of an episode.
const MAX_ENTITIES: usize = 100;
/// Maximum number of relations of an episode.
const MAX_RELATIONS: usize = 200;

/// What could be made of a text.
#[derive(Debug, Clone)]
pub(crate) struct Embedded {
    pub(super) model: String,
    /// One a part of the text.
    pub(super) vectors: Vec<Vec<f32>>,
    /// The names in the text; `None` if this model has no tagger.
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

    /// The entities in `text`, which this was made of; `None` if this model has no tagger.
    pub(super) fn find_entities(&self, text: &str) -> Option<Found> {
        let extraction = extract(text, self.names.as_deref()?);
        let mut found = Found::default();
        for mention in extraction.mentions {
            let key = EntityKey { entity_type: mention.entity_type.as_str().to_owned(), key: mention.key };
            if found.entities.len() >= MAX_ENTITIES && !found.entities.contains_key(&key) {
                continue;
            }
            let entity = found.entities.entry(key).or_insert_with(|| FoundEntity { name: mention.name, mentions: 0 });
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

/// Why there is no tagger although there is a model.
pub(super) const OTHER_MODEL: &str = "it was made for the default embedding model, and another one is in its place";

/// What a model that was not seen at work yet has to embed.
const TRIAL: &str = "word";

#[derive(Debug)]
struct Inner {
    embedder: Arc<dyn Embedder>,
    db: Db,
    /// The model that was seen at work last.
    proven: parking_lot::Mutex<Option<String>>,
    /// Whether the last embedded texts were tagged; true before the first.
    has_tagger: AtomicBool,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Embedding(Arc<Inner>);

impl Embedding {
    pub(super) fn new(embedder: Arc<dyn Embedder>, db: Db) -> Self {
        Self(Arc::new(Inner { embedder, db, proven: parking_lot::Mutex::default(), has_tagger: true.into() }))
    }

    pub(super) fn dimensions(&self) -> usize {
        self.0.embedder.dimensions()
    }

    /// Whose vectors these are; `None` while there is no model that works. A damaged file has an id as well:
    /// before another model takes the place of the one whose vectors are stored, it must have embedded something.
    pub(super) async fn model_id(&self) -> Option<String> {
        let id = self.0.embedder.model_id().await.ok()?;
        if self.is_proven(&id) {
            return Some(id);
        }
        match self.stored_model().await {
            Ok(None) => return Some(id),
            Ok(Some(stored)) if stored == id => {}
            Ok(Some(_)) => {
                self.0.embedder.embed_query(TRIAL).await.ok()?;
            }
            Err(error) => {
                tracing::debug!(%error, "whose vectors are stored is not known now");
                return None;
            }
        }
        self.prove(&id);
        Some(id)
    }

    /// Why there is no model. One that is there need not work.
    pub(super) async fn missing(&self) -> Option<String> {
        self.0.embedder.model_id().await.err().map(|error| error.message)
    }

    /// Why names are not found in texts; `None` if they are.
    pub(super) async fn tagger_problem(&self) -> Option<String> {
        match self.missing().await {
            Some(problem) => Some(problem),
            None => (!self.0.has_tagger.load(Ordering::Relaxed)).then(|| OTHER_MODEL.to_owned()),
        }
    }

    async fn stored_model(&self) -> Result<Option<String>, StoreError> {
        episodes::newest_model(&mut self.0.db.read().await?).await
    }

    fn is_proven(&self, model: &str) -> bool {
        self.0.proven.lock().as_deref() == Some(model)
    }

    fn prove(&self, model: &str) {
        *self.0.proven.lock() = Some(model.to_owned());
    }

    /// The vector of what is asked for; `None` where it holds no word.
    pub(super) async fn query(&self, text: &str) -> Result<Option<Vec<f32>>, MemoryError> {
        match self.0.embedder.embed_query(text).await {
            Ok(vector) => Ok(Some(vector)),
            Err(error) if error.code == LocalErrorCode::Invalid => Ok(None),
            Err(error) => Err(MemoryError::NoEmbedder { reason: error.message }),
        }
    }

    /// Vectors for texts, in order.
    pub(super) async fn texts(&self, texts: Vec<String>) -> Result<Vec<Embedded>, LocalError> {
        let model = self.0.embedder.model_id().await?;
        let embedded = self.0.embedder.embed_texts(texts).await?;
        if !self.is_proven(&model) {
            self.prove(&model);
        }
        let embedded: Vec<Embedded> = embedded.into_iter().map(|text| Embedded::of(text, &model)).collect();
        self.0.has_tagger.store(embedded.iter().all(|text| text.names.is_some()), Ordering::Relaxed);
        Ok(embedded)
    }

    /// The same for texts that are about to be stored; see [`text`](Self::text).
    pub(super) async fn texts_or_none(&self, texts: Vec<String>) -> Vec<Option<Embedded>> {
        let count = texts.len();
        if count == 0 {
            return Vec::new();
        }
        match self.texts(texts).await {
            Ok(embedded) => embedded.into_iter().map(Some).collect(),
            Err(error) => {
                if error.code != LocalErrorCode::ModelMissing {
                    tracing::warn!(%error, "episodes are stored without their meaning, which follows later");
                }
                vec![None; count]
            }
        }
    }

    /// Vectors for one text that is about to be stored. What cannot be embedded now is stored all the
    /// same, and embedded in the background when that is possible again.
    pub(super) async fn text(&self, text: &str) -> Option<Embedded> {
        match self.texts(vec![text.to_owned()]).await {
            Ok(embedded) => embedded.into_iter().next(),
            Err(error) if error.code == LocalErrorCode::ModelMissing => None,
            Err(error) => {
                tracing::warn!(%error, "an episode is stored without its meaning, which follows later");
                None
            }
        }
    }
}
