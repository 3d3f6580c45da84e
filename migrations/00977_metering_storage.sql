-- +goose Up
-- metering: stored bytes and their cost.

CREATE TABLE usage_storage_price (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	class       text NOT NULL,
	price_minor bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000), -- per GiB and 720 hours
	free_bytes  bigint NOT NULL CHECK (free_bytes >= 0), -- of each project
	currency    text NOT NULL
);
COMMENT ON TABLE usage_storage_price IS 'The price of stored bytes: that of the default storage class. Without a row they cost nothing.';

CREATE TABLE usage_storage (
	id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	project_id   uuid NOT NULL,
	org_id       uuid NOT NULL,
	class        text NOT NULL, -- empty: without a storage class
	price_minor  bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000), -- per GiB and 720 hours, as of the start
	free_bytes   bigint NOT NULL CHECK (free_bytes >= 0),
	currency     text NOT NULL,
	account_id   uuid, -- balance account of the tenant, so that accrual needs no join; null without a price
	start_s      bigint NOT NULL, -- seconds since 1970, by metering_moment
	end_s        bigint CHECK (end_s >= changed_s),
	changed_s    bigint NOT NULL CHECK (changed_s >= start_s), -- the last change of bytes
	bytes        bigint NOT NULL CHECK (bytes >= 0), -- since changed_s
	byte_seconds numeric NOT NULL DEFAULT 0, -- from start_s to changed_s
	-- Price times bytes above the free ones, times seconds: with these bounds a century of the largest quota fits into 128
	-- bits. The sum goes on from one record of the project to the next, so no price change and no tick loses a fraction.
	rate         numeric NOT NULL GENERATED ALWAYS AS (price_minor::numeric * greatest(bytes - free_bytes, 0)) STORED, -- per second
	owed_before  numeric NOT NULL, -- of earlier records
	owed         numeric NOT NULL DEFAULT 0, -- from start_s to changed_s
	CONSTRAINT usage_storage_price_has_an_account CHECK (price_minor = 0 OR account_id IS NOT NULL)
);
-- A change of bytes after the end of a tick, or after midnight in UTC, closes the record at that end and opens the next
-- one. Ticks therefore end where a record begins, or where the bytes of one have not changed since, and a tick can be
-- charged at any time, and verified again. A project has at most one record more for each tick.
COMMENT ON TABLE usage_storage IS
	'Stored bytes of a project over time. The bytes of a record change until it ends; afterwards it never changes.';
CREATE UNIQUE INDEX usage_storage_one_open ON usage_storage (project_id) WHERE end_s IS NULL;
CREATE INDEX usage_storage_by_tenant ON usage_storage (org_id, start_s);
CREATE INDEX usage_storage_by_tenant_and_end ON usage_storage (org_id, end_s);
CREATE INDEX usage_storage_by_start ON usage_storage (start_s);
CREATE INDEX usage_storage_by_end ON usage_storage (end_s) WHERE end_s IS NOT NULL;
CREATE INDEX usage_storage_priced ON usage_storage (org_id) WHERE end_s IS NULL AND rate > 0;
SELECT scope_rows('usage_storage', 'org_id = (SELECT scope_tenant())');

-- +goose StatementBegin
CREATE FUNCTION usage_storage_ends_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND OLD.end_s IS NULL THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'a record of stored bytes that has ended does not change' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION usage_storage_ends_once IS 'Rejects every change of a record that has ended, and every deletion.';
CREATE TRIGGER usage_storage_ends_once BEFORE UPDATE OR DELETE ON usage_storage FOR EACH ROW EXECUTE FUNCTION usage_storage_ends_once();
CREATE TRIGGER usage_storage_not_emptied BEFORE TRUNCATE ON usage_storage FOR EACH STATEMENT EXECUTE FUNCTION usage_storage_ends_once();

-- SECURITY DEFINER: a request of a tenant changes what is metered, but no role of a request can write the table, nor the
-- accounts of the platform.
-- +goose StatementBegin
CREATE FUNCTION metering_store(tenant uuid, project uuid, delta bigint, wanted bigint, OUT poor boolean, OUT balance bigint, OUT currency text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
	moment bigint := metering_moment(); -- before the row, as everywhere
	ended  bigint;
	r      usage_storage;
	p      usage_storage_price;
BEGIN
	SELECT * INTO r FROM usage_storage u WHERE u.project_id = project AND u.end_s IS NULL FOR UPDATE;
	IF r.org_id <> tenant OR scope_tenant() <> tenant THEN
		RAISE EXCEPTION 'project % is not of tenant %', project, tenant USING ERRCODE = 'insufficient_privilege';
	ELSIF r.id IS NULL THEN
		SELECT * INTO p FROM usage_storage_price;
		INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, account_id, start_s, changed_s, bytes, owed_before)
		VALUES (project, tenant, coalesce(p.class, ''), coalesce(p.price_minor, 0), coalesce(p.free_bytes, 0), coalesce(p.currency, ''),
			CASE WHEN p.price_minor > 0 THEN ledger_ensure_accounts(tenant, p.currency) END, moment, moment, delta, 0)
		RETURNING * INTO r;
	ELSIF delta <> 0 THEN
		moment := greatest(moment, r.changed_s); -- the clock may have been set back
		ended := greatest((SELECT to_s FROM usage_ticks WHERE to_s <= moment ORDER BY to_s DESC LIMIT 1), moment / 86400 * 86400);
		IF ended > r.start_s THEN
			ended := greatest(ended, r.changed_s);
			UPDATE usage_storage SET end_s = ended WHERE id = r.id;
			INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, account_id, start_s, changed_s, bytes, byte_seconds, owed_before, owed)
			VALUES (r.project_id, r.org_id, r.class, r.price_minor, r.free_bytes, r.currency, r.account_id, ended, moment, r.bytes + delta,
				r.bytes::numeric * (moment - ended), r.owed_before + r.owed + r.rate * (ended - r.changed_s), r.rate * (moment - ended));
		ELSE
			UPDATE usage_storage SET bytes = r.bytes + delta, changed_s = moment, byte_seconds = r.byte_seconds + r.bytes::numeric * (moment - r.changed_s),
				owed = r.owed + r.rate * (moment - r.changed_s)
			WHERE id = r.id;
		END IF;
		r.bytes := r.bytes + delta;
	END IF;
	currency := r.currency;
	poor := false;
	IF wanted > 0 AND r.price_minor > 0 AND r.bytes + wanted - greatest(delta, 0) > r.free_bytes THEN
		SELECT b.balance_minor INTO balance FROM ledger_balances b WHERE b.org_id = tenant;
		poor := coalesce(balance, 0) <= 0;
	END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION metering_store IS
	'Adds bytes to the stored bytes of a project, and reports whether its tenant lacks the balance for the bytes that it '
	'wants to store.';

-- Bytes that were stored before cost nothing until a storage class has a price.
INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, start_s, changed_s, bytes, owed_before)
SELECT project_id, org_id, '', 0, 0, '', s, s, bytes, 0 FROM storage_usage CROSS JOIN (SELECT metering_clock() AS s) AS clock WHERE project_id IS NOT NULL;
