-- A hash of the words of the content, by which repeated episodes are found; NULL for a text without words.
ALTER TABLE episodes ADD COLUMN wording BIGINT;
CREATE INDEX episodes_wording ON episodes (agent_id, wording, number) WHERE wording IS NOT NULL;
