-- +goose Up
-- notification: how users are notified, digests, and addresses that receive no e-mail.

-- A notification that is off in the application is stored for its e-mail and its count, and no list has it.
ALTER TABLE notifications ADD COLUMN in_app boolean NOT NULL DEFAULT true;
CREATE INDEX notifications_hidden ON notifications (user_id, kind, urn) WHERE NOT in_app;

CREATE TABLE notification_preferences (
	id          uuid PRIMARY KEY, -- of the user or the tenant
	scope       text NOT NULL CHECK (scope IN ('user', 'tenant')),
	choices     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(choices) = 'object'), -- kind, channel, value
	time_zone   text NOT NULL DEFAULT '', -- empty: the one of the tenant, or UTC
	quiet_start smallint CHECK (quiet_start BETWEEN 0 AND 1439), -- minutes after midnight, as the clock shows them
	quiet_end   smallint CHECK (quiet_end BETWEEN 0 AND 1439),
	link_key    bytea CHECK (length(link_key) = 32), -- signs the links of e-mails; another key revokes them
	version     bigint NOT NULL DEFAULT 1,
	updated_at  timestamptz NOT NULL DEFAULT now(),
	CONSTRAINT notification_preferences_quiet CHECK ((quiet_start IS NULL) = (quiet_end IS NULL) AND quiet_start IS DISTINCT FROM quiet_end OR quiet_start IS NULL)
);
COMMENT ON TABLE notification_preferences IS 'Choices of users and defaults of tenants: how they are notified. Without a row, the defaults of the kinds apply.';
SELECT scope_rows('notification_preferences', 'id IN ((SELECT scope_principal()), (SELECT scope_tenant()))');
CREATE CONSTRAINT TRIGGER notification_preferences_are_audited AFTER INSERT OR UPDATE OR DELETE ON notification_preferences
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user <> 'gpuaas_work') -- workers only add keys of links
	EXECUTE FUNCTION demand_audit();

CREATE TABLE notification_digests (
	user_id          uuid NOT NULL,
	period           text NOT NULL CHECK (period IN ('hourly', 'daily', 'quiet')),
	due_at           timestamptz NOT NULL,
	id               uuid NOT NULL UNIQUE,
	notification_ids uuid[] NOT NULL,
	queued_at        timestamptz, -- when its e-mail was queued
	PRIMARY KEY (user_id, period, due_at)
);
COMMENT ON TABLE notification_digests IS
	'Notifications that are collected for one e-mail, by user, period and end of the period. The e-mails of quiet hours are '
	'collected until their end.';
CREATE INDEX notification_digests_open ON notification_digests (due_at) WHERE queued_at IS NULL;
CREATE INDEX notification_digests_by_age ON notification_digests (queued_at) WHERE queued_at IS NOT NULL;
SELECT scope_rows('notification_digests', 'user_id = (SELECT scope_principal())');

CREATE TABLE suppressed_addresses (
	id         uuid PRIMARY KEY,
	address    text NOT NULL CHECK (address = lower(address)),
	reason     text NOT NULL, -- the response of the mail server
	created_at timestamptz NOT NULL DEFAULT now(),
	lifted_at  timestamptz,
	lifted_by  text NOT NULL DEFAULT '',
	CONSTRAINT suppressed_addresses_lifted CHECK ((lifted_at IS NULL) = (lifted_by = ''))
);
COMMENT ON TABLE suppressed_addresses IS
	'E-mail addresses that receive no mail, because a server has rejected one for good, with those that an operator has lifted.';
CREATE UNIQUE INDEX suppressed_addresses_one ON suppressed_addresses (address) WHERE lifted_at IS NULL;
CREATE INDEX suppressed_addresses_by_age ON suppressed_addresses (lifted_at) WHERE lifted_at IS NOT NULL;
SELECT scope_rows('suppressed_addresses', 'EXISTS (SELECT FROM user_contacts c WHERE c.id = (SELECT scope_principal()) AND lower(c.email) = address)', 'false');
CREATE CONSTRAINT TRIGGER suppressed_addresses_are_audited AFTER UPDATE OR DELETE ON suppressed_addresses
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user <> 'gpuaas_work')
	EXECUTE FUNCTION demand_audit();

CREATE TABLE invitation_mails (
	invitation_id uuid PRIMARY KEY,
	queued_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE invitation_mails IS 'Invitations whose e-mail was queued.';
-- Inviters have informed the users of earlier invitations.
INSERT INTO invitation_mails (invitation_id) SELECT id FROM open_invitations;
CREATE INDEX invitation_mails_by_age ON invitation_mails (queued_at);
