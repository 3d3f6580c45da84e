package desired

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	insertObject = `
		WITH put AS (
			INSERT INTO desired_objects (uid, kind, scope, name, labels, annotations, spec, spec_hash, owner, fence)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1)
			RETURNING kind, uid
		)
		SELECT mark_due(kind, uid, now(), 'declared') FROM put`

	// Every change of an allocation is a decision, so its fence rises too.
	updateSpec = `
		WITH put AS (
			UPDATE desired_objects
			SET spec = $2, spec_hash = $3, generation = generation + 1, resource_version = resource_version + 1,
				fence = fence + 1, updated_at = now()
			WHERE uid = $1
			RETURNING kind, uid, generation, fence, resource_version
		), due AS (
			SELECT mark_due(kind, uid, now(), 'changed') FROM put
		)
		SELECT generation, fence, resource_version FROM put, due`

	// A tombstone gives its name away, and stays until it is dropped.
	updateTombstone = `UPDATE desired_objects SET deleted_at = coalesce(deleted_at, now()) WHERE uid = $1`

	dropObject = `DELETE FROM desired_objects WHERE kind = $1 AND uid = $2`

	raiseEpoch = `
		WITH put AS (
			UPDATE desired_objects SET epoch = epoch + 1, resource_version = resource_version + 1, updated_at = now()
			WHERE kind = $1 AND uid = $2
			RETURNING kind, uid
		)
		SELECT mark_due(kind, uid, now(), $3) FROM put`

	selectObject = `
		SELECT uid, kind, scope, name, labels, annotations, spec, spec_hash, generation, resource_version, fence, epoch,
			owner, repository, commit, path, line, col, deleted_at
		FROM desired_objects`

	// What Git says comes last.
	selectPolicies = selectObject + `
		WHERE kind = 'Policy' AND deleted_at IS NULL AND spec->>'key' = ANY ($1::text[]) AND spec->>'scope' = ANY ($2::text[])
		ORDER BY owner, uid`

	// Whether anything may be done about an object is read with it, for the loop.
	halted = `o.name, o.suspended_at IS NOT NULL, o.suspended_until, coalesce(o.annotations->>'gpuaas/drift', ''), coalesce(o.annotations->>'gpuaas/ignore-differences', '')`

	selectAllocations = `
		SELECT ` + halted + `, uid, generation, fence, epoch, spec_hash, (spec->>'node')::uuid, (spec->>'released')::boolean,
			ARRAY(SELECT jsonb_array_elements_text(spec->'gpuUUIDs'))
		FROM desired_objects o WHERE uid = ANY($1) AND kind = 'Allocation'`

	// A node is compared with what its SKU promises. OFFSET 0 keeps that a look-up by
	// name, for nodes only.
	selectDeclared = `
		SELECT ` + halted + `, o.uid, o.kind, o.generation, o.epoch, o.spec_hash, o.deleted_at IS NOT NULL, o.owner, o.source, o.commit,
			CASE WHEN o.kind = 'Node' THEN coalesce((o.spec->>'gpus')::int, 0) ELSE 0 END,
			ARRAY(SELECT jsonb_array_elements_text(CASE WHEN jsonb_typeof(o.spec->'serials') = 'array' THEN o.spec->'serials' END)),
			o.kind = 'Node' AND coalesce((o.spec->>'cordoned')::boolean, false), coalesce(sku.model, ''), coalesce(sku.price, 0), coalesce(sku.currency, '')
		FROM desired_objects o LEFT JOIN LATERAL (
			SELECT s.spec->>'gpuModel' AS model, (s.spec->'price'->>'amountMinor')::bigint AS price, s.spec->'price'->>'currency' AS currency
			FROM desired_objects s WHERE o.kind = 'Node' AND s.kind = 'SKU' AND s.scope = '' AND s.name = o.spec->>'sku' AND s.deleted_at IS NULL OFFSET 0
		) AS sku ON true
		WHERE o.uid = ANY($1)`

	// A spec that stayed raises no generation; its place in the file is kept true.
	upsertSource = `
		WITH input AS (
			SELECT * FROM jsonb_to_recordset($1) AS r(uid uuid, kind text, scope text, name text, labels jsonb,
				annotations jsonb, spec jsonb, spec_hash text, path text, line int, col int)
		), put AS (
			INSERT INTO desired_objects AS o (uid, kind, scope, name, labels, annotations, spec, spec_hash, owner, repository, commit, path, line, col)
			SELECT uid, kind, scope, name, labels, annotations, spec, spec_hash, 'git', $2, $3, path, line, col FROM input ORDER BY uid
			ON CONFLICT (uid) DO UPDATE SET
				generation = o.generation + (o.spec_hash <> excluded.spec_hash OR o.deleted_at IS NOT NULL)::int,
				resource_version = o.resource_version + 1, updated_at = now(), deleted_at = NULL,
				labels = excluded.labels, annotations = excluded.annotations, spec = excluded.spec, spec_hash = excluded.spec_hash,
				owner = 'git', repository = excluded.repository, commit = excluded.commit, path = excluded.path, line = excluded.line, col = excluded.col
			RETURNING kind, uid
		)
		SELECT count(mark_due(kind, uid, now(), 'revision applied')) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	buryObjects = `
		WITH put AS (
			UPDATE desired_objects SET deleted_at = now(), generation = generation + 1, resource_version = resource_version + 1, updated_at = now()
			WHERE uid = ANY($1) AND deleted_at IS NULL
			RETURNING kind, uid
		)
		SELECT count(mark_due(kind, uid, now(), 'removed by a revision')) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	insertRevision = `
		INSERT INTO desired_revisions (source, commit, status, objects, created_n, changed_n, deleted_n, findings)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING revision, created_at`
	movePointer = `
		INSERT INTO desired_pointer (source, revision, commit, tree_hash) VALUES ($1, $2, $3, $4)
		ON CONFLICT (source) DO UPDATE SET revision = excluded.revision, commit = excluded.commit, tree_hash = excluded.tree_hash, applied_at = now()`
	selectPointer   = `SELECT revision, commit, tree_hash, applied_at FROM desired_pointer WHERE source = $1`
	selectRevisions = `
		SELECT revision, source, commit, status, objects, created_n, changed_n, deleted_n, findings, created_at
		FROM desired_revisions WHERE revision < $1 ORDER BY revision DESC LIMIT $2`

	// Slices of the key space for the sweep, in key order.
	selectSlice  = `SELECT kind, uid FROM desired_objects WHERE uid > $1 ORDER BY uid LIMIT $2`
	countRoughly = `SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'desired_objects'::regclass`
)

func scanObject(row pgx.CollectableRow) (o Object, err error) {
	err = row.Scan(&o.UID, &o.Kind, &o.Scope, &o.Name, &o.Labels, &o.Annotations, &o.Spec, &o.SpecHash, &o.Generation,
		&o.ResourceVersion, &o.Fence, &o.Epoch, &o.Source.Owner, &o.Source.Repository, &o.Source.Commit, &o.Source.Path,
		&o.Source.Line, &o.Source.Column, &o.DeletedAt)
	if err != nil {
		return Object{}, fmt.Errorf("scanning declaration: %w", err)
	}
	return o, nil
}
