-- +goose Up
-- catalog: storage classes, as the desired objects of this kind specify them.

CREATE TABLE storage_classes (
	id         uuid PRIMARY KEY, -- uid of the desired object
	name       text NOT NULL UNIQUE,
	spec       jsonb NOT NULL,
	retired_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	is_default boolean NOT NULL GENERATED ALWAYS AS ((spec->>'default')::boolean) STORED,
	CONSTRAINT storage_classes_spec_types_check CHECK (coalesce(jsonb_typeof(spec->'freeGiB'), 'absent') = 'number'
		AND coalesce(jsonb_typeof(spec->'retentionDays'), 'absent') = 'number' AND coalesce(jsonb_typeof(spec->'price'->'amountMinor'), 'absent') = 'number')
);
COMMENT ON TABLE storage_classes IS 'Storage classes with their prices. The default one applies to all projects.';
