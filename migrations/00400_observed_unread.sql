-- +goose Up
-- observed: a report is complete for each allocation. Before, one part that a node could not read made the whole report
-- incomplete, so that one tenant could stop the releases of all others on its node.

ALTER TABLE observed_allocations ADD COLUMN unread text NOT NULL DEFAULT '';
COMMENT ON COLUMN observed_allocations.unread IS 'What of the allocation its node could not read in its last report. The row is then the state before.';
