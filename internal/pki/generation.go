package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// generation is a root and the issuing key below it. The key of the root is not stored: it has certified
// the issuing key and certifies nothing else.
type generation struct {
	number  int
	root    *x509.Certificate
	issuing pair
}

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Generation describes one generation of the authority for operators.
type Generation struct {
	Number      int
	Fingerprint string // of the root, by which it is pinned
	Issuer      string // as in Certificate
	Root        *x509.Certificate
	Issuing     *x509.Certificate
}

// Generations lists the trusted generations, oldest first.
func (l *Local) Generations() []Generation {
	l.mu.RLock()
	defer l.mu.RUnlock()
	list := make([]Generation, len(l.gens))
	for i, g := range l.gens {
		list[i] = describe(g.number, g.root, g.issuing.cert)
	}
	return list
}

func describe(number int, root, issuing *x509.Certificate) Generation {
	return Generation{number, Fingerprint(root.Raw), issuerOf(issuing.SubjectKeyId), root, issuing}
}

// Begin makes the next generation.
func (l *Local) Begin(ctx context.Context) error {
	list := l.Generations()
	if len(list) > 1 {
		return errs.New(errs.Conflict, "a roll-over is under way").Try("end it with gpuaas ca rotate finish")
	}
	made, err := NewAuthority(list[0].Number+1, l.Clock)
	if err != nil {
		return err
	}
	if err := l.store.Add(ctx, made); err != nil {
		return fmt.Errorf("storing the next authority: %w", err)
	}
	return l.Refresh(ctx)
}

// Finish ends all generations but the newest, and certificates that they signed are no longer trusted.
func (l *Local) Finish(ctx context.Context) error {
	list := l.Generations()
	for _, g := range list[:len(list)-1] {
		if err := l.store.Remove(ctx, g.Number); err != nil {
			return fmt.Errorf("ending an authority: %w", err)
		}
	}
	return l.Refresh(ctx)
}

// newPair draws a key and has it certified.
func newPair(certify func(crypto.Signer) ([]byte, error)) (p pair, err error) {
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return p, fmt.Errorf("making key: %w", err)
	}
	der, err := certify(p.key)
	if err != nil {
		return p, fmt.Errorf("making certificate: %w", err)
	}
	p.cert, err = x509.ParseCertificate(der)
	return p, err
}

// encode returns the stored form: the certificates of root and issuing key, and the issuing key.
func (g generation) encode() (Stored, error) {
	private, err := x509.MarshalPKCS8PrivateKey(g.issuing.key)
	if err != nil {
		return Stored{}, fmt.Errorf("encoding the issuing key: %w", err)
	}
	public := append(certPEM(g.root.Raw), certPEM(g.issuing.cert.Raw)...)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), public...)
	return Stored{Number: g.number, Public: public, Private: text}, nil
}

// EncodeAuthority returns the stored form of a root and the issuing key below it, each a key with its
// certificate in PEM. The key of the root is dropped.
func EncodeAuthority(number int, root, issuing []byte) (Stored, error) {
	r, err := parsePair(root)
	if err != nil {
		return Stored{}, fmt.Errorf("reading root %d: %w", number, err)
	}
	i, err := parsePair(issuing)
	if err != nil {
		return Stored{}, fmt.Errorf("reading issuing key %d: %w", number, err)
	}
	return generation{number, r.cert, i}.encode()
}

// parseGeneration reads the stored form.
func parseGeneration(s Stored) (g generation, err error) {
	g.number = s.Number
	private, rest := pem.Decode(s.Private)
	if private == nil || private.Type != "PRIVATE KEY" {
		return g, errors.New("contains no private key")
	}
	certs, err := Certificates(rest)
	if err != nil || len(certs) != 2 { //nolint:mnd // root and issuing
		return g, errors.Join(fmt.Errorf("contains %d certificates, not 2", len(certs)), err)
	}
	g.root = certs[0]
	if g.issuing, err = parsePair(append(pem.EncodeToMemory(private), certPEM(certs[1].Raw)...)); err != nil {
		return g, err
	}
	if err := g.issuing.cert.CheckSignatureFrom(g.root); err != nil {
		return g, fmt.Errorf("the issuing key does not belong to its root: %w", err)
	}
	return g, nil
}

// PublicGeneration describes a generation by its public part.
func PublicGeneration(number int, public []byte) (Generation, error) {
	certs, err := Certificates(public)
	if err != nil || len(certs) != 2 { //nolint:mnd // root and issuing
		return Generation{}, errors.Join(fmt.Errorf("authority %d has %d certificates, not 2", number, len(certs)), err)
	}
	return describe(number, certs[0], certs[1]), nil
}

func parsePair(text []byte) (pair, error) {
	private, rest := pem.Decode(text)
	if private == nil || private.Type != "PRIVATE KEY" {
		return pair{}, errors.New("contains no private key")
	}
	cert, _ := pem.Decode(rest)
	if cert == nil || cert.Type != "CERTIFICATE" {
		return pair{}, errors.New("contains no certificate")
	}
	key, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		return pair{}, fmt.Errorf("parsing key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("a %T does not sign", key)
	}
	c, err := x509.ParseCertificate(cert.Bytes)
	if err != nil {
		return pair{}, fmt.Errorf("parsing certificate: %w", err)
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(c.PublicKey) {
		return pair{}, errors.New("key and certificate do not belong together")
	}
	return pair{c, signer}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// certify signs a certificate for public.
func certify(template *x509.Certificate, parent pair, public any) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, template, parent.cert, public, parent.key)
}

// newSerial returns a random serial, which reveals nothing and needs no counter.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

func rootSubject() pkix.Name    { return pkix.Name{CommonName: "GPUaaS root"} }
func issuingSubject() pkix.Name { return pkix.Name{CommonName: "GPUaaS issuing"} }
