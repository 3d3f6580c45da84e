-- +goose Up
-- observed: the host keys of nodes, which clients of SSH compare.

CREATE VIEW node_host_keys WITH (security_invoker = true) AS
	SELECT node_id, ARRAY (SELECT jsonb_array_elements_text(coalesce(convert_from(decode(origin->>'body', 'base64'), 'UTF8')::jsonb->'host_keys', '[]'))) AS host_keys
	FROM observed_nodes WHERE origin IS NOT NULL;
COMMENT ON VIEW node_host_keys IS
	'Public host keys of the SSH servers of nodes. The proof key of the node has signed them with its last changed report, and '
	'the signature was verified.';
