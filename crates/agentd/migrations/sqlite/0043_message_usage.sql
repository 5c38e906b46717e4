-- Who wrote a reply, with which model, and what the turn used.
ALTER TABLE messages ADD COLUMN agent_id TEXT;
ALTER TABLE messages ADD COLUMN provider TEXT;
ALTER TABLE messages ADD COLUMN model TEXT;
ALTER TABLE messages ADD COLUMN input_tokens BIGINT;
ALTER TABLE messages ADD COLUMN output_tokens BIGINT;
ALTER TABLE messages ADD COLUMN cost_micro_usd BIGINT;
ALTER TABLE messages ADD COLUMN duration_ms BIGINT;
