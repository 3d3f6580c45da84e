-- +goose Up
-- notification: messages to users about events.

CREATE TABLE notifications (
	id         uuid PRIMARY KEY,
	user_id    uuid NOT NULL,
	org_id     uuid, -- null: about the platform
	kind       text NOT NULL,
	severity   text NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
	urn        text NOT NULL, -- the resource; empty for dead letters
	title      text NOT NULL,
	message    text NOT NULL,
	count      int NOT NULL DEFAULT 1, -- events of the same kind about the resource within a day, until it is read
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	read_at    timestamptz
) PARTITION BY RANGE (id);
COMMENT ON TABLE notifications IS 'Messages to users about events. One partition for each month.';
CREATE TABLE notifications_other PARTITION OF notifications DEFAULT;
CREATE INDEX notifications_by_user ON notifications (user_id, id);
CREATE INDEX notifications_unread ON notifications (user_id, kind, urn) WHERE read_at IS NULL;
SELECT scope_rows('notifications', 'user_id = (SELECT scope_principal())');
