-- +goose Up
-- restore: restores of the database, and what nodes report until an operator confirms them.

CREATE TABLE restores (
	id           uuid PRIMARY KEY,
	backup_id    text NOT NULL DEFAULT '', -- of a backup of GPUaaS
	restored_to  timestamptz NOT NULL,     -- the database knows nothing that happened later
	began_at     timestamptz NOT NULL DEFAULT now(),
	by           text NOT NULL,            -- who restored it
	confirmed_at timestamptz,              -- null: the servers change nothing
	confirmed_by text NOT NULL DEFAULT '',
	report       jsonb NOT NULL DEFAULT '{}', -- the differences at the confirmation, and what it did
	CONSTRAINT restores_confirmed_by_actor CHECK ((confirmed_at IS NOT NULL) = (confirmed_by <> '')),
	CONSTRAINT restores_into_the_past CHECK (restored_to <= began_at)
);
COMMENT ON TABLE restores IS
	'Restores of this database to an earlier time. While one is not confirmed, the servers only read, and receive reports of nodes.';
CREATE INDEX restores_by_time ON restores (began_at);

CREATE TABLE restore_reports (
	node_id     uuid PRIMARY KEY,
	reported_at timestamptz NOT NULL DEFAULT now(),
	complete    boolean NOT NULL,
	allocations jsonb NOT NULL -- as the node has reported them, also those that the database does not know
);
COMMENT ON TABLE restore_reports IS 'The last report of each node about its allocations while a restore is not confirmed.';

CREATE TABLE restore_allocations (
	allocation_id uuid PRIMARY KEY,
	node_id       uuid NOT NULL,
	restore_id    uuid NOT NULL REFERENCES restores,
	fence         bigint NOT NULL, -- as the node has reported it
	created_at    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE restore_allocations IS
	'Allocations that nodes ran when a restore was confirmed and that the database does not know. Their nodes have an operator hold.';
CREATE INDEX restore_allocations_by_node ON restore_allocations (node_id);

-- Readers of events and audit rows continue after the positions that the lost history has used. A cluster has no 2^32
-- transactions between a backup and its restore. A cluster that was filled from a dump numbers its transactions from the
-- beginning, so that the positions first continue after the stored ones.
-- +goose StatementBegin
CREATE FUNCTION skip_lost_positions() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
	base numeric := continue_positions()::numeric + 4294967296;
BEGIN
	EXECUTE format($f$CREATE OR REPLACE FUNCTION public.xact_position() RETURNS xid8 LANGUAGE sql VOLATILE
		RETURN (pg_current_xact_id()::text::numeric + %s)::text::xid8$f$, base);
	EXECUTE format($f$CREATE OR REPLACE FUNCTION public.xact_horizon() RETURNS xid8 LANGUAGE sql STABLE
		RETURN (pg_snapshot_xmin(pg_current_snapshot())::text::numeric + %s)::text::xid8$f$, base);
	RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION skip_lost_positions IS 'Raises the base of the positions, so that no position of the lost history is used again.';
CREATE TRIGGER restores_skip_lost_positions AFTER INSERT ON restores FOR EACH ROW EXECUTE FUNCTION skip_lost_positions();

-- Views compare the tables of several packages. Only the owner reads them. They depend on columns of these tables: a later
-- migration that removes or changes such a column drops the views first, and creates them again.
CREATE VIEW restore_expected_nodes AS
	SELECT n.id AS node_id, n.name, r.reported_at
	FROM nodes n LEFT JOIN restore_reports r ON r.node_id = n.id AND r.complete
		AND r.reported_at >= (SELECT max(began_at) FROM restores WHERE confirmed_at IS NULL)
	WHERE n.lifecycle <> 'retired' AND EXISTS (SELECT FROM certificates c WHERE c.node_id = n.id AND c.status <> 'revoked');
COMMENT ON VIEW restore_expected_nodes IS
	'Nodes that should report before a restore is confirmed, and the time of their complete report since its begin.';

CREATE VIEW restore_differences AS
	WITH reported AS (
		SELECT e.node_id, e.name, a.allocation_id, a.phase, a.fence
		FROM restore_expected_nodes e JOIN restore_reports r USING (node_id)
			CROSS JOIN LATERAL jsonb_to_recordset(r.allocations) AS a(allocation_id uuid, phase text, fence bigint)
		WHERE e.reported_at IS NOT NULL
	), compared AS (
		SELECT r.*, k.status, d.fence AS stored_fence, k.id IS NOT NULL AND k.node_id IS NOT DISTINCT FROM r.node_id AS known
		FROM reported r LEFT JOIN allocations k ON k.id = r.allocation_id
			LEFT JOIN desired_objects d ON d.uid = r.allocation_id AND d.kind = 'Allocation'
	)
	SELECT CASE WHEN NOT known THEN 'unknown_allocation'
			WHEN phase = 'gone' AND status IN ('requested', 'provisioning', 'active') THEN 'released_on_node'
			ELSE 'newer_fence' END AS kind,
		node_id, name AS node, allocation_id, coalesce(status, '') AS status, phase, fence, coalesce(stored_fence, 0) AS stored_fence
	FROM compared
	WHERE NOT known AND phase <> 'gone' OR known AND fence > stored_fence
	UNION ALL
	SELECT 'missing_on_node', e.node_id, e.name, k.id, k.status, '', 0, coalesce(d.fence, 0)
	FROM allocations k JOIN restore_expected_nodes e ON e.node_id = k.node_id AND e.reported_at IS NOT NULL
		LEFT JOIN desired_objects d ON d.uid = k.id AND d.kind = 'Allocation'
	WHERE k.status = 'active' AND NOT EXISTS (SELECT FROM reported r WHERE r.allocation_id = k.id AND r.node_id = k.node_id)
	UNION ALL
	SELECT 'unknown_certificate', c.node_id, n.name, NULL, '', c.serial, 0, 0
	FROM certificates c JOIN nodes n ON n.id = c.node_id
	WHERE c.reason = 'presented after a restore' AND c.created_at >= (SELECT max(began_at) FROM restores WHERE confirmed_at IS NULL);
COMMENT ON VIEW restore_differences IS
	'What nodes report and the restored database does not know, knows at an older fence, or has as active, while a restore is not confirmed.';
