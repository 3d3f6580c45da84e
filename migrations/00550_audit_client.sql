-- +goose Up
-- audit: rows contain the address and the user agent of the client, and seals cover them. A seal contains the form of the row's
-- hash: seals of a server of the previous release have form 1, which does not cover the two columns.

ALTER TABLE audit_logs
	ADD COLUMN client_address text NOT NULL DEFAULT '', -- empty: an actor of the system, or a row of an earlier release
	ADD COLUMN user_agent     text NOT NULL DEFAULT ''; -- the client's own statement
ALTER TABLE audit_seals ADD COLUMN form smallint NOT NULL DEFAULT 1 CHECK (form IN (1, 2));
