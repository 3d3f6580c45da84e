-- +goose Up
-- observed: what the agents of nodes can do.

CREATE VIEW node_capabilities WITH (security_invoker = true) AS SELECT node_id, capability FROM observed_nodes;
COMMENT ON VIEW node_capabilities IS 'The version of the node protocol that the agent of each node has reported.';
