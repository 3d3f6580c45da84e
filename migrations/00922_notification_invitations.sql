-- +goose Up
-- notification: an address that is invited again within a day receives no second e-mail in it.

ALTER TABLE invitation_mails
	ADD COLUMN org_id  uuid,
	ADD COLUMN address text; -- in lower case
CREATE INDEX invitation_mails_by_address ON invitation_mails (address, org_id);
SELECT scope_rows('invitation_mails', 'org_id = (SELECT scope_tenant())');
