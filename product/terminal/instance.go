package terminal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Instance describes how agents and other terminal servers reach a terminal server.
type Instance struct {
	Address string
	Key     string // hex SHA-256 of its public key
}

// Running returns some running terminal servers, in random sequence.
func (s *Service) Running(ctx context.Context) ([]Instance, error) {
	return pg.List(ctx, s.DB, "terminal servers", selectRunning, func(row pgx.CollectableRow) (v Instance, err error) {
		return v, row.Scan(&v.Address, &v.Key)
	}, int64(silence/time.Second))
}

// HasKey reports whether a running terminal server has the key.
func (s *Service) HasKey(ctx context.Context, key string) (has bool, err error) {
	if err := s.DB.QueryRow(ctx, selectKey, key).Scan(&has); err != nil {
		return false, fmt.Errorf("reading the keys of terminal servers: %w", err)
	}
	return has, nil
}

// OwnerOf returns the other terminal server that owns the terminal which a token resumes. It does not consume the token; the
// owner does.
func (s *Service) OwnerOf(ctx context.Context, token string, self uuid.UUID) (at Instance, found bool, err error) {
	hash := sha256.Sum256([]byte(token))
	err = s.DB.QueryRow(ctx, selectOwner, hash[:], self).Scan(&at.Address, &at.Key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return at, false, nil
	case err != nil:
		return at, false, fmt.Errorf("reading the owner of a terminal: %w", err)
	}
	return at, true, nil
}
