-- +goose Up
-- forge: commit statuses and pull request comments.

CREATE TABLE forge_reports (
	source     text NOT NULL,
	subject    text NOT NULL, -- a commit for a status, pull/N for a comment
	context    text NOT NULL, -- gpuaas/validate|plan|policy|sync, or comment
	state      text NOT NULL DEFAULT '' CHECK (state IN ('', 'pending', 'success', 'failure', 'error')),
	body       text NOT NULL, -- the line of a status, or the text of a comment
	url        text NOT NULL DEFAULT '',
	hash       text NOT NULL, -- of state, body and url
	sent_hash  text NOT NULL DEFAULT '', -- the hash that the forge received last
	remote_id  text NOT NULL DEFAULT '', -- of the comment at the forge
	attempts   int NOT NULL DEFAULT 0,
	error      text NOT NULL DEFAULT '', -- of the last attempt
	next_at    timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (source, subject, context)
);
COMMENT ON TABLE forge_reports IS
	'Statuses and comments that a forge should display. A worker sends each until the forge has received the newest '
	'text; a forge that was down receives it later, and once.';
CREATE INDEX forge_reports_pending ON forge_reports (next_at) WHERE sent_hash <> hash;
