-- +goose Up
-- storage: the files and folders of each project. The bytes are backend objects in the object store.

CREATE TABLE storage_usage (
	scope_id       uuid PRIMARY KEY, -- a project, or a tenant for the sum of its projects
	org_id         uuid NOT NULL,
	project_id     uuid, -- null: the row of the tenant
	bytes          bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0), -- of all stored objects, also of deleted ones
	reserved_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0), -- of uploads in progress
	objects        bigint NOT NULL DEFAULT 0 CHECK (objects >= 0) -- files and folders, also deleted ones
);
COMMENT ON TABLE storage_usage IS 'What the stored objects of a project and of a tenant use. The lock on the row of a project serializes all changes of its files and folders.';
SELECT scope_rows('storage_usage', 'org_id = (SELECT scope_tenant())');

CREATE TABLE storage_objects (
	id           uuid PRIMARY KEY, -- that of the project: its outermost folder
	org_id       uuid NOT NULL,
	project_id   uuid NOT NULL,
	parent_id    uuid, -- null: the outermost folder. Without a foreign key: the folder of a deleted object can be purged first
	name         text COLLATE "C" NOT NULL,
	folded       text COLLATE "C" NOT NULL, -- names that some file systems cannot distinguish have one folded form
	type         text NOT NULL CHECK (type IN ('file', 'folder')),
	-- The sequence of the names of a folder is that of the paths below it, byte by byte.
	sort_key     text COLLATE "C" GENERATED ALWAYS AS (CASE type WHEN 'folder' THEN name || '/' ELSE name END) STORED,
	size_bytes   bigint NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),
	object_key   uuid, -- of the backend object; a copy has that of its original
	sha256       bytea CHECK (length(sha256) = 32), -- null: not known
	media_type   text NOT NULL DEFAULT '',
	-- Of a folder: at least the depth and the length in bytes of every path below it. They do not shrink.
	deepest      smallint NOT NULL DEFAULT 0,
	longest      smallint NOT NULL DEFAULT 0,
	created_by   text NOT NULL DEFAULT '', -- an actor, as in the audit log
	created_at   timestamptz NOT NULL DEFAULT now(),
	updated_at   timestamptz NOT NULL DEFAULT now(),
	deleted_at   timestamptz,
	deleted_path text, -- the path at that time
	purge_at     timestamptz,
	CONSTRAINT storage_objects_file_has_bytes CHECK ((type = 'file') = (object_key IS NOT NULL)),
	CONSTRAINT storage_objects_root CHECK ((parent_id IS NULL) = (id = project_id)),
	CONSTRAINT storage_objects_deleted CHECK ((deleted_at IS NULL) = (purge_at IS NULL) AND (deleted_at IS NULL) = (deleted_path IS NULL))
);
COMMENT ON TABLE storage_objects IS 'Files and folders of projects, a tree by parent. A deleted folder is one row: what is below it is reachable by no path.';
CREATE UNIQUE INDEX storage_objects_one_name ON storage_objects (parent_id, folded) WHERE deleted_at IS NULL;
CREATE INDEX storage_objects_by_name ON storage_objects (parent_id, sort_key) WHERE deleted_at IS NULL;
CREATE INDEX storage_objects_by_time ON storage_objects (parent_id, updated_at, id) WHERE deleted_at IS NULL;
CREATE INDEX storage_objects_trash ON storage_objects (project_id, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX storage_objects_purge ON storage_objects (purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX storage_objects_by_key ON storage_objects (object_key) WHERE object_key IS NOT NULL;
SELECT scope_rows('storage_objects', 'org_id = (SELECT scope_tenant())');

CREATE TABLE storage_reservations (
	object_key uuid PRIMARY KEY,
	org_id     uuid NOT NULL,
	project_id uuid NOT NULL,
	bytes      bigint NOT NULL CHECK (bytes >= 0), -- part of reserved_bytes in storage_usage
	expires_at timestamptz NOT NULL, -- an upload in progress moves it
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE storage_reservations IS 'Backend objects that may exist without a stored object: of uploads in progress, and of replaced and purged files.';
CREATE INDEX storage_reservations_by_end ON storage_reservations (expires_at);
SELECT scope_rows('storage_reservations', 'org_id = (SELECT scope_tenant())');
