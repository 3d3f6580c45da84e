package accesskey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
	"github.com/gpuaas/gpuaas/protocol"
)

// mountLife is the time for which a request of the node extends the access keys of an allocation. A node that has lost its
// certificate, or its connection to the node API, can use them for no longer.
const mountLife = time.Hour

// AdmitMounts rejects mounts that no node can make, and those of files that the caller may not use. It returns them as a spec contains them: sorted by mount point, with
// paths as the names of stored objects are. field is the field of the request.
func (s *Service) AdmitMounts(c identity.Caller, field string, mounts []desired.Mount) ([]desired.Mount, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	if s.MayMount == nil {
		return nil, errs.Invalid(field, "are not offered: the platform has no S3 endpoint for nodes").Try("request the allocation without mounts, or let an operator set storage.s3Url in the profile")
	}
	if len(mounts) > protocol.MaxMounts {
		return nil, errs.Invalid(field, "has %d mounts, at most %d", len(mounts), protocol.MaxMounts).Try("mount a folder that contains several of them")
	}
	list, points := slices.Clone(mounts), make([]string, len(mounts))
	for i := range list {
		at := fmt.Sprintf("%s.%d", field, i)
		p, err := objectpath.ParseFolder(at+".path", list[i].Path)
		if err != nil {
			return nil, err
		}
		points[i] = list[i].At
		if !s.MayMount(c, list[i].ReadOnly) {
			return nil, forbidden(at, list[i].ReadOnly)
		}
		if list[i].Path = p.String(); !protocol.CheckMountAt(list[i].At) {
			return nil, errs.Invalid(at+".at", "must be a folder in the home, such as data or work/data: one to four names of letters, digits, dots, hyphens and underscores that begin with a letter or a digit")
		}
	}
	slices.SortFunc(list, func(a, b desired.Mount) int { return strings.Compare(a.At, b.At) })
	if outer, inner, found := protocol.Nested(points); found {
		return nil, errs.Invalid(field, "the mount points %q and %q overlap", outer, inner).Try("choose mount points that are not below one another")
	}
	return list, nil
}

// forbidden is the error of a caller without the right that a mount needs.
func forbidden(at string, readOnly bool) error {
	if readOnly {
		return errs.New(errs.Forbidden, "you may not read the files of the project").At(at).Try("request a role that may read them from an administrator of the project")
	}
	return errs.New(errs.Forbidden, "you may not change the files of the project").At(at).
		Try("mount the folder read-only, or request a role that may change them from an administrator of the project")
}

// Endpoint returns the URL of the S3 endpoint for the spec of an allocation with these mounts.
func (s *Service) Endpoint(mounts []desired.Mount) string {
	if len(mounts) == 0 {
		return ""
	}
	return s.URL()
}

// URL returns the URL of the S3 endpoint. It is empty where the profile does not name it: the endpoint can be behind a load
// balancer whose name the server cannot know.
func (s *Service) URL() string {
	if s.MountURL == nil {
		return ""
	}
	return s.MountURL()
}

// QueueMounts creates a key for each mount of a new allocation, with the rights of the caller. No key can be used before
// its node has requested it.
func (s *Service) QueueMounts(b *pgx.Batch, c identity.Caller, allocation ids.Allocation, node ids.Node, mounts []desired.Mount) {
	for _, m := range mounts {
		id := uuid.Must(uuid.NewV7())
		b.Queue(insertMountKey, id, c.Tenant, c.Project, newID(), s.MountSeal.Seal([]byte(newSecret()), secretAt(id)), "mount "+m.At, m.Path, m.ReadOnly,
			creatorOf(c), c.Actor(), allocation, m.At, node)
	}
}

// QueueMountsPlaced records the node of an allocation that was placed later. Without mounts it does nothing.
func QueueMountsPlaced(b *pgx.Batch, allocation ids.Allocation, node ids.Node, mounts []desired.Mount) {
	if len(mounts) > 0 {
		b.Queue(placeMountKeys, allocation, node)
	}
}

// QueueMountsReleased ends the extensions. The keys stay valid for the rest of their time, because the node stores the last
// changes with them.
func QueueMountsReleased(b *pgx.Batch, allocation ids.Allocation, mounts []desired.Mount) {
	if len(mounts) > 0 {
		b.Queue(placeMountKeys, allocation, nil)
	}
}

// EndMounts deletes the keys of an allocation of which nothing is left.
func EndMounts(ctx context.Context, tx pgx.Tx, allocation ids.Allocation) error {
	if _, err := tx.Exec(ctx, deleteMountKeys, allocation); err != nil {
		return fmt.Errorf("deleting the access keys of %s: %w", allocation, err)
	}
	return nil
}

type mountRow struct {
	ID     uuid.UUID
	At     string
	Key    string
	Sealed []byte
	Until  time.Time
}

// ExtendMounts returns the keys of an allocation to its node, and extends them. It returns not_found unless the allocation
// is on the node and has mounts, and after its release was requested.
func (s *Service) ExtendMounts(ctx context.Context, node ids.Node, allocation ids.Allocation) (keys protocol.MountKeys, err error) {
	rows, err := pg.List(ctx, s.DB, "access keys of mounts", extendMountKeys, pgx.RowToStructByPos[mountRow], allocation, node, mountLife)
	if err != nil {
		return keys, err
	}
	if len(rows) == 0 {
		return keys, errs.New(errs.NotFound, "the node has no such allocation with mounts")
	}
	for _, r := range rows {
		secret, err := s.MountSeal.Open(ctx, r.Sealed, secretAt(r.ID))
		if err != nil {
			return protocol.MountKeys{}, err
		}
		keys.ExpiresAt = r.Until
		keys.Keys = append(keys.Keys, protocol.MountKey{At: r.At, AccessKeyID: r.Key, Secret: string(secret)})
	}
	slices.SortFunc(keys.Keys, func(a, b protocol.MountKey) int { return strings.Compare(a.At, b.At) })
	return keys, nil
}

// open returns the secret of a key.
func (s *Service) open(ctx context.Context, k Key) (string, error) {
	seal := s.Seal
	if k.Allocation != (ids.Allocation{}) {
		seal = s.MountSeal
	}
	secret, err := seal.Open(ctx, k.sealed, secretAt(k.ID))
	return string(secret), err
}
