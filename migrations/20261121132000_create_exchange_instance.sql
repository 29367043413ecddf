-- The exchanges that answer from memory now. A write is acknowledged when all of them have seen it, or their time is over.
CREATE TABLE exchange_instance (
    instance   uuid        NOT NULL,
    seen_id    bigint      NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT exchange_instance_instance_key PRIMARY KEY (instance)
);
COMMENT ON COLUMN exchange_instance.seen_id IS 'Number up to which this exchange has seen the change feed.';
COMMENT ON COLUMN exchange_instance.expires_at IS 'After this instant it answers nothing before it has joined again.';
