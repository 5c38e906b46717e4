-- What an owner knows a login by. Sessions from before have none of it.
ALTER TABLE user_sessions ADD COLUMN last_used_at BIGINT;
ALTER TABLE user_sessions ADD COLUMN user_agent TEXT;
ALTER TABLE user_sessions ADD COLUMN address TEXT;
