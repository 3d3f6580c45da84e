package hostkeys_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/hostkeys"
)

func key(t *testing.T, of any) ssh.PublicKey {
	t.Helper()
	k, err := ssh.NewPublicKey(of)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func line(k ssh.PublicKey) string { return string(ssh.MarshalAuthorizedKey(k)) }

// Only reported keys match, and only their algorithms are offered. Text matches nothing.
func TestReportedKeys(t *testing.T) {
	t.Parallel()
	first, _, _ := ed25519.GenerateKey(rand.Reader)
	second, _, _ := ed25519.GenerateKey(rand.Reader)
	third, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := key(t, first), key(t, second), key(t, &third.PublicKey)
	keys := hostkeys.Parse([]string{line(a), "text", "", line(c)})
	if len(keys) != 2 || !keys.Has(a) || keys.Has(b) || !keys.Has(c) || hostkeys.Parse(nil).Has(a) {
		t.Errorf("%d keys", len(keys))
	}
	if got := keys.Algorithms(); !slices.Equal(got, []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}) {
		t.Error(got)
	}
}
