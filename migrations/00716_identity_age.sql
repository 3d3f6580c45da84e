-- +goose Up
-- identity: the order in which old sessions and sign-in links are deleted.
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE INDEX sign_in_links_by_end ON sign_in_links (expires_at);
