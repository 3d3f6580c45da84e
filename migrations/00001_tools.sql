-- +goose Up
-- btree_gist lets an exclusion constraint compare a uuid beside a time range.
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- +goose StatementBegin
-- Facts are append-only: the trigger stands behind the grants, so that even the
-- owner of the table must take it away visibly before changing history.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION refuse_change();
DROP EXTENSION btree_gist;
