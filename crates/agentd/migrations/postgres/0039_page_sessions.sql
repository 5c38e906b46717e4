-- Page sessions: the second secret of each, and until when its password counts as recently entered. Until now the cookie
-- alone was the credential and reached every port of the host, so all sessions end.
ALTER TABLE user_sessions ADD COLUMN page_secret_hash BYTEA;
ALTER TABLE user_sessions ADD COLUMN reauthenticated_until BIGINT;
CREATE UNIQUE INDEX user_sessions_of_page ON user_sessions (page_secret_hash);
DELETE FROM auth_tickets WHERE credential_kind = 'session';
DELETE FROM user_sessions;
