-- +goose Up
-- nodetask: the order in which old tasks are deleted.
CREATE INDEX node_tasks_by_end ON node_tasks (finished_at) WHERE finished_at IS NOT NULL;
