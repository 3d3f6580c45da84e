package protocol_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func hostKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.HostKeyLine(key)
}

func TestHostKeysAreChecked(t *testing.T) {
	t.Parallel()
	key := hostKey(t)
	if err := protocol.CheckHostKeys([]string{key, hostKey(t)}); err != nil {
		t.Error(err)
	}
	many := make([]string, 9)
	for i := range many {
		many[i] = hostKey(t)
	}
	for name, keys := range map[string][]string{
		"no key": {"x"}, "a comment": {key + " root@gpu-07"}, "an option": {`command="x" ` + key}, "two lines": {key + "\n" + hostKey(t)}, "a line break": {key + "\n"},
		"a marker": {"@cert-authority " + key}, "twice": {key, key}, "many": many, "long": {key + strings.Repeat("A", 4<<10)}, "empty": {""},
	} {
		if protocol.CodeOf(protocol.CheckHostKeys(keys)) != protocol.EnvelopeInvalid {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The signature of a report covers its host keys, and a report without any has the bytes of an older agent.
func TestTheOriginCoversHostKeys(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	node := ids.New[ids.Node]()
	r := protocol.Report{Boot: 1, Sequence: 2, Nonce: strings.Repeat("0", 32), HostKeys: []string{hostKey(t)}}
	if err := r.SignOrigin(private, node); err != nil {
		t.Fatal(err)
	}
	if err := r.VerifyOrigin(public, node); err != nil {
		t.Error(err)
	}
	r.HostKeys = []string{hostKey(t)}
	if r.VerifyOrigin(public, node) == nil {
		t.Error("another host key has the same signature")
	}
	old := protocol.Report{Boot: 1, Sequence: 2, Nonce: r.Nonce}
	if err := old.SignOrigin(private, node); err != nil {
		t.Fatal(err)
	}
	if err := old.SetSigned(public, node); err != nil || string(old.Signed.Body) != `{"of":"report","node_id":"`+node.String()+`","boot":1,"sequence":2,"nonce":"`+r.Nonce+`"}` {
		t.Errorf("%s, %v", old.Signed.Body, err)
	}
}
