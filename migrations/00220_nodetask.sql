-- +goose Up
-- nodetask: mailboxes of nodes.

CREATE TABLE node_tasks (
	id            uuid PRIMARY KEY,
	node_id       uuid NOT NULL,
	allocation_id uuid, -- null: a task for the node itself
	type          text NOT NULL,
	fence         bigint NOT NULL,
	generation    bigint NOT NULL,
	attempt       int NOT NULL,
	body          bytea NOT NULL,
	signature     bytea NOT NULL,
	status        text NOT NULL CHECK (status IN ('queued', 'delivered', 'running', 'succeeded', 'failed', 'expired', 'superseded')),
	step          text NOT NULL DEFAULT '',
	code          text NOT NULL DEFAULT '',
	message       text NOT NULL DEFAULT '',
	created_at    timestamptz NOT NULL DEFAULT now(),
	delivered_at  timestamptz,
	finished_at   timestamptz,
	expires_at    timestamptz NOT NULL
);
COMMENT ON TABLE node_tasks IS 'Signed tasks for nodes, and their results.';
-- The mailbox of a node.
CREATE INDEX node_tasks_waiting ON node_tasks (node_id, created_at) WHERE status IN ('queued', 'delivered', 'running');
-- One unfinished task for each allocation: a worker supersedes it before it adds another one.
CREATE UNIQUE INDEX node_tasks_one_live ON node_tasks (allocation_id) WHERE status IN ('queued', 'delivered', 'running');
CREATE INDEX node_tasks_by_allocation ON node_tasks (allocation_id, fence, attempt);
CREATE INDEX node_tasks_about_node ON node_tasks (node_id, fence) WHERE allocation_id IS NULL AND fence > 0;
