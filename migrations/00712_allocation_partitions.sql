-- +goose Up
-- allocation: transitions in monthly partitions, by their time. They were stored for ever.

ALTER TABLE allocation_transitions RENAME TO allocation_transitions_before;
CREATE TABLE allocation_transitions (LIKE allocation_transitions_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS)
	PARTITION BY RANGE (at);
COMMENT ON TABLE allocation_transitions IS
	'Every transition of every allocation. Append-only, one partition for each month.';
CREATE TRIGGER allocation_transitions_not_emptied BEFORE TRUNCATE ON allocation_transitions FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
SELECT make_partition('allocation_transitions',
	date_trunc('month', coalesce((SELECT min(at) FROM allocation_transitions_before), now()) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC');
SELECT make_partitions(3);
INSERT INTO allocation_transitions SELECT * FROM allocation_transitions_before;
DROP TABLE allocation_transitions_before;

-- The update of the allocation compares its version, so a version of an allocation exists once also without the time.
ALTER TABLE allocation_transitions ADD PRIMARY KEY (allocation_id, version, at);
SELECT scope_rows('allocation_transitions', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)',
	'version = 1 AND (SELECT scope_tenant()) IS NOT NULL OR EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');
CREATE TRIGGER allocation_transitions_append_only BEFORE UPDATE OR DELETE ON allocation_transitions FOR EACH ROW EXECUTE FUNCTION reject_change();

-- The row has the time of its transaction, so the function reads one partition.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION allocation_transition_is_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM allocation_transitions WHERE allocation_id = NEW.id AND version = NEW.version AND at = now()
		AND from_status = OLD.status AND to_status = NEW.status) THEN
		RAISE EXCEPTION 'allocation % became % without a row in allocation_transitions', NEW.id, NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd

-- The allocations that count against the caps, also those whose release failed. Without the index a count read the whole
-- history of the tenant.
CREATE INDEX allocations_unfinished ON allocations (org_id) WHERE status NOT IN ('released', 'failed');
