-- Which device began a conversation; it may go on in those and in no others.
ALTER TABLE conversations ADD COLUMN device_id TEXT;
