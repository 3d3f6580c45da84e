package desired

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// ProviderStripe is the payment provider that there is.
const ProviderStripe = "stripe"

// Drivers of the object store, and its encryption with a key.
const (
	StorageFiles  = "files"
	StorageS3     = "s3"
	EncryptionKMS = "aws:kms"
)

// NeedsRestart names the fields that differ and that a server reads once, when
// it starts. Everything else of a profile takes effect while it runs.
func NeedsRestart(before, after Environment) []string {
	var fields []string
	for _, f := range []struct {
		name   string
		differ bool
	}{
		{"vendor", before.Vendor != after.Vendor},
		{"service", before.Service != after.Service},
		{"region", before.Region != after.Region},
		{"trustDomain", before.TrustDomain != after.TrustDomain},
		{"development", before.Development != after.Development},
		{"signIn", !before.SignIn.equal(after.SignIn)},
		{"payments", before.Payments != after.Payments},
		{"mail", before.Mail != after.Mail},
		{"storage", before.Storage != after.Storage},
	} {
		if f.differ {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// equal treats a nil map of roles and an empty one as equal.
func (s SignIn) equal(other SignIn) bool {
	return maps.Equal(s.Roles, other.Roles) && s.Issuer == other.Issuer && s.ClientID == other.ClientID &&
		s.CLIClientID == other.CLIClientID && s.Audience == other.Audience && s.RolesClaim == other.RolesClaim
}

// Condition is a named yes, no or unknown.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // True | False | Unknown
	Reason             string    `json:"reason"` // CamelCase
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observed_generation"` // of a source: its applied revision
	LastTransitionTime time.Time `json:"last_transition_time"`
}

// AppliedProfile reads the applied profile, also for roles that do not read desired objects; not_found before
// the first revision.
func AppliedProfile(ctx context.Context, q pg.Queryer) (p Environment, err error) {
	var spec []byte
	switch err := q.QueryRow(ctx, selectProfile).Scan(&spec); {
	case errors.Is(err, pgx.ErrNoRows):
		return p, errs.New(errs.NotFound, "no profile is applied")
	case err != nil:
		return p, fmt.Errorf("reading the applied profile: %w", err)
	}
	if err := json.Unmarshal(spec, &p); err != nil {
		return p, fmt.Errorf("reading the applied profile: %w", err)
	}
	return p, nil
}

const selectProfile = `SELECT spec FROM applied_profile`

// Profile reads the environment's profile; not_found where none is declared.
func (s *Store) Profile(ctx context.Context, q pg.Queryer) (o Object, p Environment, err error) {
	o, err = scanOne(q.Query(ctx, selectObject+` WHERE kind = 'Environment' AND deleted_at IS NULL ORDER BY name LIMIT 1`))
	if err == nil {
		err = json.Unmarshal(o.Spec, &p)
	}
	if err != nil {
		return Object{}, Environment{}, err
	}
	return o, p, nil
}
