-- +goose Up
-- storage: the metadata that S3 tools store with a file or a folder, by lower-case name.

ALTER TABLE storage_objects
	ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}',
	ADD CONSTRAINT storage_objects_metadata_is_an_object CHECK (jsonb_typeof(metadata) = 'object');
ALTER TABLE storage_uploads
	ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}',
	ADD CONSTRAINT storage_uploads_metadata_is_an_object CHECK (jsonb_typeof(metadata) = 'object');
