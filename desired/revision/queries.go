package revision

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

const (
	// One revision of a source at a time: a second replica waits, and then finds
	// that the source has moved.
	lockSource = `SELECT pg_advisory_xact_lock(hashtextextended('apply ' || $1, 0))`

	insertRevision = `
		INSERT INTO desired_revisions (source, repository, commit, tree_hash, parent, status, objects, created_n, changed_n, deleted_n, adopted_n,
			author, author_email, message, committed_at, signer, findings, waits, plan_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		RETURNING revision, version, created_at, updated_at`
	updateRevision = `
		UPDATE desired_revisions
		SET parent = $1, status = $2, objects = $3, created_n = $4, changed_n = $5, deleted_n = $6, adopted_n = $7, findings = $8, waits = $9,
			plan_id = $10, version = version + 1, updated_at = now()
		WHERE revision = $11
		RETURNING revision, version, created_at, updated_at`
	overtakeRevisions = `
		UPDATE desired_revisions SET status = 'rejected', findings = $2, version = version + 1, updated_at = now()
		WHERE source = $1 AND status IN ('waiting_approval', 'planned')`
	deleteRevisions = `
		DELETE FROM desired_revisions WHERE revision IN (
			SELECT revision FROM desired_revisions r WHERE updated_at < now() - $1::interval AND revision < (
				SELECT p.revision FROM desired_pointer p WHERE p.source = r.source)
			ORDER BY revision LIMIT $2)`
	movePointer = `
		INSERT INTO desired_pointer (source, revision, commit, tree_hash) VALUES ($1, $2, $3, $4)
		ON CONFLICT (source) DO UPDATE SET revision = excluded.revision, commit = excluded.commit, tree_hash = excluded.tree_hash, applied_at = now()`
	selectPointer = `SELECT revision, commit, tree_hash, applied_at FROM desired_pointer WHERE source = $1`

	allRevisions = `
		SELECT revision, source, repository, commit, tree_hash, parent, status, objects, created_n, changed_n, deleted_n, adopted_n,
			author, author_email, message, committed_at, signer, findings, waits, plan_id, version, created_at, updated_at
		FROM desired_revisions`
	selectRevisions = allRevisions + `
		WHERE ($1 = '' OR source = $1) AND ($2 = '' OR status = $2) AND ($3 = '' OR commit = $3) AND revision < $4
			AND ($6::timestamptz IS NULL OR updated_at >= $6) ORDER BY revision DESC LIMIT $5`
	selectRevision = allRevisions + ` WHERE revision = $1`
	selectLatest   = allRevisions + ` WHERE source = $1 ORDER BY revision DESC LIMIT 1`

	// A source that was named after its repository passes its objects to its new name.
	renamePointer  = `UPDATE desired_pointer SET source = $1 WHERE source = $2 AND NOT EXISTS (SELECT FROM desired_pointer WHERE source = $1)`
	renameRevision = `UPDATE desired_revisions SET source = $1 WHERE source = $2`

	// What stayed as it is is not written.
	upsertSources = `
		WITH input AS (
			SELECT * FROM jsonb_to_recordset($2) AS r(name text, repository text, ref text, dirs text[], settings jsonb)
		)
		INSERT INTO git_sources AS g (name, repository, ref, dirs, declared_by, settings)
		SELECT name, repository, ref, dirs, $1, settings FROM input ORDER BY name
		ON CONFLICT (name) DO UPDATE SET repository = excluded.repository, ref = excluded.ref, dirs = excluded.dirs, declared_by = excluded.declared_by,
			settings = excluded.settings, removed_at = NULL, updated_at = now(), version = g.version + 1
		WHERE (g.repository, g.ref, g.dirs, g.declared_by, g.settings, g.removed_at) IS DISTINCT FROM
			(excluded.repository, excluded.ref, excluded.dirs, excluded.declared_by, excluded.settings, NULL::timestamptz)`
	leaveSources = `
		UPDATE git_sources SET removed_at = now(), updated_at = now(), version = version + 1
		WHERE declared_by = $1 AND name <> ALL ($2::text[]) AND removed_at IS NULL`

	sawSource = `
		UPDATE git_sources
		SET checked_at = now(), head = coalesce(nullif($2, ''), head), tree_hash = CASE WHEN $3 <> '' AND tree_hash = $6 THEN $3 ELSE tree_hash END,
			fetched_at = CASE WHEN $4 = '' THEN now() ELSE fetched_at END,
			error_since = CASE WHEN $4 = '' THEN NULL ELSE coalesce(error_since, now()) END, error_code = $4, error = $5
		WHERE name = $1`
	selectSettings = `SELECT settings FROM git_sources WHERE name = $1 AND removed_at IS NULL`
	askSource      = `UPDATE git_sources SET sync_requested_at = now() WHERE name = $1 AND removed_at IS NULL`
	// The next poll compares the whole tree, changed or not.
	invalidateTree = `UPDATE git_sources SET tree_hash = '' WHERE name = $1`
	suspendSource  = `
		UPDATE git_sources SET suspended_by = $2, suspended_reason = $3, suspended_at = now(), suspended_until = $4, updated_at = now(), version = version + 1 WHERE name = $1`
	resumeSource = `
		UPDATE git_sources SET suspended_by = '', suspended_reason = '', suspended_at = NULL, suspended_until = NULL, updated_at = now(), version = version + 1 WHERE name = $1`

	allSources = `
		SELECT name, g.repository, ref, dirs, declared_by, settings, head, g.tree_hash, checked_at, fetched_at, error_code, error, error_since,
			CASE WHEN isfinite(sync_requested_at) THEN sync_requested_at END, CASE WHEN suspended_until <= now() THEN '' ELSE suspended_by END, suspended_reason,
			suspended_at, suspended_until, g.version, g.created_at, g.updated_at, removed_at, coalesce(p.revision, 0), coalesce(p.commit, ''), coalesce(p.tree_hash, ''), p.applied_at,
			coalesce(l.revision, 0), coalesce(l.commit, ''), coalesce(l.tree_hash, ''), coalesce(l.status, ''), coalesce(l.objects, 0), coalesce(l.findings, '[]'), coalesce(l.waits, '[]'),
			l.updated_at
		FROM git_sources g
		LEFT JOIN desired_pointer p ON p.source = g.name
		LEFT JOIN LATERAL (SELECT * FROM desired_revisions r WHERE r.source = g.name ORDER BY revision DESC LIMIT 1) l ON true`
	selectSources      = allSources + ` WHERE name > $1 ORDER BY name LIMIT $2`
	selectSourceByName = allSources + ` WHERE name = $1`

	// The latest revision of the commit that wrote the object.
	selectWritten = `
		SELECT o.created_at, o.updated_at, coalesce(r.revision, 0), coalesce(r.status, ''), coalesce(r.author, ''), coalesce(r.message, '')
		FROM desired_objects o LEFT JOIN LATERAL (
			SELECT revision, status, author, message FROM desired_revisions
			WHERE o.owner = 'git' AND source = o.source AND commit = o.commit ORDER BY revision DESC LIMIT 1
		) AS r ON true
		WHERE o.uid = $1`
)

func scanRevision(row pgx.CollectableRow) (r Revision, err error) {
	var plan *ids.Plan
	err = row.Scan(&r.Revision, &r.Source, &r.Repository, &r.Commit, &r.TreeHash, &r.Parent, &r.Status, &r.Objects, &r.Created, &r.Changed, &r.Deleted,
		&r.Adopted, &r.Author, &r.AuthorEmail, &r.Message, &r.CommittedAt, &r.Signer, &r.Findings, &r.Waits, &plan, &r.Version, &r.At, &r.UpdatedAt)
	if err != nil {
		return Revision{}, fmt.Errorf("scanning revision: %w", err)
	}
	if plan != nil {
		r.Plan = *plan
	}
	return r, nil
}
