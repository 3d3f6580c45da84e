-- +goose Up
-- observed: the last reports of nodes, and the applied state of objects that need no node.

CREATE TABLE observed_nodes (
	node_id      uuid PRIMARY KEY,
	boot         bigint NOT NULL,
	boot_id      text NOT NULL,
	sequence     bigint NOT NULL,
	complete     boolean NOT NULL,
	missing      text[] NOT NULL DEFAULT '{}', -- sections that an incomplete report lacks
	agent        text NOT NULL,
	capability   int NOT NULL,
	inventory    jsonb NOT NULL,
	devices      jsonb, -- model and serial number of each GPU; null before the first report with them
	content_hash text NOT NULL, -- of the report without its counters: an unchanged report writes one row
	foreign_use  text[] NOT NULL DEFAULT '{}', -- uses of GPUs that no task accounts for
	-- No foreign key and no index: an index would prevent HOT updates. The lease may be deleted first; its time has
	-- passed then.
	lease        uuid,
	observed_at  timestamptz NOT NULL,
	stale_at     timestamptz NOT NULL
) WITH (fillfactor = 50); -- every report updates its row; the free half of the page keeps these updates HOT
COMMENT ON TABLE observed_nodes IS 'The last report of each node, and the time until which it is valid.';

CREATE TABLE observed_leases (
	id          uuid PRIMARY KEY,
	observed_at timestamptz NOT NULL,
	stale_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE observed_leases IS
	'Leases of unchanged reports, one for each server process. Every node whose row names the lease has sent a '
	'heartbeat at observed_at or later. One row is written instead of one for each of thousands of nodes.';

CREATE TABLE observed_allocations (
	allocation_id       uuid PRIMARY KEY,
	node_id             uuid NOT NULL,
	phase               text NOT NULL CHECK (phase IN ('working', 'ready', 'broken', 'gone')),
	fence               bigint NOT NULL,
	observed_generation bigint NOT NULL,
	spec_hash           text NOT NULL,
	step                text NOT NULL DEFAULT '',
	message             text NOT NULL DEFAULT '',
	proof               jsonb,
	-- The result of the last task at this fence, if it failed.
	failures            int NOT NULL DEFAULT 0,
	failed_fence        bigint NOT NULL DEFAULT 0,
	failed_code         text NOT NULL DEFAULT '',
	observed_at         timestamptz NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE observed_allocations IS 'The last reported state of each allocation on its node.';
CREATE INDEX observed_allocations_by_node ON observed_allocations (node_id);
SELECT scope_rows('observed_allocations', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');

CREATE TABLE observed_objects (
	uid         uuid PRIMARY KEY,
	kind        text NOT NULL,
	generation  bigint NOT NULL,
	epoch       bigint NOT NULL DEFAULT 0,
	spec_hash   text NOT NULL,
	gone        boolean NOT NULL DEFAULT false, -- the deletion was applied
	observed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE observed_objects IS 'The last applied generation of each object that needs no node, for example an SKU.';
