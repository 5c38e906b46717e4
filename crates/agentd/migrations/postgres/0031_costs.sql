-- Prices that the owner set, each as JSON. They go before the table that ships with the daemon.
CREATE TABLE model_prices (
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    price TEXT NOT NULL,
    PRIMARY KEY (provider, model)
);

-- Tokens that are set aside for a call of a model which is under way: at most so many it can use. Settled with the
-- usage of the call. What is not renewed in time belonged to a daemon that is gone.
CREATE TABLE budget_reservations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- One row. Whoever sets tokens aside changes it first, so that replicas do so one after the other.
CREATE TABLE budget_turn (
    id BIGINT PRIMARY KEY NOT NULL,
    taken BIGINT NOT NULL
);
