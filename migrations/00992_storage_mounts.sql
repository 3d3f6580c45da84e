-- +goose Up
-- storage: access keys of mounts. An allocation has one for each mount, from the request until it is released. The node API
-- hands them to the node of the allocation, and so has data keys of its own for them.

ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check;
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_purpose_check
	CHECK (purpose IN ('authority', 'statements', 'tasks', 'logins', 'tokens', 'cursors', 'fields', 'webhooks', 'relay', 'recordings', 'mounts'));

ALTER TABLE storage_access_keys
	ADD COLUMN allocation_id uuid, -- null: no key of a mount
	ADD COLUMN mount_at text COLLATE "C" NOT NULL DEFAULT '', -- the mount point in the home
	ADD COLUMN node_id uuid; -- only this node can extend the key; null before the placement and after the request of a release
CREATE UNIQUE INDEX storage_access_keys_by_allocation ON storage_access_keys (allocation_id, mount_at) WHERE allocation_id IS NOT NULL;

ALTER TABLE allocations ADD COLUMN mounts jsonb NOT NULL DEFAULT '[]'; -- as in the spec of its desired object
ALTER TABLE observed_allocations ADD COLUMN mounts jsonb NOT NULL DEFAULT '[]'; -- the reported state of each mount
ALTER TABLE nodes ADD COLUMN mounts_missing text; -- what the node lacks to mount stored objects; empty: nothing; null: its agent does not report it
