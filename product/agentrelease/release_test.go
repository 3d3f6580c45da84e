package agentrelease_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/protocol"
)

func setup(t *testing.T) (*agentrelease.Store, secret.LocalSigner) {
	t.Helper()
	keys, err := secret.OpenSigner(t.TempDir())
	must(t, err)
	return &agentrelease.Store{DB: pgtest.Scoped(t, pgtest.Clone(t)), Keys: keys.Public, Naming: ids.DefaultNaming, Clock: clock.Clock{}}, keys
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish signs a build as a pipeline does, and publishes it as a server does.
func publish(t *testing.T, s *agentrelease.Store, keys secret.LocalSigner, b agentrelease.Build) (agentrelease.Release, error) {
	t.Helper()
	signed, err := agentrelease.Sign(t.Context(), keys, b, clock.Clock{}.Now())
	if err != nil {
		return agentrelease.Release{}, err
	}
	return s.Publish(t.Context(), signed, audit.By{Actor: "system:server"})
}

// INV-76: every release carries a minimum version, without which a stolen task key installs an old build.
func TestINV76EveryReleaseHasAMinimum(t *testing.T) {
	t.Parallel()
	s, keys := setup(t)
	bare := build()
	bare.Minimum = ""
	if _, err := publish(t, s, keys, bare); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("signed without a minimum: %v", err)
	}
	// Another pipeline signs it.
	r := protocol.Release{
		V: protocol.ReleaseVersion, Kid: keys.Active(), Version: "v1.1.0", Platform: "linux/amd64", Digest: strings.Repeat("ab", 32), Size: 7,
		IssuedAt: clock.Clock{}.Now(), ExpiresAt: clock.Clock{}.Now().Add(time.Hour),
	}
	body, err := r.Canonical()
	must(t, err)
	signature, err := keys.Sign(t.Context(), keys.Active(), body)
	must(t, err)
	if _, err := s.Publish(t.Context(), agentrelease.Statement{Kid: r.Kid, Body: body, Signature: signature}, audit.By{Actor: "system:server"}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("published without a minimum: %v", err)
	}
	bare.Version = "devel"
	if r, err := publish(t, s, keys, bare); err != nil || r.Minimum != "" {
		t.Errorf("a version that is not SemVer: %q, %v", r.Minimum, err)
	}
}

// INV-76: a server has no release key. What is not signed, or by another key, is not published.
func TestINV76AServerSignsNoRelease(t *testing.T) {
	t.Parallel()
	s, keys := setup(t)
	other, err := secret.OpenSigner(t.TempDir())
	must(t, err)
	if _, err := publish(t, s, other, build()); errs.CodeOf(err) != errs.SignatureInvalid {
		t.Errorf("another key: %v", err)
	}
	signed, err := agentrelease.Sign(t.Context(), keys, build(), clock.Clock{}.Now())
	must(t, err)
	for i := range signed.Body {
		bad := agentrelease.Statement{Kid: signed.Kid, Body: append([]byte{}, signed.Body...), Signature: signed.Signature}
		bad.Body[i] ^= 1
		if _, err := s.Publish(t.Context(), bad, audit.By{Actor: "system:server"}); errs.CodeOf(err) != errs.SignatureInvalid {
			t.Fatalf("byte %d turned: %v", i, err)
		}
	}
	s.Keys = func() map[string][]byte { return nil }
	if _, err := s.Publish(t.Context(), signed, audit.By{Actor: "system:server"}); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("without release keys: %v", err)
	}
	if list, err := s.Releases(t.Context(), s.DB); err != nil || len(list) != 0 {
		t.Errorf("%d releases, %v", len(list), err)
	}
}

func build() agentrelease.Build {
	return agentrelease.Build{Version: "v1.1.0", Platform: "linux/amd64", Digest: strings.Repeat("ab", 32), Size: 7, Minimum: "v1.0.0"}
}

// INV-49: a published release is signed by the release key, has the given properties, and the node's own
// verification accepts it.
func TestINV49Published(t *testing.T) {
	t.Parallel()
	s, keys := setup(t)
	b := build()
	b.Minimum, b.Life = "v1.0.0", time.Hour
	r, err := publish(t, s, keys, b)
	must(t, err)
	promised, err := protocol.OpenRelease(r.Metadata, r.Signature, keys.Public())
	must(t, err)
	if promised.Version != "v1.1.0" || promised.Digest != b.Digest || promised.Size != 7 || promised.Minimum != "v1.0.0" || promised.ExpiresAt.Sub(promised.IssuedAt) != time.Hour {
		t.Errorf("%+v", promised)
	}
	for i := range r.Metadata {
		bad := append([]byte{}, r.Metadata...)
		bad[i] ^= 1
		if _, err := protocol.OpenRelease(bad, r.Signature, keys.Public()); protocol.CodeOf(err) != protocol.SignatureInvalid {
			t.Fatalf("byte %d turned: %v", i, err)
		}
	}
	if _, err := protocol.OpenRelease(r.Metadata, r.Signature, map[string][]byte{r.Kid: make([]byte, ed25519.PublicKeySize)}); protocol.CodeOf(err) != protocol.SignatureInvalid {
		t.Errorf("another key: %v", err)
	}
}

// A second publication of the same build extends its expiry, each time with an audit row. Another build
// with its version is rejected.
func TestPublishAgain(t *testing.T) {
	t.Parallel()
	s, keys := setup(t)
	first, err := publish(t, s, keys, build())
	must(t, err)
	longer := build()
	longer.Life = 2 * agentrelease.Life
	second, err := publish(t, s, keys, longer)
	must(t, err)
	if !second.ExpiresAt.After(first.ExpiresAt) {
		t.Errorf("ends %s, then %s", first.ExpiresAt, second.ExpiresAt)
	}
	other := build()
	other.Digest = strings.Repeat("cd", 32)
	if _, err := publish(t, s, keys, other); errs.CodeOf(err) != errs.Conflict {
		t.Error(err)
	}
	other.Platform = "linux/arm64"
	if _, err := publish(t, s, keys, other); err != nil {
		t.Error(err)
	}
	var audited int
	must(t, s.DB.QueryRow(pg.WithScope(t.Context(), pg.Platform), `SELECT count(*) FROM audit_logs WHERE action = 'agent_release.publish'`).Scan(&audited))
	list, err := s.Releases(t.Context(), s.DB)
	if err != nil || len(list) != 2 || audited != 3 {
		t.Errorf("%d releases, %d audit rows, %v", len(list), audited, err)
	}
}

func TestPublishRejected(t *testing.T) {
	t.Parallel()
	s, keys := setup(t)
	for name, change := range map[string]func(*agentrelease.Build){
		"no version":                   func(b *agentrelease.Build) { b.Version = "" },
		"a version with a blank":       func(b *agentrelease.Build) { b.Version = "v1 " },
		"no platform":                  func(b *agentrelease.Build) { b.Platform = "amd64" },
		"no digest":                    func(b *agentrelease.Build) { b.Digest = "AB" },
		"empty":                        func(b *agentrelease.Build) { b.Size = 0 },
		"too large":                    func(b *agentrelease.Build) { b.Size = protocol.MaxBinary + 1 },
		"over already":                 func(b *agentrelease.Build) { b.Life = -time.Hour },
		"below its own minimum":        func(b *agentrelease.Build) { b.Minimum = "v2.0.0" },
		"a minimum that is no version": func(b *agentrelease.Build) { b.Minimum = "newest" },
		"no version, and a minimum":    func(b *agentrelease.Build) { b.Version, b.Minimum = "devel", "v1.0.0" },
	} {
		b := build()
		change(&b)
		if _, err := publish(t, s, keys, b); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A build is stored under its digest, and found by nothing else.
func TestFiles(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	f := agentrelease.Files{Dir: filepath.Join(t.TempDir(), "agents")}
	b, err := f.Put(self)
	must(t, err)
	if _, err := f.Put(self); err != nil {
		t.Error(err)
	}
	file, size, err := f.Open(b.Digest)
	must(t, err)
	must(t, file.Close())
	if size != b.Size || !strings.HasPrefix(b.Platform, "linux/") {
		t.Errorf("%+v, %d bytes", b, size)
	}
	for _, name := range []string{"", "../" + b.Digest, strings.Repeat("0", 64), strings.ToUpper(b.Digest)} {
		if _, _, err := f.Open(name); errs.CodeOf(err) != errs.NotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := f.Put("release_test.go"); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("no program: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(f.Dir, "*"))
	if hidden, _ := filepath.Glob(filepath.Join(f.Dir, ".*")); len(left) != 1 || len(hidden) > 0 {
		t.Errorf("left %v %v", left, hidden)
	}
}
