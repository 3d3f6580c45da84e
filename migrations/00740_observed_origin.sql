-- +goose Up
-- observed: the node's own signature under its last report, so that evidence of a charge can be verified without the server.
ALTER TABLE observed_nodes ADD COLUMN origin jsonb;
COMMENT ON COLUMN observed_nodes.origin IS
	'What the helper of the node signed of the last report that changed something: body (node, boot, sequence, nonce), signature, and the key. Null: an older agent.';
