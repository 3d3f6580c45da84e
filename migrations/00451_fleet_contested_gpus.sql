-- +goose Up
-- fleet: a GPU belongs to the node that reported it first. The other nodes that report it are listed, so that no report
-- moves a GPU, and both sides are out of placement until an operator has found out which node is right.

ALTER TABLE gpus ADD COLUMN contested_by uuid[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN gpus.contested_by IS 'Other nodes that report this GPU in their last complete report.';
CREATE INDEX gpus_contested ON gpus USING gin (contested_by) WHERE contested_by <> '{}';
