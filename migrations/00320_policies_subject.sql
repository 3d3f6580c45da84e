-- +goose Up
-- policies: the id that a scope resolves to, and the object that sets the value.

ALTER TABLE policy_values ADD COLUMN subject text, ADD COLUMN object_id uuid;
COMMENT ON COLUMN policy_values.subject IS
	'The scope with the id of its tenant, project or user, as it was resolved when the value was first applied. A tenant that is renamed still has its limits, and another tenant with its old name does not get them. Null: the scope names nothing, so the value has no effect.';
COMMENT ON COLUMN policy_values.object_id IS 'The Policy object that set the value.';
UPDATE policy_values SET subject = CASE
	WHEN scope LIKE 'tenant:%' THEN (SELECT 'tenant:' || t.id FROM tenants t WHERE policy_values.scope IN ('tenant:' || t.id, 'tenant:' || t.name) ORDER BY policy_values.scope = 'tenant:' || t.id DESC LIMIT 1)
	WHEN scope LIKE 'project:%' OR scope LIKE 'user:%' THEN lower(scope)
	ELSE scope END;
UPDATE policy_values v SET object_id = (SELECT d.uid FROM desired_objects d
	WHERE d.kind = 'Policy' AND d.deleted_at IS NULL AND d.spec->>'key' = v.key AND d.spec->>'scope' = v.scope ORDER BY d.uid LIMIT 1);
