package secret

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Public contains the public parts of the stored keys, which every role reads.
type Public struct {
	DB pg.Queryer

	mu   sync.RWMutex
	keys map[string][]pki.Stored // by purpose, lowest number first
	text []byte                  // the roots
	pool *x509.CertPool
}

// OpenPublic reads the public parts.
func OpenPublic(ctx context.Context, db pg.Queryer) (*Public, error) {
	p := &Public{DB: db}
	return p, p.Refresh(ctx)
}

// Refresh reads the public parts again.
func (p *Public) Refresh(ctx context.Context) error {
	rows, err := p.DB.Query(ctx, selectPublic)
	if err != nil {
		return fmt.Errorf("reading public keys: %w", err)
	}
	keys := map[string][]pki.Stored{}
	var purpose string
	var key pki.Stored
	if _, err := pgx.ForEachRow(rows, []any{&purpose, &key.Number, &key.Public}, func() error {
		keys[purpose] = append(keys[purpose], key)
		key = pki.Stored{}
		return nil
	}); err != nil {
		return fmt.Errorf("reading public keys: %w", err)
	}
	text, pool, err := rootsOf(keys["authority"])
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
	if p.pool == nil || !bytes.Equal(text, p.text) {
		p.text, p.pool = text, pool
	}
	return nil
}

func rootsOf(keys []pki.Stored) (text []byte, pool *x509.CertPool, err error) {
	pool = x509.NewCertPool()
	for _, key := range keys {
		g, err := pki.PublicGeneration(key.Number, key.Public)
		if err != nil {
			return nil, nil, err
		}
		pool.AddCert(g.Root)
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Root.Raw})...)
	}
	return text, pool, nil
}

// Bundle returns the roots in PEM, oldest first.
func (p *Public) Bundle() []byte {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return bytes.Clone(p.text)
}

// Pool returns Bundle as crypto/tls requires it.
func (p *Public) Pool() *x509.CertPool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pool
}

// Keys returns the Ed25519 keys of a purpose by kid.
func (p *Public) Keys(purpose string) map[string][]byte {
	p.mu.RLock()
	defer p.mu.RUnlock()
	keys := map[string][]byte{}
	for _, key := range p.keys[purpose] {
		keys[pki.KidOf(key.Number)] = key.Public
	}
	return keys
}

// LoginAuthorities lists the authorities that sshd on the nodes may accept, as authorized_keys lines.
func (p *Public) LoginAuthorities() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var list []ed25519.PublicKey
	for _, key := range p.keys["logins"] {
		list = append(list, key.Public)
	}
	return authorities(list)
}

// authorities returns keys as lines of authorized_keys.
func authorities(keys []ed25519.PublicKey) (lines []string) {
	for _, one := range keys {
		key, err := ssh.NewPublicKey(one)
		if err != nil {
			continue // 32 bytes always are one
		}
		lines = append(lines, strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(key)), "\n"))
	}
	return lines
}

// PublicPart describes a key without its secret, also an ended one.
type PublicPart struct {
	Purpose   string     `json:"purpose"`
	Number    int        `json:"number"`
	Status    string     `json:"status"` // active or ended
	Public    []byte     `json:"public"` // empty for a data key
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
}

// PublicParts lists all keys by purpose and number.
func PublicParts(ctx context.Context, db pg.Queryer) ([]PublicPart, error) {
	return pg.List(ctx, db, "public keys", selectPublicKeys, pgx.RowToStructByPos[PublicPart])
}
