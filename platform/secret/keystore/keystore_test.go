package keystore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/protocol"
)

var allRoles = []string{"api", "node", "reconcile", "work", "relay", "terminal"}

// installation is a database with keys, and its state directory.
type installation struct {
	t   *testing.T
	db  *pgxpool.Pool
	dir string
}

func setup(t *testing.T) *installation {
	t.Helper()
	i := &installation{t, pgtest.Clone(t), t.TempDir()}
	i.prepare()
	return i
}

func (i *installation) preparation() keystore.Preparation {
	return keystore.Preparation{DB: i.db, StateDir: i.dir, Development: true, Signs: true, Log: slog.New(slog.DiscardHandler)}
}

func (i *installation) prepare() {
	i.t.Helper()
	must(i.t, keystore.Prepare(i.t.Context(), i.preparation()))
}

// source is that of a process with the roles.
func (i *installation) source(roles ...string) keystore.Source {
	i.t.Helper()
	s := keystore.Source{StateDir: i.dir, Roles: map[string]pg.Queryer{}}
	for _, role := range roles {
		pool := pgtest.As(i.t, i.db, "gpuaas_"+role)
		s.Roles[role], s.Any = pool, pool
	}
	return s
}

func (i *installation) open(roles ...string) *keystore.Keys {
	i.t.Helper()
	keys, err := keystore.Open(i.t.Context(), i.source(roles...))
	must(i.t, err)
	return keys
}

func (i *installation) all() *keystore.Keys {
	i.t.Helper()
	keys, err := keystore.OpenAll(i.t.Context(), keystore.Config{}, i.dir, i.db, clock.Clock{})
	must(i.t, err)
	return keys
}

// rotate does in one transaction what the command does.
func (i *installation) rotate(purpose string, do func(*keystore.Keys, context.Context, pgx.Tx, string, clock.Clock) error) error {
	i.t.Helper()
	return pgx.BeginFunc(i.t.Context(), i.db, func(tx pgx.Tx) error {
		keys, err := keystore.OpenAll(i.t.Context(), keystore.Config{}, i.dir, tx, clock.Clock{})
		if err != nil {
			return err
		}
		return do(keys, i.t.Context(), tx, purpose, clock.Clock{})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// INV-76: a process of one role is stolen, with its login to the database and the key-encryption key. It opens the
// private keys of its role and no other: the database does not show it their envelopes.
func TestINV76EachRoleOpensItsKeysOnly(t *testing.T) {
	t.Parallel()
	i := setup(t)
	kek, err := keystore.OpenKEK(t.Context(), keystore.Config{}, i.dir, clock.Clock{})
	must(t, err)
	for _, role := range allRoles {
		var want []string
		for _, u := range keystore.Uses() {
			db := pgtest.As(t, i.db, "gpuaas_"+role)
			keys, err := (&secret.Stored{DB: db, KEK: kek}).Of(u.Purpose).Read(t.Context())
			switch {
			case slices.Contains(u.Roles, role):
				want = append(want, u.Purpose)
				if err != nil || len(keys) != 1 || len(keys[0].Private) == 0 {
					t.Errorf("%s cannot open %s: %d keys, %v", role, u.Purpose, len(keys), err)
				}
			case len(keys) > 0:
				t.Errorf("%s opens %s", role, u.Purpose)
			}
			for _, sql := range []string{
				`UPDATE signing_keys SET purpose = 'cursors' WHERE purpose = '` + u.Purpose + `'`,
				`INSERT INTO signing_keys (purpose, generation, public, sealed) VALUES ('` + u.Purpose + `', 99, '', 'x')`,
				`DELETE FROM signing_keys WHERE purpose = '` + u.Purpose + `'`,
			} {
				if tag, err := db.Exec(t.Context(), sql); err == nil {
					t.Errorf("%s: %s: %s", role, sql, tag)
				}
			}
		}
		opened := i.open(role).Opened()
		slices.Sort(opened)
		slices.Sort(want)
		if !slices.Equal(opened, want) {
			t.Errorf("a process with the role %s has opened %v, want %v", role, opened, want)
		}
	}
	everything := i.open(allRoles...).Opened()
	if len(everything) != len(keystore.Uses()) {
		t.Errorf("a process with all roles has %v", everything)
	}
}

// A role without private keys starts without the key-encryption key, and every role knows the public parts.
func TestPublicPartsAreForAll(t *testing.T) {
	t.Parallel()
	i := setup(t)
	all := i.all()
	without := i.source("relay")
	without.StateDir = t.TempDir()
	relay, err := keystore.Open(t.Context(), without)
	must(t, err)
	if string(relay.Roots.Bundle()) != string(all.Authority.Bundle()) || !slices.Equal(relay.Public.LoginAuthorities(), all.Logins.Public()) {
		t.Error("the public parts are others")
	}
	if _, certifies := relay.Roots.(secret.Authority); certifies {
		t.Error("the roots of a role without the authority certify")
	}
	missing := i.source("work")
	missing.StateDir = t.TempDir()
	if _, err := keystore.Open(t.Context(), missing); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), "kek.json") {
		t.Errorf("without its key-encryption key: %v", err)
	}
}

// A wrong wiring fails at the start: a key that is missing, or that the role does not see.
func TestAMissingKeyFailsAtTheStart(t *testing.T) {
	t.Parallel()
	i := setup(t)
	wrong := i.source("api")
	wrong.Roles["work"] = wrong.Roles["api"] // the rights of another role
	if _, err := keystore.Open(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "tasks for nodes") {
		t.Errorf("with the rights of another role: %v", err)
	}
	if _, err := i.db.Exec(t.Context(), `UPDATE signing_keys SET status = 'ended', sealed = NULL, ended_at = now() WHERE purpose = 'tokens'`); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Open(t.Context(), i.source("api")); err == nil || !strings.Contains(err.Error(), "access tokens") {
		t.Errorf("without a key: %v", err)
	}
}

// Several processes that start at once create the keys once. A later start opens none of them.
func TestKeysAreCreatedOnce(t *testing.T) {
	t.Parallel()
	i := &installation{t, pgtest.Clone(t), t.TempDir()}
	ended := make(chan error, 4)
	for range cap(ended) {
		go func() { ended <- keystore.Prepare(t.Context(), i.preparation()) }()
	}
	for range cap(ended) {
		must(t, <-ended)
	}
	count := func(sql string) (n int) {
		t.Helper()
		must(t, i.db.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	if keys, sets, audited := count(`SELECT count(*) FROM signing_keys`), count(`SELECT count(*) FROM key_sets`), count(`SELECT count(*) FROM audit_logs WHERE action = 'keys.create'`); keys != len(keystore.Uses()) || sets != 1 || audited != 1 {
		t.Errorf("%d keys, %d sets, %d audit rows", keys, sets, audited)
	}
	must(t, os.Remove(filepath.Join(i.dir, "kek.json")))
	i.prepare() // nothing is missing, so nothing is opened
	p := i.preparation()
	p.Development = false
	p.DB, p.StateDir = pgtest.Clone(t), t.TempDir()
	if err := keystore.Prepare(t.Context(), p); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("an installation that is not for development made its own key-encryption key: %v", err)
	}
}

// An installation of an older release has no relay key and a set without one. Its next start creates the key and signs the
// next set, which the nodes follow: the task key is the same.
func TestAnOlderInstallationGetsRelayKeys(t *testing.T) {
	t.Parallel()
	i := setup(t)
	before := i.all()
	set, _ := before.Sets.Control()
	must(t, pgx.BeginFunc(t.Context(), i.db, func(tx pgx.Tx) error {
		for _, sql := range []string{`ALTER TABLE key_sets DISABLE TRIGGER ALL`, `DELETE FROM key_sets`, `ALTER TABLE key_sets ENABLE TRIGGER ALL`, `DELETE FROM signing_keys WHERE purpose = 'relay'`} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return secret.SignKeySet(t.Context(), tx, before.Tasks, before.Tasks.Active(), protocol.KeySet{TaskKeys: set.TaskKeys, StatementKeys: set.StatementKeys}, set.IssuedAt)
	}))
	i.prepare()
	i.prepare()
	now, sets := i.all().Sets.Control()
	if len(sets) != 2 || now.Sequence != 2 || len(now.RelayKeys) != 1 || secret.Stamp(nil, now.TaskKeys, now.StatementKeys) != secret.Stamp(nil, set.TaskKeys, set.StatementKeys) {
		t.Errorf("%d sets, the newest: %+v", len(sets), now)
	}
	if _, err := protocol.OpenKeySet(sets[1], set.TaskKeys); err != nil {
		t.Errorf("a node does not follow: %v", err)
	}
	if strings.Contains(string(sets[0].Body), "relay") {
		t.Errorf("the bytes of a set without relay keys changed: %s", sets[0].Body)
	}
}

// The key files of an older release become stored keys with the same public parts, and are removed.
func TestOldKeyFilesAreImported(t *testing.T) {
	t.Parallel()
	i := &installation{t, pgtest.Clone(t), t.TempDir()}
	tasks, err := secret.OpenSigner(filepath.Join(i.dir, "keys"))
	must(t, err)
	must(t, tasks.Begin(t.Context())) // a rotation is under way
	logins, err := secret.OpenUserCA(filepath.Join(i.dir, "login-keys"), clock.Clock{})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(i.dir, "cursor.key"), make([]byte, 32), 0o600))
	must(t, os.WriteFile(filepath.Join(i.dir, "seal.key"), make([]byte, 32), 0o600))
	must(t, os.Mkdir(filepath.Join(i.dir, "ca"), 0o700))
	root, issuing := oldAuthority(t)
	must(t, os.WriteFile(filepath.Join(i.dir, "ca", "root.pem"), root, 0o600))
	must(t, os.WriteFile(filepath.Join(i.dir, "ca", "issuing.pem"), issuing, 0o600))
	i.prepare()
	keys := i.all()
	if secret.Stamp(nil, keys.Tasks.Public(), nil) != secret.Stamp(nil, tasks.Public(), nil) || keys.Tasks.Active() != tasks.Active() {
		t.Error("the task keys are others")
	}
	if !slices.Equal(keys.Logins.Public(), logins.Public()) {
		t.Error("the login keys are others")
	}
	if !strings.Contains(string(root), strings.TrimSpace(string(keys.Authority.Bundle()))) {
		t.Error("the authority is another")
	}
	set, sets := keys.Sets.Control()
	if len(sets) != 1 || len(set.TaskKeys) != 2 || set.Kid != tasks.Active() {
		t.Errorf("the first set: %+v", set)
	}
	left, err := filepath.Glob(filepath.Join(i.dir, "*", "*"))
	must(t, err)
	for _, name := range []string{"cursor.key", "seal.key"} {
		if _, err := os.Stat(filepath.Join(i.dir, name)); err == nil {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		t.Errorf("left in the state directory: %v", left)
	}
}

// A server is killed between the import of key files and their removal. The next start removes them, but not
// those of other keys.
func TestImportedKeyFilesAreRemovedAtALaterStart(t *testing.T) {
	t.Parallel()
	i := &installation{t, pgtest.Clone(t), t.TempDir()}
	_, err := secret.OpenSigner(filepath.Join(i.dir, "keys"))
	must(t, err)
	files := map[string][]byte{"cursor.key": make([]byte, 32), "keys/order-0001.pem": nil, "seal.key": make([]byte, 32)}
	files["keys/order-0001.pem"], err = os.ReadFile(filepath.Join(i.dir, "keys/order-0001.pem"))
	must(t, err)
	write := func() {
		for name, text := range files {
			must(t, os.WriteFile(filepath.Join(i.dir, name), text, 0o600))
		}
	}
	write()
	i.prepare()
	left := func() (names []string) {
		for name := range files {
			if _, err := os.Stat(filepath.Join(i.dir, name)); err == nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	write()
	i.prepare()
	if l := left(); len(l) > 0 {
		t.Errorf("left after the second start: %v", l)
	}
	other := filepath.Join(t.TempDir(), "keys")
	_, err = secret.OpenSigner(other)
	must(t, err)
	files["keys/order-0001.pem"], err = os.ReadFile(filepath.Join(other, "order-0001.pem"))
	must(t, err)
	write()
	must(t, os.Mkdir(filepath.Join(i.dir, "release-keys"), 0o700))
	var log strings.Builder
	p := i.preparation()
	p.Log = slog.New(slog.NewTextHandler(&log, nil))
	must(t, keystore.Prepare(t.Context(), p))
	if l := left(); !slices.Equal(l, []string{"keys/order-0001.pem"}) {
		t.Errorf("files of other keys: %v are left", l)
	}
	for _, want := range []string{"order-0001.pem", "gpuaas agent keys begin --keys-dir"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("not in the log: %s\n%s", want, log.String())
		}
	}
}

// oldAuthority makes a root and an issuing key as the older release stored them.
func oldAuthority(t *testing.T) (root, issuing []byte) {
	t.Helper()
	pair := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		if parent == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		must(t, err)
		cert, err := x509.ParseCertificate(der)
		must(t, err)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		must(t, err)
		text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
		return cert, key, append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	template := func(name string) *x509.Certificate {
		now := clock.Clock{}.Now()
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.Add(time.Hour),
			KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		}
	}
	cert, key, root := pair(template("root"), nil, nil)
	_, _, issuing = pair(template("issuing"), cert, key)
	return root, issuing
}

// A stolen database shows no key. One bit of an envelope, or an envelope in the row of another key, is noticed when
// a server starts: it does not start, and the failure is counted and audited.
func TestAChangedKeyIsNoticed(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"a bit":            `UPDATE signing_keys SET sealed = set_byte(sealed, length(sealed) - 1, get_byte(sealed, length(sealed) - 1) # 1) WHERE purpose = 'tokens'`,
		"another row":      `UPDATE signing_keys SET sealed = (SELECT sealed FROM signing_keys WHERE purpose = 'logins') WHERE purpose = 'tokens'`,
		"another version":  `UPDATE signing_keys SET sealed = set_byte(sealed, 0, 2) WHERE purpose = 'tokens'`,
		"another kek":      `UPDATE signing_keys SET sealed = set_byte(sealed, 9, 0) WHERE purpose = 'tokens'`,
		"another public":   `UPDATE signing_keys SET public = (SELECT public FROM signing_keys WHERE purpose = 'logins') WHERE purpose = 'tokens'`,
		"no public":        `UPDATE signing_keys SET public = '' WHERE purpose = 'tokens'`,
		"another number":   `UPDATE signing_keys SET generation = 2 WHERE purpose = 'tokens'`,
		"another key here": `UPDATE signing_keys SET purpose = CASE purpose WHEN 'tokens' THEN 'logins' ELSE 'tokens' END, generation = generation + 1 WHERE purpose IN ('tokens', 'logins')`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			i := setup(t)
			if _, err := i.db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			metric := secret.NewFailureMetric()
			s := i.source("api")
			pool := s.Roles["api"].(*pgxpool.Pool)
			s.Failures = func(role string) *secret.Failures {
				return &secret.Failures{DB: pgtest.Scoped(t, i.db), Actor: "system:" + role, Log: slog.New(slog.DiscardHandler), Metric: metric}
			}
			for range 2 {
				if _, err := keystore.Open(t.Context(), s); errs.CodeOf(err) != errs.DecryptionFailed {
					t.Errorf("opened: %v", err)
				}
			}
			counted := make(chan prometheus.Metric, 8)
			if metric.Collect(counted); len(counted) == 0 {
				t.Error("not counted")
			}
			var audited int
			must(t, i.db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'secret.open_failed' AND actor = 'system:api'`).Scan(&audited))
			if audited == 0 {
				t.Error("not audited")
			}
			pool.Close()
		})
	}
}

// The database contains no private key in clear text.
func TestAStolenDatabaseHasNoKey(t *testing.T) {
	t.Parallel()
	i := setup(t)
	keys := i.all()
	var text []byte
	must(t, i.db.QueryRow(t.Context(), `SELECT string_agg(sealed, '') FROM signing_keys`).Scan(&text))
	data, err := (&secret.Stored{DB: i.db, KEK: keys.KEK()}).Of(keystore.PurposeCursors).Read(t.Context())
	must(t, err)
	for _, secret := range [][]byte{[]byte("PRIVATE KEY"), data[0].Private} {
		if len(secret) == 0 || strings.Contains(string(text), string(secret)) {
			t.Errorf("%q is in the database", secret)
		}
	}
}

// A rotation of the key-encryption key runs while servers run: they continue, and start with the new file. A finish
// that ends in the middle is repeated, and no key is lost.
func TestTheKeyEncryptionKeyRotates(t *testing.T) {
	t.Parallel()
	i := setup(t)
	running := i.open(allRoles...)
	first, err := keyfile.Open(filepath.Join(i.dir, "kek.json"), clock.Clock{})
	must(t, err)
	must(t, i.rotate(keystore.PurposeKEK, (*keystore.Keys).Begin))
	// The next key is sealed with the new one before the running server has read it.
	must(t, i.rotate(keystore.PurposeTasks, (*keystore.Keys).Begin))
	must(t, running.Tasks.Refresh(t.Context()))
	if failed := running.Refresh(t.Context()); len(failed) > 0 || len(running.Tasks.Public()) != 2 {
		t.Fatal(failed)
	}
	must(t, i.rotate(keystore.PurposeTasks, (*keystore.Keys).Finish))
	before := i.all()
	killed := errors.New("killed")
	err = i.rotate(keystore.PurposeKEK, func(k *keystore.Keys, ctx context.Context, tx pgx.Tx, purpose string, c clock.Clock) error {
		if n, err := (&secret.Stored{DB: tx, KEK: k.KEK()}).Reseal(ctx, 3); err != nil || n != 3 {
			t.Errorf("sealed %d, %v", n, err)
		}
		return killed
	})
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	i.all() // both keys open
	must(t, i.rotate(keystore.PurposeKEK, (*keystore.Keys).Finish))
	must(t, i.all().EndKEK(t.Context()))
	if failed := running.Refresh(t.Context()); len(failed) > 0 {
		t.Error(failed)
	}
	after := i.all()
	if after.KEK().Active() == first.Active() || secret.Stamp(nil, after.Tasks.Public(), nil) != secret.Stamp(nil, before.Tasks.Public(), nil) {
		t.Error("the same key-encryption key, or other keys")
	}
	must(t, i.rotate(keystore.PurposeKEK, (*keystore.Keys).Finish)) // again
	var old int
	must(t, i.db.QueryRow(t.Context(), `SELECT count(*) FROM signing_keys WHERE substr(sealed, 1, length($1::bytea)) <> $1`, envelope.Header(after.KEK().Active())).Scan(&old))
	if old != 0 {
		t.Errorf("%d keys are sealed with the old one", old)
	}
}

// INV-76: each set of keys is signed by a task key that nodes trust already, and no other. A node that was away for
// two rotations follows the published sets.
func TestINV76SetsOfKeysAreSignedByTaskKeys(t *testing.T) {
	t.Parallel()
	i := setup(t)
	server := i.open("node", "work")
	first, _ := server.Sets.Control()
	for range 2 {
		for _, purpose := range []string{keystore.PurposeTasks, keystore.PurposeStatements} {
			must(t, i.rotate(purpose, (*keystore.Keys).Begin))
			if err := i.rotate(purpose, (*keystore.Keys).Begin); errs.CodeOf(err) != errs.Conflict {
				t.Errorf("%s: a second rotation in the first: %v", purpose, err)
			}
			if failed := server.Refresh(t.Context()); len(failed) > 0 {
				t.Fatal(failed)
			}
			if set, _ := server.Sets.Control(); set.TaskKeys[server.Tasks.Active()] == nil || set.StatementKeys[server.Statements.Active()] == nil {
				t.Errorf("%s: a key signs that nodes do not receive", purpose)
			}
			must(t, i.rotate(purpose, (*keystore.Keys).Finish))
		}
	}
	if failed := server.Refresh(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
	last, sets := server.Sets.Control()
	if len(sets) != 8 || last.Sequence != 9 || len(last.TaskKeys) != 1 || len(last.StatementKeys) != 1 {
		t.Fatalf("%d sets, %+v", len(sets), last)
	}
	trusted := first.TaskKeys // of a node that missed everything since
	for n, signed := range sets {
		set, err := protocol.OpenKeySet(signed, trusted)
		if err != nil {
			t.Fatalf("set %d: %v", n, err)
		}
		if _, err := protocol.OpenKeySet(signed, set.StatementKeys); err == nil {
			t.Errorf("set %d: a statement key has signed it", n)
		}
		trusted = set.TaskKeys
	}
	if secret.Stamp(nil, trusted, nil) != secret.Stamp(nil, server.Tasks.Public(), nil) {
		t.Error("the node trusts other keys than those that sign")
	}
}

// A data key is replaced: new secrets have the new one at once on every server, old ones open until they were
// sealed again, and then the old key is ended.
func TestDataKeysRotate(t *testing.T) {
	t.Parallel()
	i := setup(t)
	at := envelope.Place{Table: "sessions", Column: "grant_enc", Row: "1"}
	api := i.open("api")
	old := api.Fields.Seal([]byte("x"), at)
	must(t, i.rotate(keystore.PurposeFields, (*keystore.Keys).Begin))
	must(t, api.Fields.Refresh(t.Context()))
	if api.Fields.Active() == api.Fields.Newest() {
		t.Error("a data key seals that other servers may not have read")
	}
	if err := i.rotate(keystore.PurposeFields, (*keystore.Keys).Finish); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("finished while servers seal with the old key: %v", err)
	}
	if _, err := i.db.Exec(t.Context(), `UPDATE signing_keys SET created_at = created_at - interval '4 seconds'`); err != nil {
		t.Fatal(err)
	}
	must(t, api.Fields.Refresh(t.Context()))
	if err := i.rotate(keystore.PurposeFields, (*keystore.Keys).Finish); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("finished while a server may be late: %v", err)
	}
	if _, err := i.db.Exec(t.Context(), `UPDATE signing_keys SET created_at = created_at - interval '10 seconds'`); err != nil {
		t.Fatal(err)
	}
	next := api.Fields.Seal([]byte("x"), at)
	if api.Fields.Active() != api.Fields.Newest() {
		t.Error("the newest data key does not seal")
	}
	for _, sealed := range [][]byte{old, next} {
		if _, err := api.Fields.Open(t.Context(), sealed, at); err != nil {
			t.Error(err)
		}
	}
	must(t, i.rotate(keystore.PurposeFields, (*keystore.Keys).Finish))
	must(t, api.Fields.Refresh(t.Context()))
	if _, err := api.Fields.Open(t.Context(), old, at); envelope.ReasonOf(err) != envelope.ReasonKey {
		t.Errorf("of the ended key: %v", err)
	}
	if _, err := api.Fields.Open(t.Context(), next, at); err != nil {
		t.Error(err)
	}
	if n, err := reseal.SealedBefore(t.Context(), i.db, api.Fields.Newest()); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}

// INV-76: release keys are stored by their public parts. The first set counts, and each further one needs the
// signature of a key before it.
func TestINV76ReleaseKeysFollowEachOther(t *testing.T) {
	t.Parallel()
	i := setup(t)
	ring, err := secret.OpenSigner(t.TempDir())
	must(t, err)
	other, err := secret.OpenSigner(t.TempDir())
	must(t, err)
	signed := func(by secret.LocalSigner, sequence int64) protocol.Signed {
		set := protocol.ReleaseKeySet{V: protocol.Version, Kid: by.Active(), Sequence: sequence, Keys: by.Public(), IssuedAt: clock.Clock{}.Now()}
		body, err := set.Canonical()
		must(t, err)
		signature, err := by.Sign(t.Context(), set.Kid, body)
		must(t, err)
		return protocol.Signed{Kid: set.Kid, Body: body, Signature: signature}
	}
	trust := func(s protocol.Signed) error {
		_, err := secret.TrustReleaseKeys(t.Context(), i.db, s, audit.By{Actor: "system:cli"}, "release_keys")
		return err
	}
	first := signed(ring, 2)
	must(t, trust(first))
	must(t, trust(first)) // again
	if err := trust(signed(other, 9)); errs.CodeOf(err) != errs.SignatureInvalid {
		t.Errorf("keys of another pipeline: %v", err)
	}
	must(t, ring.Begin(t.Context()))
	begun := signed(ring, 3)
	must(t, trust(begun))
	must(t, ring.Finish(t.Context()))
	must(t, trust(signed(ring, 4)))
	if err := trust(begun); err == nil {
		t.Error("an older set is trusted again")
	}
	sets := &secret.KeySets{DB: i.db}
	must(t, sets.Refresh(t.Context()))
	if set, list := sets.Releases(); len(list) != 3 || len(set.Keys) != 1 || set.Sequence != 4 {
		t.Errorf("%d sets, %+v", len(list), set)
	}
	for _, role := range allRoles {
		if _, err := pgtest.As(t, i.db, "gpuaas_"+role).Exec(t.Context(), `INSERT INTO key_sets SELECT kind, 99, kid, body, signature FROM key_sets LIMIT 1`); err == nil {
			t.Errorf("the role %s publishes a set of keys", role)
		}
	}
}

// The wrong file of the key-encryption key is recognised by its id.
func TestAnotherFileIsRecognised(t *testing.T) {
	t.Parallel()
	i := setup(t)
	other := filepath.Join(t.TempDir(), "kek.json")
	must(t, keyfile.Create(other, clock.Clock{}))
	s := i.source("work")
	s.KEKFile = other
	if _, err := keystore.Open(t.Context(), s); envelope.ReasonOf(err) != envelope.ReasonKey {
		t.Errorf("with another file: %v", err)
	}
}
