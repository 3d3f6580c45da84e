// Package enrol owns the identity of a node: a key that is generated on it, the certificate of that key,
// and the trust in the control plane. The key never leaves the node, and each certificate has a new key.
package enrol

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

// Identity is one file, so that a crash cannot separate the key from its certificate.
type Identity struct {
	Node        ids.Node       `json:"node_id"`
	Key         string         `json:"key"`         // PEM
	Certificate string         `json:"certificate"` // PEM chain, leaf first
	Trust       protocol.Trust `json:"trust"`
	ReportEvery int            `json:"report_seconds"`
	// Journal that belongs to this identity; zero until the first one is made.
	Journal uuid.UUID `json:"journal_id"`

	pair tls.Certificate
}

const fileName = "identity.json"

// Load reads the identity in dir; found is false before the first enrolment.
func Load(dir string) (i Identity, found bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, false, nil
	} else if err != nil {
		return Identity{}, false, fmt.Errorf("reading identity: %w", err)
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return Identity{}, false, fmt.Errorf("reading identity: %w", err)
	}
	return i, true, i.check()
}

// Save replaces the identity in dir.
func (i Identity) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("saving identity: %w", err)
	}
	text, err := json.MarshalIndent(i, "", " ")
	if err != nil {
		return fmt.Errorf("encoding identity: %w", err)
	}
	return durable.Write(filepath.Join(dir, fileName), text, 0o600)
}

// NewKey makes a P-256 key and the request to certify it, both in PEM.
func NewKey() (key, csr string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("making node key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encoding node key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return "", "", fmt.Errorf("making certificate request: %w", err)
	}
	return text("PRIVATE KEY", der), text("CERTIFICATE REQUEST", request), nil
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// From creates the identity that a reply to the request for key grants. before is the identity that
// it replaces; a renewal retains its node and journal.
func From(reply protocol.EnrolReply, key string, before Identity) (Identity, error) {
	if before.Node != (ids.Node{}) && before.Node != reply.Node {
		return Identity{}, fmt.Errorf("the control plane calls node %s now %s", before.Node, reply.Node)
	}
	i := Identity{
		Node: reply.Node, Key: key, Certificate: reply.Certificate, Trust: reply.Trust,
		ReportEvery: reply.ReportEvery, Journal: before.Journal,
	}
	return i, i.check()
}

// check rejects an identity that the node API would reject, before the old one is deleted.
func (i *Identity) check() error {
	pair, err := tls.X509KeyPair([]byte(i.Certificate), []byte(i.Key))
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	name, err := pki.NameOf(pair.Leaf)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if name.Kind != "node" || name.ID != i.Node.String() {
		return fmt.Errorf("the certificate is that of %s, not of node %s", name.URI(), i.Node)
	}
	if len(i.Trust.TaskKeys) == 0 || len(pki.BundleFingerprints([]byte(i.Trust.CAs))) == 0 {
		return errors.New("the identity trusts no authority or no task key")
	}
	i.pair = pair
	return nil
}

// Pair is the certificate with its key, for TLS.
func (i Identity) Pair() *tls.Certificate { return &i.pair }

// NotAfter returns the end of the certificate.
func (i Identity) NotAfter() time.Time { return i.pair.Leaf.NotAfter }

// RenewAt returns half of the lifetime, plus or minus 10 %. share, from 0 to 1, spreads the
// renewals of a fleet that was enrolled at one time.
func (i Identity) RenewAt(share float64) time.Time {
	life := i.pair.Leaf.NotAfter.Sub(i.pair.Leaf.NotBefore)
	return i.pair.Leaf.NotBefore.Add(time.Duration((0.4 + 0.2*share) * float64(life)))
}
