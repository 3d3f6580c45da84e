-- +goose Up
-- fleet: the applied spec of a node is one document, and drift is one comparison of documents. Before, a new field of the
-- spec needed a column, a statement and a comparison. No release has used the columns, so they go in one step.

DROP VIEW node_progress;

ALTER TABLE nodes ADD COLUMN spec jsonb;
-- The columns contain the applied values. The fields without a column are those of the desired object.
UPDATE nodes n SET spec = coalesce((SELECT o.spec - 'address' FROM desired_objects o WHERE o.uid = n.id), '{"slicing": "whole_gpu"}')
	|| jsonb_build_object('sku', sku, 'region', region, 'onboarding', onboarding, 'gpus', expected_gpus, 'hardware', hardware, 'cordoned', cordoned)
	|| CASE WHEN address = '' THEN '{}' ELSE jsonb_build_object('address', address) END;
ALTER TABLE nodes
	ALTER COLUMN spec SET NOT NULL,
	DROP COLUMN sku, DROP COLUMN region, DROP COLUMN onboarding, DROP COLUMN expected_gpus, DROP COLUMN hardware,
	DROP COLUMN cordoned, DROP COLUMN address,
	ADD CONSTRAINT nodes_spec_types_check CHECK (coalesce(jsonb_typeof(spec->'gpus'), 'absent') = 'number'
		AND coalesce(jsonb_typeof(spec->'cordoned'), 'boolean') = 'boolean'),
	ADD CONSTRAINT nodes_onboarding_check CHECK (spec->>'onboarding' IN ('manual', 'maas', 'simulated'));
COMMENT ON CONSTRAINT nodes_spec_types_check ON nodes IS
	'Statements read these fields by their types. A wrong type would fail every list of nodes.';
-- Only the fields by which statements filter or join.
ALTER TABLE nodes
	ADD COLUMN sku text NOT NULL GENERATED ALWAYS AS (spec->>'sku') STORED,
	ADD COLUMN region text NOT NULL GENERATED ALWAYS AS (spec->>'region') STORED,
	ADD COLUMN cordoned boolean NOT NULL GENERATED ALWAYS AS (coalesce((spec->>'cordoned')::boolean, false)) STORED;

-- Unchanged; a view has to be created again after a column that it reads.
CREATE VIEW node_progress WITH (security_invoker = true) AS
	SELECT n.id AS node_id, n.reachability = 'reachable' AS reachable,
		NOT n.cordoned AND n.lifecycle <> 'retired' AND h.active = 0 AS sellable, n.lifecycle <> 'retired' AS in_fleet,
		n.changed, n.lifecycle, n.retiring, h.drain_deadline, h.hold_expires_at,
		EXISTS (SELECT FROM slots s WHERE s.node_id = n.id AND (s.status IN ('claimed', 'dirty')
			OR EXISTS (SELECT FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period)))) AS occupied
	FROM nodes n, LATERAL (
		SELECT count(*) AS active, min(deadline) FILTER (WHERE kind = 'drain') AS drain_deadline,
			min(deadline) FILTER (WHERE kind <> 'drain') AS hold_expires_at
		FROM holds WHERE node_id = n.id AND slot_id IS NULL AND lifted_at IS NULL
	) h;
COMMENT ON VIEW node_progress IS
	'What the control loop reads of a node: whether it is sold, whether its hardware changed, by when it must be '
	'empty, and when its first hold expires.';
