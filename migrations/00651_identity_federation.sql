-- +goose Up
-- identity: credentials of service accounts without a secret. A job of a forge presents the token of the forge, and the
-- credential names the issuer and the subject. CI had to store a secret before.

ALTER TABLE service_account_credentials
	ALTER COLUMN secret_hash DROP NOT NULL,
	ADD COLUMN issuer text, -- of the tokens of jobs
	ADD COLUMN subject text, -- of the tokens: the repository and the ref; an asterisk at the end is a wildcard
	ADD CONSTRAINT service_account_credentials_have_one_form CHECK (num_nonnulls(secret_hash, issuer) = 1 AND (issuer IS NULL) = (subject IS NULL));
COMMENT ON TABLE service_account_credentials IS 'Credentials of service accounts: hashes of secrets, or the jobs of a forge that need none.';
CREATE CONSTRAINT TRIGGER service_account_credentials_federation_is_audited AFTER UPDATE OF issuer, subject ON service_account_credentials
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
