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
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// generation is a root and the issuing key below it.
type generation struct {
	number        int
	root, issuing pair
}

// whole reports whether the generation may be used. One without its issuing half is being created
// or deleted.
func (g generation) whole() bool { return g.root.cert != nil && g.issuing.cert != nil }

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// The first generation has names without a number, as it had before there were
// others.
func rootFile(n int) string    { return numbered("root", n) }
func issuingFile(n int) string { return numbered("issuing", n) }

func numbered(name string, n int) string {
	if n == 1 {
		return name + ".pem"
	}
	return fmt.Sprintf("%s-%04d.pem", name, n)
}

// generations lists the numbers that dir has a root of, lowest first.
func generations(dir string) (numbers []int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "root*.pem"))
	if err != nil {
		return nil, fmt.Errorf("listing authorities: %w", err)
	}
	for _, f := range files {
		n := 1
		if base := filepath.Base(f); base != rootFile(1) {
			if _, err := fmt.Sscanf(base, "root-%04d.pem", &n); err != nil {
				return nil, fmt.Errorf("%s is not named as an authority is: %w", f, err)
			}
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}

func newest(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return slices.Max(numbers)
}

// load reads a generation. A missing part is created if create is set, and left out otherwise.
func (l *Local) load(n int, create bool) (g generation, err error) {
	g.number = n
	g.root, err = l.loadPair(rootFile(n), create, func(key crypto.Signer) ([]byte, error) {
		return l.authority(pkix.Name{CommonName: "GPUaaS root"}, 1, rootLife, key, pair{key: key})
	})
	if err != nil || g.root.cert == nil {
		return g, err
	}
	g.issuing, err = l.loadPair(issuingFile(n), create, func(key crypto.Signer) ([]byte, error) {
		return l.authority(pkix.Name{CommonName: "GPUaaS issuing"}, 0, issuingLife, key, g.root)
	})
	if err != nil || g.issuing.cert == nil {
		return g, err
	}
	if err := g.issuing.cert.CheckSignatureFrom(g.root.cert); err != nil {
		return g, fmt.Errorf("%s in %s does not belong to the root in the same folder: %w", issuingFile(n), l.dir, err)
	}
	return g, nil
}

// loadPair reads a key and its certificate from one file. With two files, a crash or a concurrent
// process could leave a key with the certificate of another key.
func (l *Local) loadPair(name string, create bool, certify func(crypto.Signer) ([]byte, error)) (pair, error) {
	path := filepath.Join(l.dir, name)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return pair{}, nil
		}
		if err := makePair(path, certify); err != nil && !errors.Is(err, fs.ErrExist) {
			return pair{}, err
		}
		text, err = os.ReadFile(path) // ours, or that of a faster process
	}
	if err != nil {
		return pair{}, fmt.Errorf("reading %s: %w", path, err)
	}
	p, err := parsePair(text)
	if err != nil {
		return pair{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return p, nil
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
		list[i] = Generation{g.number, Fingerprint(g.root.cert.Raw), issuerOf(g.issuing.cert.SubjectKeyId), g.root.cert, g.issuing.cert}
	}
	return list
}

// Begin makes the next generation. It may be run again: a crash between the root
// and the issuing half is made good.
func (l *Local) Begin(context.Context) error {
	numbers, err := generations(l.dir)
	if err != nil {
		return err
	}
	if len(l.Generations()) > 1 {
		return errs.New(errs.Conflict, "a roll-over is under way").Try("end it with gpuaas ca rotate finish")
	}
	next := newest(numbers)
	if g, err := l.load(next, false); err != nil {
		return err
	} else if g.whole() {
		next++
	}
	if _, err := l.load(next, true); err != nil {
		return err
	}
	return l.refresh()
}

// Finish deletes all generations but the newest, and certificates that they signed are no longer
// trusted. Finish deletes the issuing half first. After a crash an incomplete generation is left,
// which is never used and which the next Finish deletes.
func (l *Local) Finish(context.Context) error {
	numbers, err := generations(l.dir)
	if err != nil {
		return err
	}
	kept := l.Generations()
	last := kept[len(kept)-1].Number
	for _, n := range numbers {
		if n >= last {
			continue
		}
		for _, name := range []string{issuingFile(n), rootFile(n)} {
			if err := os.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("forgetting an authority: %w", err)
			}
		}
	}
	return l.refresh()
}

func makePair(path string, certify func(crypto.Signer) ([]byte, error)) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making key for %s: %w", path, err)
	}
	cert, err := certify(key)
	if err != nil {
		return fmt.Errorf("making certificate for %s: %w", path, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding key for %s: %w", path, err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), certPEM(cert)...)
	return durable.Create(path, text, 0o600)
}

func parsePair(text []byte) (pair, error) {
	private, rest := pem.Decode(text)
	if private == nil || private.Type != "PRIVATE KEY" {
		return pair{}, errors.New("holds no private key")
	}
	cert, _ := pem.Decode(rest)
	if cert == nil || cert.Type != "CERTIFICATE" {
		return pair{}, errors.New("holds no certificate")
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
