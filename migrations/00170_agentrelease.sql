-- +goose Up
-- agentrelease: published agent builds, and their rollout to nodes.

CREATE TABLE agent_releases (
	version    text NOT NULL,
	platform   text NOT NULL,            -- linux/amd64
	digest     text NOT NULL,            -- SHA-256 of the binary, hex
	size_bytes bigint NOT NULL,
	minimum    text NOT NULL DEFAULT '', -- the oldest version to which a node may roll back from this one
	metadata   bytea NOT NULL,           -- canonical bytes that the signature covers
	signature  bytea NOT NULL,
	kid        text NOT NULL,
	expires_at timestamptz NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	created_by text NOT NULL,
	PRIMARY KEY (version, platform)
);
COMMENT ON TABLE agent_releases IS 'Agent builds that nodes may run, with the signed metadata that a node verifies.';
CREATE CONSTRAINT TRIGGER agent_releases_decisions_are_audited AFTER INSERT OR UPDATE ON agent_releases
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work', 'gpuaas_node'))
	EXECUTE FUNCTION demand_audit();

CREATE TABLE agent_updates (
	node_id     uuid NOT NULL REFERENCES nodes,
	version     text NOT NULL,
	previous    text NOT NULL DEFAULT '',
	ring        int NOT NULL,    -- 0 is updated first
	fence       bigint NOT NULL, -- of the task
	health      text NOT NULL,   -- of the node at the request; it must not be worse after the update
	status      text NOT NULL CHECK (status IN ('waiting', 'requested', 'running', 'healthy', 'rolled_back', 'failed')),
	message     text NOT NULL DEFAULT '',
	deadline_at timestamptz,     -- of the health check after the update
	created_at  timestamptz NOT NULL DEFAULT now(),
	updated_at  timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (node_id, version)
);
COMMENT ON TABLE agent_updates IS 'Updates of single nodes, one row for each node and version.';
CREATE INDEX agent_updates_in_progress ON agent_updates (deadline_at) WHERE status IN ('requested', 'running');

CREATE TABLE agent_rollouts (
	version        text PRIMARY KEY,
	status         text NOT NULL CHECK (status IN ('rolling', 'done', 'stopped', 'blocked')),
	ring           int NOT NULL,
	nodes          int NOT NULL, -- with this version in their spec
	updated        int NOT NULL, -- of them, those that run it
	updating       int NOT NULL, -- those with an update in progress
	failed         int NOT NULL, -- those that rolled back or failed
	message        text NOT NULL DEFAULT '',
	status_changes int NOT NULL DEFAULT 1, -- counts the changes of status
	updated_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE agent_rollouts IS 'The state of each rollout, as of its last evaluation.';
