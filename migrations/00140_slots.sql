-- +goose Up
-- slots: sellable units of nodes, and the claims of allocations on them.

CREATE TABLE slots (
	id         uuid PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	gpu_uuid   text NOT NULL UNIQUE REFERENCES gpus, -- the slicing profile whole_gpu has one slot for each GPU
	sku        text NOT NULL,
	region     text NOT NULL,
	status     text NOT NULL CHECK (status IN ('clean', 'claimed', 'dirty', 'quarantined')),
	fence      bigint NOT NULL DEFAULT 0, -- of the last proof that cleaned it
	-- The slot is not sold until this time; null: no hold. The time is stored in the row of the slot, because a claim
	-- that waits for a lock reads only this row again.
	held_until timestamptz,
	reason     text NOT NULL DEFAULT '',
	updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE slots IS 'Sellable units of nodes. Only a proof makes a dirty slot clean.';
CREATE INDEX slots_by_node ON slots (node_id);
-- Placement reads only clean slots.
CREATE INDEX slots_for_sale ON slots (sku, region, node_id) WHERE status = 'clean';

CREATE TABLE slot_claims (
	slot_id       uuid NOT NULL REFERENCES slots,
	allocation_id uuid NOT NULL,
	period        tstzrange NOT NULL,
	-- One allocation at a time.
	CONSTRAINT slot_claims_one_holder EXCLUDE USING gist (slot_id WITH =, period WITH &&)
);
COMMENT ON TABLE slot_claims IS 'Claims: the allocation that has a slot, and for which time.';
CREATE INDEX slot_claims_by_allocation ON slot_claims (allocation_id);
-- A claim is inserted before its allocation, so the policy cannot require a visible allocation. Only a clean slot can be
-- claimed, so a tenant takes nothing from another one.
SELECT scope_rows('slot_claims', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)', '(SELECT scope_tenant()) IS NOT NULL');
