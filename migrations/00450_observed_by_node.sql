-- +goose Up
-- observed: the state of an allocation is stored for each node that reported it. Before, the first node that reported an
-- allocation owned the row, so that a stolen node key could own the row before the true node reported.

ALTER TABLE observed_allocations DROP CONSTRAINT observed_allocations_pkey, ADD PRIMARY KEY (allocation_id, node_id);
COMMENT ON TABLE observed_allocations IS 'The last reported state of each allocation, by the node that reported it.';
