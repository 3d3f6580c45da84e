package keystore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// PurposeKEK names the key-encryption key in a rotation. It is not a stored key.
const PurposeKEK = "kek"

// OpenAll opens all keys with the rights of the owner of the schema, for a rotation.
func OpenAll(ctx context.Context, k Config, stateDir string, db pg.Queryer, c clock.Clock) (*Keys, error) {
	s := Source{Config: k, StateDir: stateDir, Roles: map[string]pg.Queryer{}, Any: db, Clock: c}
	for _, u := range Uses() {
		for _, role := range u.Roles {
			s.Roles[role] = db
		}
	}
	return Open(ctx, s)
}

// Begin creates the next key of a purpose. tx is the database that the keys were opened with: the key, the
// signed set of keys and the audit row of the caller are committed together.
func (o *Keys) Begin(ctx context.Context, tx pgx.Tx, purpose string, c clock.Clock) error {
	return o.step(ctx, tx, purpose, c, secret.Rotator.Begin)
}

// Finish ends the older keys of a purpose. For the key-encryption key it seals all stored keys with the newest
// one; EndKEK then removes the older one.
func (o *Keys) Finish(ctx context.Context, tx pgx.Tx, purpose string, c clock.Clock) error {
	if purpose == PurposeKEK {
		return o.resealAll(ctx)
	}
	if purpose == PurposeFields || purpose == PurposeWebhooks || purpose == PurposeRecordings || purpose == PurposeMounts || purpose == PurposeCursors {
		replaced, err := (&secret.Stored{DB: tx}).Replaced(ctx, purpose)
		if err != nil {
			return err
		}
		if !replaced {
			return errs.New(errs.Conflict, "servers may seal with the older key until 10 seconds after begin").Try("repeat the command in 10 seconds")
		}
	}
	return o.step(ctx, tx, purpose, c, secret.Rotator.Finish)
}

// EndKEK removes the older key-encryption keys, after the transaction of Finish was committed.
func (o *Keys) EndKEK(ctx context.Context) error { return o.kek.Finish(ctx) }

func (o *Keys) step(ctx context.Context, tx pgx.Tx, purpose string, c clock.Clock, do func(secret.Rotator, context.Context) error) error {
	rotator, err := o.rotator(purpose)
	if err != nil {
		return err
	}
	if err := (&secret.Stored{DB: tx}).Lock(ctx); err != nil {
		return err
	}
	if purpose != PurposeTasks && purpose != PurposeStatements && purpose != PurposeRelay {
		return do(rotator, ctx)
	}
	// A step in Vault may have been made without its set of keys, which was not committed.
	if published := o.isPublished(); published {
		if err := do(rotator, ctx); err != nil {
			return err
		}
	}
	return secret.SignKeySet(ctx, tx, o.Tasks, o.Tasks.Active(), o.present(), c.Now().Truncate(time.Second))
}

// isPublished reports whether the newest set contains the present keys.
func (o *Keys) isPublished() bool {
	set, _ := o.Sets.Control()
	return stampOf(set) == stampOf(o.present())
}

// present returns the public keys that belong into a set.
func (o *Keys) present() protocol.KeySet {
	return protocol.KeySet{TaskKeys: o.Tasks.Public(), StatementKeys: o.Statements.Public(), RelayKeys: o.Relay.Public()}
}

func stampOf(set protocol.KeySet) string {
	return secret.Stamp(nil, set.TaskKeys, set.StatementKeys, set.RelayKeys)
}

func (o *Keys) rotator(purpose string) (secret.Rotator, error) {
	of := map[string]any{
		PurposeAuthority: o.Authority, PurposeStatements: o.Statements, PurposeTasks: o.Tasks, PurposeRelay: o.Relay, PurposeLogins: o.Logins,
		PurposeTokens: secret.LocalSigner{Keys: o.Tokens}, PurposeFields: o.Fields, PurposeWebhooks: o.Webhooks, PurposeCursors: o.Cursors,
		PurposeRecordings: o.Recordings, PurposeMounts: o.Mounts, PurposeEvidence: o.Evidence,
		PurposeKEK: o.kek,
	}
	rotator, ok := of[purpose].(secret.Rotator)
	if !ok {
		return nil, errs.New(errs.Conflict, "the key for %s is rotated in its key store", purpose).Try("see docs/guides/rotate-ca-and-keys.md; status works here")
	}
	return rotator, nil
}

// resealRows limits the keys of one statement.
const resealRows = 100

func (o *Keys) resealAll(ctx context.Context) error {
	stored := o.storeOf(PurposeTasks)
	if err := stored.Lock(ctx); err != nil {
		return err
	}
	for {
		n, err := stored.Reseal(ctx, resealRows)
		if err != nil || n == 0 {
			return err
		}
	}
}

// KEK returns the key-encryption key.
func (o *Keys) KEK() secret.Wrapper { return o.kek }

// Kids lists the ids of the keys of a purpose, the one that signs or seals first.
func (o *Keys) Kids(purpose string) (active string, others []string) {
	var all []string
	switch purpose {
	case PurposeStatements:
		active, all = o.Statements.Active(), slices.Sorted(maps.Keys(o.Statements.Public()))
	case PurposeTasks:
		active, all = o.Tasks.Active(), slices.Sorted(maps.Keys(o.Tasks.Public()))
	case PurposeRelay:
		active, all = o.Relay.Active(), slices.Sorted(maps.Keys(o.Relay.Public()))
	case PurposeEvidence:
		active, all = o.Evidence.Active(), slices.Sorted(maps.Keys(o.Evidence.Public()))
	case PurposeTokens:
		active, all = o.Tokens.Active(), o.Tokens.Kids()
	case PurposeFields:
		active, all = o.Fields.Active(), o.Fields.IDs()
	case PurposeWebhooks:
		active, all = o.Webhooks.Active(), o.Webhooks.IDs()
	case PurposeRecordings:
		active, all = o.Recordings.Active(), o.Recordings.IDs()
	case PurposeMounts:
		active, all = o.Mounts.Active(), o.Mounts.IDs()
	case PurposeCursors:
		active, all = o.Cursors.Active(), o.Cursors.IDs()
	case PurposeKEK:
		active = o.kek.Active()
	}
	return active, slices.DeleteFunc(all, func(kid string) bool { return kid == active })
}
