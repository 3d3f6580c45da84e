package secret_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
)

func TestFilesAreAnAuthority(t *testing.T) {
	t.Parallel()
	ca, err := pki.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	secrettest.Authority(t, ca)
}

func TestFilesAreASigner(t *testing.T) {
	t.Parallel()
	s, err := secret.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secrettest.Signer(t, s)
}

// office is a user authority whose clock the test sets.
type office struct {
	secret.LocalUserCA

	dir string
	now atomic.Int64
}

func open(t *testing.T) *office {
	t.Helper()
	o := &office{dir: t.TempDir()}
	o.now.Store(time.Now().Unix())
	var err error
	o.LocalUserCA, err = secret.OpenUserCA(o.dir, clock.At(func() time.Time { return time.Unix(o.now.Load(), 0) }))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func userKey(t *testing.T) (ssh.Signer, ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, signer.PublicKey()
}

// sshd accepts logins as the one on a node does: with a certificate of a trusted authority whose
// principal is the allocation.
func sshd(t *testing.T, o *office, principal string) string {
	t.Helper()
	checker := &ssh.CertChecker{
		Clock: func() time.Time { return time.Unix(o.now.Load(), 0) },
		IsUserAuthority: func(key ssh.PublicKey) bool {
			for _, line := range o.Public() {
				believed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
				if err == nil && bytes.Equal(believed.Marshal(), key.Marshal()) {
					return true
				}
			}
			return false
		},
	}
	host, _ := userKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		cert, ok := key.(*ssh.Certificate)
		if !ok {
			return nil, fmt.Errorf("only certificates log in")
		}
		if !checker.IsUserAuthority(cert.SignatureKey) {
			return nil, fmt.Errorf("an authority that is not trusted")
		}
		return &cert.Permissions, checker.CheckCert(principal, cert)
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				s, _, _, err := ssh.NewServerConn(c, config)
				if err == nil {
					s.Close()
				}
			}()
		}
	}()
	return l.Addr().String()
}

func login(t *testing.T, address string, key ssh.Signer, text string) error {
	t.Helper()
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(parsed.(*ssh.Certificate), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "u1", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 5 * time.Second,
	})
	if err == nil {
		c.Close()
	}
	return err
}

// A login is for one allocation, for minutes, and over when they are.
func TestALoginIsForOneAllocationAndMinutes(t *testing.T) {
	t.Parallel()
	o := open(t)
	key, public := userKey(t)
	c, err := o.Sign(t.Context(), secret.Login{Key: public, Allocation: "a1", User: "ada", TTL: 5 * time.Minute, PTY: true})
	if err != nil {
		t.Fatal(err)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(c.Text))
	if err != nil {
		t.Fatal(err)
	}
	cert := parsed.(*ssh.Certificate)
	if len(cert.ValidPrincipals) != 1 || cert.ValidPrincipals[0] != "a1" || len(cert.CriticalOptions) != 0 || len(cert.Extensions) != 2 ||
		c.KeyID != "user=ada allocation=a1" || cert.KeyId != c.KeyID || cert.Serial != c.Serial || c.Serial == 0 || !strings.HasPrefix(o.Public()[0], "ssh-ed25519 ") {
		t.Errorf("%+v", cert)
	}
	if err := login(t, sshd(t, o, "a1"), key, c.Text); err != nil {
		t.Errorf("its own allocation: %v", err)
	}
	if err := login(t, sshd(t, o, "a2"), key, c.Text); err == nil {
		t.Error("it logs in to another allocation")
	}
	if err := login(t, sshd(t, open(t), "a1"), key, c.Text); err == nil {
		t.Error("a node that trusts another authority accepts it")
	}
	bare, err := o.Sign(t.Context(), secret.Login{Key: public, Allocation: "a1", User: "ada", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(bare.Text)); err != nil || len(parsed.(*ssh.Certificate).Extensions) != 1 || bare.Serial == c.Serial {
		t.Errorf("without a terminal: %v", err)
	}
	o.now.Add(int64(5*time.Minute/time.Second) + 1)
	if err := login(t, sshd(t, o, "a1"), key, c.Text); err == nil {
		t.Error("it logs in after its end")
	}
}

func TestLoginsThatAreNotSigned(t *testing.T) {
	t.Parallel()
	o := open(t)
	_, public := userKey(t)
	short, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ssh.NewPublicKey(&short.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	good := secret.Login{Key: public, Allocation: "a1", User: "ada", TTL: time.Minute}
	c, err := o.Sign(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, _, _, err := ssh.ParseAuthorizedKey([]byte(c.Text))
	if err != nil {
		t.Fatal(err)
	}
	for rule, change := range map[string]func(*secret.Login){
		"no key":          func(l *secret.Login) { l.Key = nil },
		"a certificate":   func(l *secret.Login) { l.Key = cert },
		"short RSA":       func(l *secret.Login) { l.Key = weak },
		"too long":        func(l *secret.Login) { l.TTL = secret.MaxLogin + time.Second },
		"no time":         func(l *secret.Login) { l.TTL = 0 },
		"no allocation":   func(l *secret.Login) { l.Allocation = "" },
		"two allocations": func(l *secret.Login) { l.Allocation = "a1,a2" },
		"a line":          func(l *secret.Login) { l.User = "ada\nroot" },
	} {
		bad := good
		change(&bad)
		if _, err := o.Sign(t.Context(), bad); err == nil {
			t.Errorf("%s: signed", rule)
		}
	}
}

// INV-54: neither a user's key nor its certificate is stored.
func TestINV54NothingOfAUserIsStored(t *testing.T) {
	t.Parallel()
	o := open(t)
	_, public := userKey(t)
	list := func() (names []string) {
		entries, err := os.ReadDir(o.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(o.dir + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, e.Name()+string(text))
		}
		return names
	}
	before := fmt.Sprint(list())
	if _, err := o.Sign(t.Context(), secret.Login{Key: public, Allocation: "a1", User: "ada", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(list()) != before {
		t.Error("a login left something in the state directory")
	}
}
