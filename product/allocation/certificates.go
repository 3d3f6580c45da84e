package allocation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
)

// queueCertificate records a certificate. It locks the principal and checks that it still has access: a
// user who is disabled meanwhile gets no certificate that the list of revocations misses.
func (s *Service) queueCertificate(b *pgx.Batch, c identity.Caller, l Login, id ids.Allocation) {
	identity.QueueLockPrincipal(b, c)
	identity.QueueNotBarred(b, c, errs.New(errs.Forbidden, "you have no access any more"))
	b.Queue(insertCertificate, int64(l.Serial), id, c.Principal(), l.ExpiresAt) //nolint:gosec // its bits
}

// Revoked returns the serials of the revoked certificates of an allocation, the smallest first. Those that
// have expired for an hour are left out: the clock of a node may be behind.
func (s *Service) Revoked(ctx context.Context, tx pgx.Tx, id ids.Allocation) ([]uint64, error) {
	rows, err := tx.Query(ctx, selectRevoked, id)
	if err != nil {
		return nil, fmt.Errorf("reading revoked certificates: %w", err)
	}
	serials, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (uint64, error) {
		var bits int64
		err := row.Scan(&bits)
		return uint64(bits), err //nolint:gosec // its bits
	})
	if err != nil {
		return nil, fmt.Errorf("reading revoked certificates: %w", err)
	}
	slices.Sort(serials)
	return serials, nil
}

// revoke revokes the principal's certificates of these allocations.
func (s *Service) revoke(ctx context.Context, tx pgx.Tx, principal uuid.UUID, from []ids.Allocation) (map[ids.Allocation]bool, error) {
	rows, err := tx.Query(ctx, revokeCertificates, principal, from)
	if err != nil {
		return nil, fmt.Errorf("revoking certificates: %w", err)
	}
	changed, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil {
		return nil, fmt.Errorf("revoking certificates: %w", err)
	}
	all := map[ids.Allocation]bool{}
	for _, id := range changed {
		all[id] = true
	}
	return all, nil
}

// ForgetCertificates deletes some expired certificates and returns how many.
func ForgetCertificates(ctx context.Context, q pg.Queryer, _ time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteCertificates, most)
	if err != nil {
		return 0, fmt.Errorf("deleting expired certificates: %w", err)
	}
	return tag.RowsAffected(), nil
}

// AuthoritiesHash identifies a set of SSH authorities. That of none is empty.
func AuthoritiesHash(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(lines)), "\n")))
	return hex.EncodeToString(sum[:])
}

// AuthoritiesSent records which authorities the node of an allocation was sent.
func (s *Service) AuthoritiesSent(ctx context.Context, tx pgx.Tx, id ids.Allocation, hash string) error {
	if _, err := tx.Exec(ctx, setAuthorities, id, hash); err != nil {
		return fmt.Errorf("recording the authorities of %s: %w", id, err)
	}
	return nil
}

// SendAuthorities gives some active allocations whose nodes were sent other authorities a new generation, and
// returns how many. The loop then sends the present authorities.
func (s *Service) SendAuthorities(ctx context.Context, tx pgx.Tx, hash string, most int) (int, error) {
	rows, err := tx.Query(ctx, lockOutdated, hash, most)
	if err != nil {
		return 0, fmt.Errorf("looking for old authorities: %w", err)
	}
	outdated, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil {
		return 0, fmt.Errorf("looking for old authorities: %w", err)
	}
	for _, id := range outdated {
		have, err := s.Desired.LockUID(ctx, tx, desired.KindAllocation, ids.Object(id))
		if err == nil {
			_, err = s.Desired.Respec(ctx, tx, desired.KindAllocation, ids.Object(id), have.Spec)
		}
		if err == nil {
			// The mark is written with the generation, so that the next pass does not find the allocation again.
			err = s.AuthoritiesSent(ctx, tx, id, hash)
		}
		if err != nil {
			return 0, fmt.Errorf("sending authorities for %s: %w", id, err)
		}
	}
	return len(outdated), nil
}
