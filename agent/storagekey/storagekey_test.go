package storagekey_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/protocol"
)

func grant(addresses ...string) storagekey.Grant {
	g := storagekey.Grant{MountKeys: protocol.MountKeys{Keys: []protocol.MountKey{{At: "data", AccessKeyID: "GK1", Secret: "s/+="}}}}
	for _, a := range addresses {
		g.Addresses = append(g.Addresses, netip.MustParseAddr(a))
	}
	return g
}

func storage(endpoint string) protocol.Storage {
	return protocol.Storage{Endpoint: endpoint, Mounts: []protocol.Mount{{At: "data"}}}
}

// The network process passes addresses on. It must not open the services of the node to a tenant.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint  string
		addresses []string
		want      string // empty: rejected
	}{
		{"https://s3.example.org", []string{"203.0.113.7", "2001:db8::7", "203.0.113.7"}, "203.0.113.7:443 [2001:db8::7]:443"},
		{"http://s3.example.org:9000", []string{"10.1.2.3"}, "10.1.2.3:9000"},
		{"http://10.1.2.3:9000", nil, "10.1.2.3:9000"},
		{"http://10.1.2.3:9000", []string{"169.254.169.254", "127.0.0.1"}, "10.1.2.3:9000"}, // what is signed counts
		{"http://127.0.0.1:9000", nil, "127.0.0.1:9000"},
		{"https://[fd00::1]:9000", nil, "[fd00::1]:9000"},
		{"https://s3.example.org", nil, ""},
		{"https://s3.example.org", []string{"203.0.113.7", "127.0.0.1"}, ""},
		{"https://s3.example.org", []string{"::1"}, ""},
		{"https://s3.example.org", []string{"::ffff:127.0.0.1"}, ""},
		{"https://s3.example.org", []string{"169.254.169.254"}, ""},
		{"https://s3.example.org", []string{"fe80::1%eth0"}, ""},
		{"https://s3.example.org", []string{"0.0.0.0"}, ""},
		{"https://s3.example.org", []string{"224.0.0.1"}, ""},
		{"https://s3.example.org", []string{"100.100.100.200"}, ""},
		{"http://169.254.169.254", nil, ""},
	} {
		to, err := grant(c.addresses...).Reach(storage(c.endpoint))
		var got []string
		for _, a := range to {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s at %v: %v, %v", c.endpoint, c.addresses, got, err)
		}
	}
}

func TestKeysThatDoNotFit(t *testing.T) {
	t.Parallel()
	s := storage("http://10.1.2.3")
	for what, edit := range map[string]func(*storagekey.Grant){
		"another mount": func(g *storagekey.Grant) { g.Keys[0].At = "other" },
		"one more": func(g *storagekey.Grant) {
			g.Keys = append(g.Keys, protocol.MountKey{At: "x", AccessKeyID: "a", Secret: "b"})
		},
		"none":            func(g *storagekey.Grant) { g.Keys = nil },
		"a second line":   func(g *storagekey.Grant) { g.Keys[0].Secret = "x\nendpoint = http://mallory" },
		"an empty secret": func(g *storagekey.Grant) { g.Keys[0].Secret = "" },
	} {
		g := grant()
		if edit(&g); g.Check(s) == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if err := grant().Check(s); err != nil {
		t.Error(err)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	s, wanted := storage("http://10.1.2.3"), make(chan struct{}, 8)
	store := &storagekey.Store{Wanted: func() { wanted <- struct{}{} }}
	got := make(chan error, 1)
	await := func(ctx context.Context) {
		go func() {
			_, err := store.Await(ctx, 200007, s)
			got <- err
		}()
		<-wanted
	}
	await(t.Context())
	store.Fail(200007, "HTTP 503", false) // another request may bring them
	store.Put(200008, grant())            // of another tenant
	store.Put(200007, grant())
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := store.Await(t.Context(), 200007, s); err != nil || len(wanted) != 0 {
		t.Errorf("keys that are there: %v", err)
	}
	store.Drop(200007)
	await(t.Context())
	store.Fail(200007, "no such allocation", true)
	if err := <-got; err == nil || !strings.Contains(err.Error(), "no such allocation") {
		t.Errorf("rejected: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	await(ctx)
	store.Fail(200007, "the name of the endpoint is not resolved", false)
	if err := <-got; err == nil || !strings.Contains(err.Error(), "not received in time") && !strings.Contains(err.Error(), "in time: the name of the endpoint") {
		t.Errorf("too late: %v", err)
	}
}
