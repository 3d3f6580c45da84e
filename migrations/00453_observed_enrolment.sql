-- +goose Up
-- observed: the reports of a node are sorted by its enrolment before their boot number. Before, a stolen node key could report a
-- boot number that no later report of the true node reached.

ALTER TABLE observed_nodes ADD COLUMN enrolment bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN observed_nodes.enrolment IS 'The enrolment of the certificate that the report was sent with.';
