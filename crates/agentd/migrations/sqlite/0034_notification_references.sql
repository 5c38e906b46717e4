-- Platforms say later, by their own ids, which messages did not arrive.
CREATE INDEX notifications_reference ON notifications (platform, reference) WHERE reference IS NOT NULL;
