-- +goose Up
-- desired: the applied profile for every role. A server with one role and its own login has no rights of the owner, and
-- the roles node and relay do not read desired objects.

CREATE VIEW applied_profile AS
	SELECT spec FROM desired_objects WHERE kind = 'Environment' AND deleted_at IS NULL ORDER BY name LIMIT 1;
COMMENT ON VIEW applied_profile IS 'The spec of the applied Environment, for every role.';
