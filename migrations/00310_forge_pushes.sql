-- +goose Up
-- forge: users who have pushed commits.

CREATE TABLE forge_pushes (
	source text NOT NULL,
	commit text NOT NULL,
	login  text NOT NULL, -- name at the forge
	email  text NOT NULL DEFAULT '', -- as the forge reports; empty: unknown
	at     timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (source, commit, login)
);
COMMENT ON TABLE forge_pushes IS
	'Users who have pushed or merged a commit to the tracked branch, as signed webhooks of the forge report. None of them may approve it.';
CREATE INDEX forge_pushes_by_age ON forge_pushes (at);
