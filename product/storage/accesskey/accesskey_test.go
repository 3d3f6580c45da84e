package accesskey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

type sealer struct{ *envelope.Ring }

func (s sealer) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return s.Ring.Open(sealed, at)
}

func sealerOf(t *testing.T, active string) sealer {
	t.Helper()
	r, err := envelope.NewRing(map[string][]byte{"old": make([]byte, 32), "new": []byte("32 bytes that only a test uses..")}, active)
	if err != nil {
		t.Fatal(err)
	}
	return sealer{r}
}

func setup(t *testing.T) (*identitytest.Tenancy, *accesskey.Service, identity.Caller) {
	t.Helper()
	w := identitytest.NewTenancy(t)
	owner, err := w.InProject(identitytest.In(t.Context(), w.Owner), w.Owner, w.Seed.Project.String())
	if err != nil {
		t.Fatal(err)
	}
	return w, &accesskey.Service{DB: w.DB, Identity: w.Service, Seal: sealerOf(t, "old")}, owner
}

func create(t *testing.T, s *accesskey.Service, c identity.Caller, n accesskey.NewKey) (accesskey.Key, error) {
	t.Helper()
	return s.Create(identitytest.In(t.Context(), c), identitytest.Change[accesskey.Key](c), n)
}

func TestNewKeys(t *testing.T) {
	t.Parallel()
	w, s, owner := setup(t)
	for what, n := range map[string]accesskey.NewKey{
		"no name": {}, "a long name": {Name: strings.Repeat("n", 65)}, "a prefix upwards": {Name: "k", Prefix: "../x"}, "a negative life": {Name: "k", TTL: -time.Second}, "a long life": {Name: "k", TTL: 11 * 365 * 24 * time.Hour},
	} {
		if _, err := create(t, s, owner, n); errs.CodeOf(err) != errs.ValidationError && errs.CodeOf(err) != errs.StoragePathTraversal {
			t.Errorf("%s: %v", what, err)
		}
	}
	k, err := create(t, s, owner, accesskey.NewKey{Name: "k", Prefix: "data/", ReadOnly: true, TTL: time.Hour})
	if err != nil || k.Prefix.String() != "data" || !k.ReadOnly || k.ExpiresAt == nil {
		t.Fatalf("%+v, %v", k, err)
	}
	u, err := s.Find(t.Context(), k.AccessKeyID)
	if err != nil || u.Secret != k.Secret || u.Caller.User != owner.User || u.Caller.Project != owner.Project || u.Caller.ProjectRole != "admin" || u.ProjectName != "default" {
		t.Errorf("%+v, %v", u, err)
	}
	limited := owner
	limited.Limited, limited.KeyEnd = true, time.Now().Add(time.Minute)
	limited.Scopes, _ = policies.ParseScopes([]string{"storage:read"})
	k, err = create(t, s, limited, accesskey.NewKey{Name: "k2"})
	if err != nil || k.ExpiresAt == nil || k.ExpiresAt.After(limited.KeyEnd) {
		t.Errorf("%+v, %v", k, err)
	}
	if u, err := s.Find(t.Context(), k.AccessKeyID); err != nil || !u.Caller.Limited || u.Caller.Scopes != limited.Scopes {
		t.Errorf("%+v, %v", u.Caller, err)
	}
	// Another tenant sees none of them.
	foreign := w.Foreign.Owner
	foreign.Project = w.Foreign.Project
	if list, err := s.Keys(identitytest.In(t.Context(), foreign), owner, uuid.Nil, 10); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = s.Key(identitytest.In(t.Context(), foreign), foreign, k.ID)
	identitytest.WantCode(t, "a foreign key", err, errs.NotFound)
	if list, err := s.Keys(identitytest.In(t.Context(), owner), owner, uuid.Nil, 10); err != nil || len(list) != 2 || list[0].Secret != "" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestKeysOfAProjectAreBounded(t *testing.T) {
	t.Parallel()
	w, s, owner := setup(t)
	w.Exec(t, `INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, read_only, creator, created_by, expires_at)
		SELECT gen_random_uuid(), $1, $2, 'k' || n, '', 'n', true, '{}', 'u', now() - interval '40 days' * (n % 2) FROM generate_series(1, 198) n`, owner.Tenant, owner.Project)
	codes := identitytest.Together(4, func(int) error {
		_, err := create(t, s, owner, accesskey.NewKey{Name: "k"})
		return err
	})
	if codes[""] != 1 || codes[errs.Conflict] != 3 {
		t.Errorf("%v", codes)
	}
}

func TestSecretsAreSealedAgain(t *testing.T) {
	t.Parallel()
	w, s, owner := setup(t)
	var keys []accesskey.Key
	for range 3 {
		k, err := create(t, s, owner, accesskey.NewKey{Name: "k"})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	next := &accesskey.Service{DB: w.DB, Identity: w.Service, Seal: sealerOf(t, "new")}
	before := func(want int) {
		t.Helper()
		if n, err := accesskey.SealedBefore(pg.WithScope(t.Context(), pg.Platform), next.DB, "new"); n != want || err != nil {
			t.Errorf("%d secrets of an older key, want %d: %v", n, want, err)
		}
	}
	before(3)
	if n, err := next.Reseal(t.Context(), "new", 2); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := next.Reseal(t.Context(), "new", 2); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
	before(0)
	for _, k := range keys {
		if u, err := next.Find(t.Context(), k.AccessKeyID); err != nil || u.Secret != k.Secret {
			t.Errorf("%v", err)
		}
	}
}
