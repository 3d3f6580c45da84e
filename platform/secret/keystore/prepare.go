package keystore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/protocol"
)

// Preparation creates the first keys of an installation.
type Preparation struct {
	Config
	// DB has the rights of the owner of the schema.
	DB       pg.Pool
	StateDir string
	// Development lets the first start create the file of the key-encryption key.
	Development bool
	// Signs is set in a process with the role work. If the task keys are in Vault, only such a process may
	// sign the first set of keys.
	Signs bool
	Log   *slog.Logger
	Clock clock.Clock
}

// Prepare creates the keys that are missing, and the first set of keys for nodes. A set of an older release has no relay
// keys, and the next one follows it. It opens no stored key if
// nothing is missing and there are no key files. Key files of an older release in the state directory
// become stored keys, and are removed.
func Prepare(ctx context.Context, p Preparation) error {
	missing, sets, err := p.missing(ctx, p.DB)
	if err != nil {
		return err
	}
	if len(missing) == 0 && (sets || !p.maySign()) {
		p.discard(ctx) // an earlier start may have ended before it removed the files
		return nil
	}
	if len(missing) == len(p.stored()) && p.Development && p.KEK != DriverVault {
		if err := keyfile.Create(KEKFile(p.Config, p.StateDir), p.Clock); err != nil && errs.CodeOf(err) != errs.AlreadyExists {
			return err
		}
	}
	kek, err := OpenKEK(ctx, p.Config, p.StateDir, p.Clock)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, p.DB, func(tx pgx.Tx) error { return p.create(ctx, tx, kek) })
	if err != nil {
		return fmt.Errorf("creating the first keys: %w", err)
	}
	p.discard(ctx)
	return nil
}

func (p Preparation) maySign() bool { return p.Signer != DriverVault || p.Signs }

// missing returns the purposes without a key, and whether a set of keys for each purpose of nodes is published.
func (p Preparation) missing(ctx context.Context, db pg.Queryer) (purposes []string, sets bool, err error) {
	have, err := (&secret.Stored{DB: db}).Purposes(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, purpose := range p.stored() {
		if !slices.Contains(have, purpose) {
			purposes = append(purposes, purpose)
		}
	}
	published := &secret.KeySets{DB: db}
	if err := published.Refresh(ctx); err != nil {
		return nil, false, err
	}
	set, _ := published.Control()
	return purposes, len(set.RelayKeys) > 0, nil
}

func (p Preparation) create(ctx context.Context, tx pgx.Tx, kek secret.Wrapper) error {
	stored := &secret.Stored{DB: tx, KEK: kek}
	if err := stored.Lock(ctx); err != nil {
		return err
	}
	missing, sets, err := p.missing(ctx, tx) // another process may have been faster
	if err != nil {
		return err
	}
	imported := 0
	for _, purpose := range missing {
		keys, files, err := oldKeys(p.StateDir, purpose)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			if keys, err = firstKey(purpose, p.Clock); err != nil {
				return err
			}
		}
		for _, key := range keys {
			if err := stored.Of(purpose).Add(ctx, key); err != nil {
				return err
			}
		}
		imported += len(files)
	}
	signs := !sets && p.maySign()
	if signs {
		if err := signFirst(ctx, tx, p.Config, stored, p.Clock); err != nil {
			return err
		}
	}
	if len(missing) == 0 && !signs {
		return nil
	}
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		By: audit.By{Actor: "system:server"}, Action: "keys.create", Target: "keys",
		After: map[string]any{"purposes": missing, "imported_files": imported, "signed_set": signs, "sealed_with": kek.Active()},
	})
	return tx.SendBatch(ctx, b).Close()
}

func firstKey(purpose string, c clock.Clock) ([]pki.Stored, error) {
	switch purpose {
	case PurposeAuthority:
		key, err := pki.NewAuthority(1, c)
		return []pki.Stored{key}, err
	case PurposeCursors, PurposeFields, PurposeWebhooks, PurposeRecordings, PurposeMounts:
		return []pki.Stored{secret.NewDataKey(1)}, nil
	}
	key, err := pki.NewSigningKey(1)
	return []pki.Stored{key}, err
}

// signFirst signs the first set of keys, or the first one with relay keys, with the task key.
func signFirst(ctx context.Context, tx pgx.Tx, k Config, stored *secret.Stored, c clock.Clock) error {
	tasks, err := openTasks(ctx, k, stored.Of(PurposeTasks), c)
	if err != nil {
		return err
	}
	statements, err := newSigner(ctx, stored.Of(PurposeStatements))
	if err != nil {
		return err
	}
	relays, err := newSigner(ctx, stored.Of(PurposeRelay))
	if err != nil {
		return err
	}
	keys := protocol.KeySet{TaskKeys: tasks.Public(), StatementKeys: statements.Public(), RelayKeys: relays.Public()}
	return secret.SignKeySet(ctx, tx, tasks, tasks.Active(), keys, c.Now().Truncate(time.Second))
}
