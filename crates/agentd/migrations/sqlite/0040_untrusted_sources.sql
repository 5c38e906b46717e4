-- Where the untrusted text comes from that an approval asks because of, and that a summary was made of: JSON lists.
ALTER TABLE approvals ADD COLUMN untrusted_sources TEXT;
ALTER TABLE conversations ADD COLUMN summary_sources TEXT;
-- Whether an episode was made from untrusted text, as all are that hooks store.
ALTER TABLE episodes ADD COLUMN is_untrusted BIGINT NOT NULL DEFAULT 0;
UPDATE episodes SET is_untrusted = 1 WHERE source = 'hook';
