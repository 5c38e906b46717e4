-- What agents remember. `number` is the order of creation and what the search indexes know an episode by.
CREATE TABLE episodes (
    number INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT,
    source TEXT NOT NULL,
    -- What it was made from, so that it is made once.
    origin TEXT UNIQUE,
    content TEXT NOT NULL,
    summary TEXT,
    topics TEXT NOT NULL,
    -- In millionths, so that sums are exact.
    importance BIGINT NOT NULL,
    valence BIGINT NOT NULL,
    access_count BIGINT NOT NULL,
    -- How often an answer was judged after it was recalled, and how often the answer made use of it.
    judged_count BIGINT NOT NULL DEFAULT 0,
    used_count BIGINT NOT NULL DEFAULT 0,
    -- The newer episode that says otherwise.
    superseded_by TEXT,
    -- Whose vectors it has; NULL while it has none.
    embedding_model TEXT,
    -- By which rules entities were looked for; 0: not yet.
    extraction BIGINT NOT NULL,
    occurred_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- When it was last stored, recalled or changed.
    touched_at BIGINT NOT NULL
);
CREATE INDEX episodes_agent ON episodes (agent_id, number);
CREATE INDEX episodes_superseded ON episodes (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX episodes_touched ON episodes (touched_at, number);
CREATE INDEX episodes_own_importance ON episodes (importance, number) WHERE origin IS NOT NULL;
CREATE INDEX episodes_embedding ON episodes (embedding_model, number);
CREATE INDEX episodes_extraction ON episodes (extraction, number);

-- Little-endian 32-bit floats, one row for each part of a long text.
CREATE TABLE episode_vectors (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    part BIGINT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (episode, part)
) WITHOUT ROWID;

CREATE TABLE entities (
    number INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    entity_type TEXT NOT NULL,
    entity_key TEXT NOT NULL,
    name TEXT NOT NULL,
    mentions BIGINT NOT NULL,
    UNIQUE (entity_type, entity_key)
);
CREATE INDEX entities_mentions ON entities (mentions, number);

CREATE TABLE episode_entities (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    entity BIGINT NOT NULL REFERENCES entities (number),
    mentions BIGINT NOT NULL,
    PRIMARY KEY (episode, entity)
) WITHOUT ROWID;
CREATE INDEX episode_entities_entity ON episode_entities (entity, episode);

-- Weights in thousandths.
CREATE TABLE entity_relations (
    source BIGINT NOT NULL REFERENCES entities (number),
    target BIGINT NOT NULL REFERENCES entities (number),
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    episodes BIGINT NOT NULL,
    PRIMARY KEY (source, target, relation_type)
) WITHOUT ROWID;
CREATE INDEX entity_relations_weight ON entity_relations (weight);
CREATE INDEX entity_relations_target ON entity_relations (target);

CREATE TABLE episode_relations (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    source BIGINT NOT NULL,
    target BIGINT NOT NULL,
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    PRIMARY KEY (episode, source, target, relation_type)
) WITHOUT ROWID;

-- Figures of the statistics, changed with what they count.
CREATE TABLE memory_counts (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Simple facts that episodes of agents state; two values of one attribute contradict each other.
CREATE TABLE episode_facts (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    place BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    attribute TEXT NOT NULL,
    value TEXT NOT NULL,
    polarity BIGINT NOT NULL,
    PRIMARY KEY (episode, place)
) WITHOUT ROWID;
CREATE INDEX episode_facts_of ON episode_facts (agent_id, subject, attribute);

-- How far a conversation was gone through: the position of its last message, and the revision that was
-- seen whole, by what remembers messages and by what sums conversations up.
CREATE TABLE memory_talks (
    conversation_id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    through BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    insight_revision BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_talks_agent ON memory_talks (agent_id);

-- Long work: who does it, and how far it is. `place` is where the next run goes on.
CREATE TABLE memory_jobs (
    name TEXT PRIMARY KEY NOT NULL,
    owner TEXT,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    place BIGINT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    processed BIGINT NOT NULL,
    created BIGINT NOT NULL,
    merged BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    updated_at BIGINT NOT NULL
) WITHOUT ROWID;
