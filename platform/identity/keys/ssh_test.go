package keys_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

func line(t *testing.T, public any) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func ed(t *testing.T) (string, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, public), private
}

func bits(t *testing.T, n int) string {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, n)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, &key.PublicKey)
}

// dsa is a key of zeros in the format of the RFC. It must be rejected by its type alone.
const dsa = "ssh-dss AAAAB3NzaC1kc3MAAAADAQABAAAAAwEAAQAAAAMBAAEAAAADAQAB"

//nolint:paralleltest // it sets GODEBUG, to make a key as weak as it must refuse
func TestRejectedSSHKeys(t *testing.T) {
	b := identitytest.New(t)
	good, private := ed(t)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	caller := identity.Caller{User: b.Seed.Dev.ID, SignIn: identity.SignIn{At: time.Now()}}
	for name, text := range map[string]string{
		"nothing": "", "words": "not a key", "cut": good[:len(good)-8], "dsa": dsa,
		"private":     string(pem.EncodeToMemory(block)),
		"options":     `command="rm -rf /" ` + good,
		"two keys":    good + "\n" + good,
		"hidden key":  good + "\rssh-ed25519 AAAA",
		"weak rsa":    bits(t, 1024),
		"long":        good + " " + strings.Repeat("x", 20_000),
		"certificate": "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29t",
	} {
		_, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: caller}, "laptop", text)
		identitytest.WantCode(t, name, err, errs.SSHKeyInvalid)
	}
	for _, name := range []string{"", "  ", "a\x00b", strings.Repeat("n", 65)} {
		_, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: caller}, name, good)
		identitytest.WantCode(t, "name "+name, err, errs.ValidationError)
	}
}

func TestSSHKeysAreStoredListedAndDeleted(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	now := identity.SignIn{At: time.Now()}
	dev, admin := identity.Caller{User: b.Seed.Dev.ID, SignIn: now}, identity.Caller{User: b.Seed.Admin.ID, SignIn: now}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := ed(t)
	second := line(t, &curve.PublicKey)
	one, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: dev}, " laptop ", first+" me@home\n")
	if err != nil || one.Name != "laptop" || one.PublicKey != first || !strings.HasPrefix(one.Fingerprint, "SHA256:") || one.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", one, err)
	}
	two, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: dev}, "desk", second)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: dev}, "again", first)
	identitytest.WantCode(t, "same key", err, errs.AlreadyExists)
	_, err = b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: dev}, "desk", first)
	identitytest.WantCode(t, "same name", err, errs.AlreadyExists)
	if _, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: admin}, "laptop", first); err != nil {
		t.Errorf("another user with the same key: %v", err)
	}

	page, err := b.Keys.SSHKeys(t.Context(), dev, ids.SSHKey{}, 1)
	if err != nil || len(page) != 1 || page[0].ID != one.ID {
		t.Errorf("page %+v, %v", page, err)
	}
	if page, err = b.Keys.SSHKeys(t.Context(), dev, one.ID, 5); err != nil || len(page) != 1 || page[0].ID != two.ID {
		t.Errorf("next page %+v, %v", page, err)
	}
	for name, c := range map[string]struct {
		named []ids.SSHKey
		want  []string
	}{"all": {nil, []string{first, second}}, "one": {[]ids.SSHKey{two.ID}, []string{second}}, "twice": {[]ids.SSHKey{one.ID, one.ID}, []string{first}}} {
		if got, err := keys.AuthorizedKeys(t.Context(), b.Pool, dev, c.named); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err = keys.AuthorizedKeys(t.Context(), b.Pool, admin, []ids.SSHKey{one.ID})
	identitytest.WantCode(t, "the key of another", err, errs.NotFound)
	identitytest.WantCode(t, "deleting the key of another", b.Keys.DeleteSSHKey(t.Context(), identity.Change[struct{}]{Caller: admin}, one.ID), errs.NotFound)
	if err := b.Keys.DeleteSSHKey(t.Context(), identity.Change[struct{}]{Caller: dev}, one.ID); err != nil {
		t.Error(err)
	}
	identitytest.WantCode(t, "deleting it again", b.Keys.DeleteSSHKey(t.Context(), identity.Change[struct{}]{Caller: dev}, one.ID), errs.NotFound)
}
