-- +goose Up
-- webhook: addresses of tenants that receive events, and what was sent to them.

CREATE TABLE webhook_endpoints (
	id             uuid PRIMARY KEY,
	org_id         uuid NOT NULL,
	project_id     uuid, -- null: all projects, and the events of the tenant
	name           text NOT NULL,
	url            text NOT NULL CHECK (length(url) <= 2048),
	patterns       text[] NOT NULL CHECK (cardinality(patterns) BETWEEN 1 AND 50),
	format         text NOT NULL CHECK (format IN ('standard', 'slack')),
	signature      text NOT NULL CHECK (signature IN ('v1', 'v1a')),
	public_key     text NOT NULL DEFAULT '', -- of v1a
	secret_enc     bytea NOT NULL,
	previous_enc   bytea, -- the secret before the rotation
	previous_until timestamptz,
	failing_since  timestamptz, -- the first failure after the last success
	blocked_until  timestamptz, -- the receiver wants no request before
	retry_at       timestamptz, -- a pending delivery is due
	disabled_at    timestamptz,
	disabled_why   text NOT NULL DEFAULT '' CHECK (disabled_why IN ('', 'user', 'failures', 'gone')),
	recovering     boolean NOT NULL DEFAULT false, -- the platform disabled it, and its next success is a recovery
	version        bigint NOT NULL DEFAULT 1,
	created_by     text NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now(),
	updated_at     timestamptz NOT NULL DEFAULT now(),
	CONSTRAINT webhook_endpoints_one_name UNIQUE (org_id, name),
	CONSTRAINT webhook_endpoints_previous CHECK ((previous_enc IS NULL) = (previous_until IS NULL)),
	CONSTRAINT webhook_endpoints_disabled CHECK ((disabled_at IS NULL) = (disabled_why = ''))
);
COMMENT ON TABLE webhook_endpoints IS 'Webhook endpoints of tenants, with their sealed secrets and their state.';
CREATE INDEX webhook_endpoints_due ON webhook_endpoints (retry_at) WHERE retry_at IS NOT NULL AND disabled_at IS NULL;
SELECT scope_rows('webhook_endpoints', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER webhook_endpoints_are_audited
	AFTER INSERT OR DELETE OR UPDATE OF org_id, project_id, name, url, patterns, format, signature, public_key, disabled_at, disabled_why, version ON webhook_endpoints
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

-- The id is made of the time of the event, and of the endpoint and the event: a repeated dispatch finds the row in its
-- partition.
CREATE TABLE webhook_deliveries (
	id          uuid PRIMARY KEY,
	endpoint_id uuid NOT NULL, -- no foreign key: the rows of a deleted endpoint go with their month
	org_id      uuid NOT NULL,
	project_id  uuid,
	event_id    uuid NOT NULL,
	event_type  text NOT NULL,
	body        text NOT NULL, -- as it is signed and sent
	status      text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'skipped')),
	attempts    int NOT NULL DEFAULT 0, -- of the present schedule
	attempt_log jsonb NOT NULL DEFAULT '[]', -- the last attempts of all schedules
	response    text NOT NULL DEFAULT '', -- of the last attempt, without secrets
	next_at     timestamptz,
	created_at  timestamptz NOT NULL DEFAULT now(),
	updated_at  timestamptz NOT NULL DEFAULT now(),
	CONSTRAINT webhook_deliveries_next CHECK ((status = 'pending') = (next_at IS NOT NULL))
) PARTITION BY RANGE (id);
COMMENT ON TABLE webhook_deliveries IS 'What is sent to a webhook endpoint: one row for each endpoint and event. One partition for each month.';
CREATE TABLE webhook_deliveries_other PARTITION OF webhook_deliveries DEFAULT;
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_missed ON webhook_deliveries (endpoint_id, id) WHERE status IN ('skipped', 'failed');
SELECT scope_rows('webhook_deliveries', 'org_id = (SELECT scope_tenant())');
