-- +goose Up
-- billing: balance notices. Statements and spend limits are computed from other packages.

CREATE TABLE balance_notices (
	org_id          uuid PRIMARY KEY,
	low_since       timestamptz, -- null while the balance is above the threshold
	low_notified_at timestamptz, -- when the tenant was notified of it
	pending_since   timestamptz, -- the automatic release is announced
	releases_at     timestamptz, -- and its time
	depleted_at     timestamptz, -- all active allocations were released
	sequence        bigint NOT NULL DEFAULT 0, -- of the billing events of the tenant
	CONSTRAINT balance_notices_announce_with_a_deadline CHECK ((pending_since IS NULL) = (releases_at IS NULL))
);
COMMENT ON TABLE balance_notices IS 'The balance notices that a tenant has received, so that each is sent once.';
SELECT scope_rows('balance_notices', 'org_id = (SELECT scope_tenant())');
