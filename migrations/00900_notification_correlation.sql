-- +goose Up
-- notification: the request that caused a notification.

-- Of the last event that the notification counts. Notifications of earlier releases have none.
ALTER TABLE notifications ADD COLUMN correlation_id text NOT NULL DEFAULT '';
