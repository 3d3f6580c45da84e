package keystore

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

// Keys contains what a process has opened. A private key that its roles do not use is nil.
type Keys struct {
	Public *secret.Public
	Sets   *secret.KeySets
	// Roots are the authorities of the node API. Every role knows them.
	Roots secret.Roots

	Authority  secret.Authority // node
	Statements secret.Signer    // node
	Tasks      secret.Signer    // work
	Relay      secret.Signer    // terminal
	Logins     secret.UserCA    // api and terminal
	Tokens     *pki.Keyring     // api
	Cursors    *secret.DataKeys // api
	Fields     *secret.DataKeys // api
	Webhooks   *secret.DataKeys // api and work
	Recordings *secret.DataKeys // terminal and api
	Mounts     *secret.DataKeys // api and node
	Evidence   secret.Signer    // work

	kek    secret.Wrapper
	stores map[string]*secret.Stored // by role
}

// Source contains where the keys of a process are.
type Source struct {
	Config
	StateDir string
	// Roles are the roles of the process, each with its own rights in the database.
	Roles map[string]pg.Queryer
	// Any reads what every role may read.
	Any      pg.Queryer
	Failures func(role string) *secret.Failures // may be nil
	Clock    clock.Clock
}

// OpenKEK opens the key-encryption key.
func OpenKEK(ctx context.Context, k Config, stateDir string, c clock.Clock) (secret.Wrapper, error) {
	if k.KEK == DriverVault {
		client, err := vault.New(ctx, k.Vault, c)
		if err != nil {
			return nil, err
		}
		return vault.OpenKEK(ctx, client)
	}
	return keyfile.Open(KEKFile(k, stateDir), c)
}

// KEKFile returns the path of the key-encryption key.
func KEKFile(k Config, stateDir string) string {
	if k.KEKFile != "" {
		return k.KEKFile
	}
	return filepath.Join(stateDir, "kek.json")
}

// Open opens the keys of the roles of a process. A key that is missing is an error: a process without it
// would fail at the first use. A server does not start if its authority does not respond, because it could
// enrol no node.
func Open(ctx context.Context, s Source) (o *Keys, err error) {
	o = &Keys{stores: map[string]*secret.Stored{}}
	if o.Public, err = secret.OpenPublic(ctx, s.Any); err != nil {
		return nil, err
	}
	roles := make([]string, 0, len(s.Roles))
	for role, db := range s.Roles {
		roles = append(roles, role)
		o.stores[role] = &secret.Stored{DB: db}
		if s.Failures != nil {
			o.stores[role].Failures = s.Failures(role)
		}
	}
	if err := o.openKEK(ctx, s, roles); err != nil {
		return nil, err
	}
	for _, u := range Uses() {
		if !opens(roles, u.Purpose) {
			continue
		}
		if err := o.open(ctx, s, u.Purpose); err != nil {
			return nil, fmt.Errorf("opening the key for %s: %w", u.Protects, err)
		}
	}
	if o.Roots == nil {
		if o.Roots, err = openRoots(ctx, s, o.Public); err != nil {
			return nil, err
		}
	}
	if opens(roles, PurposeStatements) {
		o.Sets, err = secret.OpenKeySets(ctx, o.storeOf(PurposeStatements).DB)
	}
	return o, err
}

// openKEK opens the key-encryption key where a stored key is opened.
func (o *Keys) openKEK(ctx context.Context, s Source, roles []string) (err error) {
	for _, purpose := range s.stored() {
		if opens(roles, purpose) && o.kek == nil {
			if o.kek, err = OpenKEK(ctx, s.Config, s.StateDir, s.Clock); err != nil {
				return err
			}
		}
	}
	for _, store := range o.stores {
		store.KEK = o.kek
	}
	return nil
}

func (o *Keys) open(ctx context.Context, s Source, purpose string) (err error) {
	store := o.storeOf(purpose).Of(purpose)
	switch purpose {
	case PurposeAuthority:
		o.Authority, err = openAuthority(ctx, s.Config, store, s.Clock)
		o.Roots = o.Authority
	case PurposeStatements:
		o.Statements, err = newSigner(ctx, store)
	case PurposeTasks:
		o.Tasks, err = openTasks(ctx, s.Config, store, s.Clock)
	case PurposeEvidence:
		o.Evidence, err = newSigner(ctx, store)
	case PurposeRelay:
		o.Relay, err = newSigner(ctx, store)
	case PurposeLogins:
		var ring *pki.Keyring
		ring, err = pki.NewAnnounced(ctx, store, false)
		o.Logins = secret.LocalUserCA{Keys: ring, Clock: s.Clock}
	case PurposeTokens:
		o.Tokens, err = pki.NewKeyring(ctx, store, false)
	case PurposeCursors:
		o.Cursors, err = secret.OpenDataKeys(ctx, store, purpose, nil) // what does not open came from a client
	case PurposeFields:
		o.Fields, err = secret.OpenDataKeys(ctx, store, purpose, o.storeOf(purpose).Failures)
	case PurposeWebhooks:
		o.Webhooks, err = secret.OpenDataKeys(ctx, store, purpose, o.storeOf(purpose).Failures)
	case PurposeRecordings:
		o.Recordings, err = secret.OpenDataKeys(ctx, store, purpose, o.storeOf(purpose).Failures)
	case PurposeMounts:
		o.Mounts, err = secret.OpenDataKeys(ctx, store, purpose, o.storeOf(purpose).Failures)
	}
	return err
}

// storeOf returns the stored keys of a purpose as the first role of this process that opens them.
func (o *Keys) storeOf(purpose string) *secret.Stored {
	for _, role := range rolesOf(purpose) {
		if store, ok := o.stores[role]; ok {
			return store
		}
	}
	return nil
}

func newSigner(ctx context.Context, store pki.Store) (secret.Signer, error) {
	ring, err := pki.NewAnnounced(ctx, store, false)
	return secret.LocalSigner{Keys: ring}, err
}

func openAuthority(ctx context.Context, k Config, store pki.Store, c clock.Clock) (secret.Authority, error) {
	switch k.Authority {
	case DriverVault:
		client, err := vault.New(ctx, k.Vault, c)
		if err != nil {
			return nil, err
		}
		return vault.OpenAuthority(ctx, client)
	case DriverStepCA:
		return stepca.Open(ctx, k.StepCA, c)
	}
	return pki.NewLocal(ctx, store, c)
}

// openRoots returns the authorities without the right to certify.
func openRoots(ctx context.Context, s Source, public *secret.Public) (secret.Roots, error) {
	if s.Authority == DriverLocal || s.Authority == "" {
		return public, nil
	}
	authority, err := openAuthority(ctx, s.Config, nil, s.Clock)
	if err != nil {
		return nil, err
	}
	return onlyRoots{authority}, nil
}

// onlyRoots hides that an authority certifies.
type onlyRoots struct{ secret.Roots }

func openTasks(ctx context.Context, k Config, store pki.Store, c clock.Clock) (secret.Signer, error) {
	if k.Signer != DriverVault {
		return newSigner(ctx, store)
	}
	client, err := vault.New(ctx, k.Vault, c)
	if err != nil {
		return nil, err
	}
	return vault.OpenSigner(ctx, client)
}

// Refresh notices rotations that other processes have begun or ended. The error names what was not read;
// what is in memory stays in use.
func (o *Keys) Refresh(ctx context.Context) map[string]error {
	parts := map[string]func(context.Context) error{"public keys": o.Public.Refresh}
	add := func(name string, present bool, refresh func(context.Context) error) {
		if present {
			parts[name] = refresh
		}
	}
	if o.Authority != nil {
		parts[PurposeAuthority] = o.Authority.Refresh
	}
	if o.Statements != nil {
		parts[PurposeStatements] = o.Statements.Refresh
	}
	if o.Tasks != nil {
		parts[PurposeTasks] = o.Tasks.Refresh
	}
	if o.Relay != nil {
		parts[PurposeRelay] = o.Relay.Refresh
	}
	if o.Evidence != nil {
		parts[PurposeEvidence] = o.Evidence.Refresh
	}
	if o.Logins != nil {
		parts[PurposeLogins] = o.Logins.Refresh
	}
	if o.kek != nil {
		parts["key-encryption key"] = o.kek.Refresh
	}
	add(PurposeTokens, o.Tokens != nil, o.Tokens.Refresh)
	add(PurposeCursors, o.Cursors != nil, o.Cursors.Refresh)
	add(PurposeFields, o.Fields != nil, o.Fields.Refresh)
	add(PurposeWebhooks, o.Webhooks != nil, o.Webhooks.Refresh)
	add(PurposeRecordings, o.Recordings != nil, o.Recordings.Refresh)
	add(PurposeMounts, o.Mounts != nil, o.Mounts.Refresh)
	add("sets of keys", o.Sets != nil, o.Sets.Refresh)
	if roots, ok := o.Roots.(onlyRoots); ok {
		if r, ok := roots.Roots.(interface{ Refresh(context.Context) error }); ok {
			parts["roots"] = r.Refresh
		}
	}
	failed := map[string]error{}
	for name, refresh := range parts {
		if err := refresh(ctx); err != nil {
			failed[name] = err
		}
	}
	return failed
}

// Opened lists the purposes whose private keys this process has.
func (o *Keys) Opened() (purposes []string) {
	for purpose, has := range map[string]bool{
		PurposeAuthority: o.Authority != nil, PurposeStatements: o.Statements != nil, PurposeTasks: o.Tasks != nil, PurposeLogins: o.Logins != nil,
		PurposeTokens: o.Tokens != nil, PurposeCursors: o.Cursors != nil, PurposeFields: o.Fields != nil,
		PurposeWebhooks: o.Webhooks != nil, PurposeRelay: o.Relay != nil,
		PurposeRecordings: o.Recordings != nil, PurposeMounts: o.Mounts != nil, PurposeEvidence: o.Evidence != nil,
	} {
		if has {
			purposes = append(purposes, purpose)
		}
	}
	return purposes
}
