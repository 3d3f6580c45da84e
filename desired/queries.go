package desired

import (
	"fmt"
	"time"

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
	relabelObject = `
		UPDATE desired_objects SET name = $3, labels = $4, resource_version = resource_version + 1, updated_at = now()
		WHERE kind = $1 AND uid = $2 AND (name, labels) IS DISTINCT FROM ($3, $4::jsonb)`
	updateSpec = `
		WITH put AS (
			UPDATE desired_objects
			SET spec = $2, spec_hash = $3, generation = generation + 1, resource_version = resource_version + 1,
				fence = fence + 1, updated_at = now()
			WHERE uid = $1
			RETURNING kind, uid, generation, fence, resource_version, updated_at
		), due AS (
			SELECT mark_due(kind, uid, now(), 'changed') FROM put
		)
		SELECT generation, fence, resource_version, updated_at FROM put, due`

	// A tombstone gives its name away, and stays until it is dropped.
	updateTombstone = `UPDATE desired_objects SET deleted_at = coalesce(deleted_at, now()) WHERE uid = $1`

	dropObject = `DELETE FROM desired_objects WHERE kind = $1 AND uid = $2`

	raiseFences = `
		WITH put AS (
			UPDATE desired_objects o SET fence = r.fence, resource_version = resource_version + 1, updated_at = now()
			FROM unnest($1::uuid[], $2::bigint[]) AS r(uid, fence) WHERE o.uid = r.uid AND o.fence < r.fence
			RETURNING o.kind, o.uid
		)
		SELECT count(*), count(mark_due(kind, uid, now(), 'fence raised after a restore')) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	raiseEpoch = `
		WITH put AS (
			UPDATE desired_objects SET epoch = epoch + 1, resource_version = resource_version + 1, updated_at = now()
			WHERE kind = $1 AND uid = $2
			RETURNING kind, uid
		)
		SELECT mark_due(kind, uid, now(), $3) FROM put`

	// What has run out is read as if it were not there.
	selectObject = `
		SELECT uid, kind, scope, name, labels, annotations, spec, spec_hash, generation, resource_version, fence, epoch,
			owner, source, repository, commit, path, line, col, created_at, updated_at, deleted_at,
			CASE WHEN adopt_until > now() THEN adopt_by ELSE '' END, adopt_until,
			CASE WHEN suspended_until <= now() THEN '' ELSE suspended_by END, suspended_reason, suspended_at, suspended_until
		FROM desired_objects`

	// Policies from Git sort last, so that they override the others.
	selectPolicies = selectObject + `
		WHERE kind = 'Policy' AND deleted_at IS NULL AND spec->>'key' = ANY ($1::text[]) AND spec->>'scope' = ANY ($2::text[])
		ORDER BY owner, uid`

	// A transaction locks lockSole before it writes a value that only one object may have.
	lockSole   = `SELECT pg_advisory_xact_lock(hashtextextended('only one', 0))`
	selectSole = selectObject + `
		WHERE deleted_at IS NULL AND kind IN ('Policy', 'OSImage', 'StorageClass', 'Environment') AND CASE
			WHEN kind = 'Policy' THEN (spec->>'key') || ' at ' || (spec->>'scope')
			WHEN kind = 'Environment' THEN 'the environment'
			WHEN kind = 'StorageClass' AND spec->>'default' = 'true' THEN 'the default storage class'
			WHEN kind = 'OSImage' AND spec->>'default' = 'true' THEN 'the default image'
			END = ANY ($1::text[])
		ORDER BY owner, uid`

	// Whether anything may be done about an object is read with it, for the loop.
	halted = `o.name, o.suspended_at IS NOT NULL, o.suspended_until, coalesce(o.annotations->>'gpuaas/drift', ''), coalesce(o.annotations->>'gpuaas/ignore-differences', '')`

	selectAllocations = `
		SELECT ` + halted + `, uid, generation, fence, epoch, spec_hash, (spec->>'node')::uuid, coalesce(spec->>'sku', ''), (spec->>'released')::boolean,
			ARRAY(SELECT jsonb_array_elements_text(spec->'gpuUUIDs'))
		FROM desired_objects o WHERE uid = ANY($1) AND kind = 'Allocation'`
	selectKeyless = `
		SELECT uid FROM desired_objects
		WHERE uid = ANY($1) AND kind = 'Allocation' AND NOT coalesce(jsonb_array_length(nullif(spec->'keys', 'null')) > 0, false)`

	// A node is compared with the GPU model of its SKU. OFFSET 0 makes PostgreSQL read the SKU
	// by name, and only for nodes.
	selectDeclared = `
		SELECT ` + halted + `, o.uid, o.kind, o.generation, o.epoch, o.spec_hash, o.deleted_at IS NOT NULL, o.owner, o.source, o.commit,
			CASE WHEN o.kind = 'Node' THEN o.spec ELSE '{}' END, coalesce(sku.model, ''), coalesce(sku.price, 0), coalesce(sku.currency, '')
		FROM desired_objects o LEFT JOIN LATERAL (
			SELECT s.spec->>'gpuModel' AS model, (s.spec->'price'->>'amountMinor')::bigint AS price, s.spec->'price'->>'currency' AS currency
			FROM desired_objects s WHERE o.kind = 'Node' AND s.kind = 'SKU' AND s.scope = '' AND s.name = o.spec->>'sku' AND s.deleted_at IS NULL OFFSET 0
		) AS sku ON true
		WHERE o.uid = ANY($1)`

	// An unchanged spec raises no generation. Its position in the file is still updated.
	upsertSource = `
		WITH input AS (
			SELECT * FROM jsonb_to_recordset($1) AS r(uid uuid, kind text, scope text, name text, labels jsonb,
				annotations jsonb, spec jsonb, spec_hash text, path text, line int, col int)
		), put AS (
			INSERT INTO desired_objects AS o (uid, kind, scope, name, labels, annotations, spec, spec_hash, owner, source, repository, commit, path, line, col)
			SELECT uid, kind, scope, name, labels, annotations, spec, spec_hash, 'git', $4, $2, $3, path, line, col FROM input ORDER BY uid
			ON CONFLICT (uid) DO UPDATE SET
				generation = o.generation + (o.spec_hash <> excluded.spec_hash OR o.deleted_at IS NOT NULL)::int,
				resource_version = o.resource_version + 1, updated_at = now(), deleted_at = NULL,
				labels = excluded.labels, annotations = excluded.annotations, spec = excluded.spec, spec_hash = excluded.spec_hash,
				owner = 'git', source = excluded.source, adopt_by = '', adopt_until = NULL, repository = excluded.repository, commit = excluded.commit, path = excluded.path, line = excluded.line, col = excluded.col
			RETURNING kind, uid
		)
		SELECT count(mark_due(kind, uid, now(), 'revision applied')) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	// All objects of the API in one statement. A deleted object that is put again has its old uid
	// and a higher generation, as after a revision.
	upsertOwned = `
		WITH input AS (
			SELECT coalesce((
					-- Locked, so that the later of two restores finds no tombstone, and the name in use.
					SELECT d.uid FROM desired_objects d
					WHERE (d.kind, d.scope, d.name) = (r.kind, r.scope, r.name) AND d.kind <> 'Allocation' AND d.deleted_at IS NOT NULL
						AND NOT EXISTS (SELECT FROM desired_objects l WHERE (l.kind, l.scope, l.name) = (r.kind, r.scope, r.name) AND l.deleted_at IS NULL)
					ORDER BY d.deleted_at DESC LIMIT 1 FOR UPDATE), r.uid) AS uid,
				kind, scope, name, labels, annotations, spec, spec_hash
			FROM jsonb_to_recordset($1) AS r(uid uuid, kind text, scope text, name text, labels jsonb, annotations jsonb, spec jsonb, spec_hash text)
		), put AS (
			INSERT INTO desired_objects AS o (uid, kind, scope, name, labels, annotations, spec, spec_hash, owner, fence)
			SELECT uid, kind, scope, name, labels, annotations, spec, spec_hash, 'api', 1 FROM input ORDER BY uid
			ON CONFLICT (uid) DO UPDATE SET
				generation = o.generation + (o.spec_hash <> excluded.spec_hash OR o.deleted_at IS NOT NULL)::int,
				fence = o.fence + (o.spec_hash <> excluded.spec_hash OR o.deleted_at IS NOT NULL)::int,
				resource_version = o.resource_version + 1, updated_at = now(), deleted_at = NULL,
				labels = excluded.labels, annotations = excluded.annotations, spec = excluded.spec, spec_hash = excluded.spec_hash,
				owner = 'api', source = '', repository = '', commit = '', path = '', line = 0, col = 0
			RETURNING kind, uid
		)
		SELECT count(mark_due(kind, uid, now(), 'declared')) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	selectNamed = selectObject + `
		WHERE deleted_at IS NULL AND (kind, scope, name) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[])) ORDER BY uid`

	tombstoneObjects = `
		WITH put AS (
			UPDATE desired_objects SET deleted_at = now(), generation = generation + 1, resource_version = resource_version + 1, updated_at = now()
			WHERE uid = ANY($1) AND deleted_at IS NULL
			RETURNING kind, uid
		)
		SELECT count(mark_due(kind, uid, now(), $2)) FROM (SELECT kind, uid FROM put ORDER BY uid) AS sorted`

	selectSource = selectObject + `
		WHERE kind <> 'Allocation' AND (name = ANY ($2) OR $3 AND owner = 'git' AND source = $1) ORDER BY uid`
	selectSourceLocked = selectSource + ` FOR UPDATE`

	renameObjects = `UPDATE desired_objects SET source = $1 WHERE owner = 'git' AND source = $2`

	updateObject = `
		WITH put AS (
			UPDATE desired_objects
			SET labels = $2, annotations = $3, resource_version = resource_version + 1, updated_at = now()
			WHERE uid = $1
			RETURNING kind, uid, resource_version, updated_at
		), due AS (
			SELECT mark_due(kind, uid, now(), 'changed') FROM put
		)
		SELECT resource_version, updated_at FROM put, due`
	suspendObject = `
		WITH put AS (
			UPDATE desired_objects SET suspended_by = $2, suspended_reason = $3, suspended_at = now(), suspended_until = $4,
				resource_version = resource_version + 1, updated_at = now()
			WHERE uid = $1
			RETURNING kind, uid
		)
		SELECT mark_due(kind, uid, now(), 'suspended'), mark_due(kind, uid, coalesce($4::timestamptz, now()), 'its suspension ends') FROM put`
	resumeObject = `
		WITH put AS (
			UPDATE desired_objects SET suspended_by = '', suspended_reason = '', suspended_at = NULL, suspended_until = NULL,
				resource_version = resource_version + 1, updated_at = now()
			WHERE uid = $1
			RETURNING kind, uid
		)
		SELECT mark_due(kind, uid, now(), 'resumed') FROM put`
	offerObject = `
		UPDATE desired_objects SET adopt_by = $2, adopt_until = now() + $3::interval, resource_version = resource_version + 1, updated_at = now()
		WHERE uid = $1`
	takeObject = `
		UPDATE desired_objects SET owner = 'api', source = '', repository = '', commit = '', path = '', line = 0, col = 0, adopt_by = '', adopt_until = NULL,
			resource_version = resource_version + 1, updated_at = now()
		WHERE uid = $1`
	exportObjects = selectObject + `
		WHERE kind = ANY ($1::text[]) AND deleted_at IS NULL AND ($2 = '' OR owner = $2) AND ($3 = '' OR source = $3)
		ORDER BY array_position($1::text[], kind), name, uid`

	selectLast = selectObject + ` WHERE kind = $1 AND scope = $2 AND name = $3 ORDER BY deleted_at DESC NULLS FIRST LIMIT 1`

	// Slices of the key space for the sweep, sorted by key.
	selectSlice = `SELECT kind, uid FROM desired_objects WHERE uid > $1 ORDER BY uid LIMIT $2`
	// PostgreSQL has no estimate of a small table that was never analysed.
	countRoughly = `
		SELECT CASE WHEN reltuples >= 1000 THEN reltuples::bigint ELSE (SELECT count(*) FROM (SELECT FROM desired_objects LIMIT 1000) AS few) END
		FROM pg_class WHERE oid = 'desired_objects'::regclass`
)

func scanObject(row pgx.CollectableRow) (o Object, err error) {
	var adopt Adoption
	var until *time.Time
	var by SuspensionRow
	err = row.Scan(&o.UID, &o.Kind, &o.Scope, &o.Name, &o.Labels, &o.Annotations, &o.Spec, &o.SpecHash, &o.Generation,
		&o.ResourceVersion, &o.Fence, &o.Epoch, &o.Source.Owner, &o.Source.Name, &o.Source.Repository, &o.Source.Commit, &o.Source.Path,
		&o.Source.Line, &o.Source.Column, &o.CreatedAt, &o.UpdatedAt, &o.DeletedAt, &adopt.Source, &until, &by.By, &by.Reason, &by.At, &by.Until)
	if err != nil {
		return Object{}, fmt.Errorf("scanning declaration: %w", err)
	}
	if adopt.Source != "" && until != nil {
		adopt.Until = *until
		o.Adopt = &adopt
	}
	o.Suspended = by.Active()
	return o, nil
}
