package distribution

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType names the process of make release.
	buildType = "https://github.com/gpuaas/gpuaas/blob/main/docs/guides/releases.md#v1"
)

// Build states how a version was built.
type Build struct {
	Version  string
	Revision string // commit
	Go       string // version of the compiler
	Builder  string // who built it and where, such as the URL of a run of CI
}

// statement is the in-toto Statement v1 with the SLSA provenance v1.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType          string            `json:"buildType"`
		ExternalParameters map[string]string `json:"externalParameters"`
		InternalParameters map[string]string `json:"internalParameters"`
		Dependencies       []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

const sourceURI = "git+https://github.com/gpuaas/gpuaas"

// KeyID returns the id of a public key: the first 16 bytes of its SHA-256 in hex.
func KeyID(public ed25519.PublicKey) string {
	const length = 16
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:length])
}

// Sign returns the file Provenance of files with these digests.
func Sign(by ed25519.PrivateKey, b Build, files Digests) ([]byte, error) {
	s := statement{Type: statementType, PredicateType: predicateType}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": files[name]}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = buildType
	d.ExternalParameters = map[string]string{"version": b.Version, "revision": b.Revision}
	d.InternalParameters = map[string]string{"go": b.Go}
	d.Dependencies = []dependency{{sourceURI, map[string]string{"gitCommit": b.Revision}}}
	s.Predicate.RunDetails.Builder.ID = b.Builder
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	public, _ := by.Public().(ed25519.PublicKey)
	e := dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []dsse.Signature{{KeyID: KeyID(public), Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(by, dsse.PAE(payloadType, payload)))}},
	}
	text, err := json.MarshalIndent(e, "", "  ")
	return append(text, '\n'), err
}

// open verifies the file Provenance, and returns its statement.
func open(text []byte, key ed25519.PublicKey) (s statement, err error) {
	var e dsse.Envelope
	if err := strictly(text, &e); err != nil {
		return s, fmt.Errorf("no DSSE envelope: %w", err)
	}
	if e.PayloadType != payloadType || len(e.Signatures) != 1 {
		return s, fmt.Errorf("want one signature of %s, not %d of %q", payloadType, len(e.Signatures), e.PayloadType)
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return s, fmt.Errorf("the payload: %w", err)
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(e.Signatures[0].Sig)
	if err != nil {
		return s, fmt.Errorf("the signature: %w", err)
	}
	if by := e.Signatures[0].KeyID; by != KeyID(key) {
		return s, fmt.Errorf("it is signed by the key %q, and the key that you trust is %s", by, KeyID(key))
	}
	if !ed25519.Verify(key, dsse.PAE(payloadType, payload), sig) {
		return s, errors.New("the signature is not that of this statement")
	}
	if err := strictly(payload, &s); err != nil {
		return s, fmt.Errorf("no statement: %w", err)
	}
	if s.Type != statementType || s.PredicateType != predicateType || s.Predicate.BuildDefinition.BuildType != buildType {
		return s, fmt.Errorf("a statement %s with %s about %s is unknown", s.Type, s.PredicateType, s.Predicate.BuildDefinition.BuildType)
	}
	return s, nil
}

// strictly decodes one JSON document without unknown fields. What it has decoded must encode to the same document, so that no
// field is there twice.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("text follows the document")
	}
	again, err := json.Marshal(into)
	if err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	if !bytes.Equal(compact.Bytes(), again) {
		return errors.New("a field is there twice, or in another form")
	}
	return nil
}

// ParsePublicKey reads a public key of Ed25519 from PEM.
func ParsePublicKey(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("the key is not of Ed25519")
	}
	return key, nil
}

// ParsePrivateKey reads a private key of Ed25519 from PEM, as openssl genpkey -algorithm ed25519 writes it.
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not of Ed25519")
	}
	return key, nil
}
