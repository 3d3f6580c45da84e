// Package seal encrypts backups for the operator and signs what the server states about them. The server has the
// recipient and the signing key: it cannot decrypt. The operator has the identity and the verification key.
package seal

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Server encrypts and signs.
type Server struct {
	recipient *age.X25519Recipient
	signing   ed25519.PrivateKey
}

// Operator decrypts, and verifies signatures.
type Operator struct {
	identity *age.X25519Identity
	Verifier
}

// Verifier verifies signatures. Both sides have one.
type Verifier struct{ key ed25519.PublicKey }

// Verifier returns the verifier of the server's own signatures.
func (s Server) Verifier() Verifier {
	return Verifier{s.signing.Public().(ed25519.PublicKey)} //nolint:forcetypeassert // Public has no other type
}

// The first lines of the two files, and the names of their values.
const (
	serverFile   = "gpuaas-backup-server/1"
	operatorFile = "gpuaas-backup-operator/1"

	recipientName    = "recipient"
	signingName      = "signing-key"
	identityName     = "identity"
	verificationName = "verification-key"
)

// Generate returns the contents of a new key file of the server and of the operator.
func Generate() (server, operator string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("generating an identity: %w", err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", "", fmt.Errorf("generating a signing key: %w", err)
	}
	text := func(first string, values ...string) string {
		return strings.Join(append([]string{first}, values...), "\n") + "\n"
	}
	server = text(serverFile, "# This file encrypts and signs backups. It cannot decrypt them.",
		recipientName+" "+identity.Recipient().String(), signingName+" "+base64.StdEncoding.EncodeToString(private.Seed()))
	operator = text(operatorFile, "# This file decrypts backups. Store it away from the server: without it, every backup is lost.",
		identityName+" "+identity.String(), verificationName+" "+base64.StdEncoding.EncodeToString(public))
	return server, operator, nil
}

// ParseServer reads the key file of the server. field names it in an error.
func ParseServer(field string, text []byte) (s Server, err error) {
	values, err := parse(field, text, serverFile, recipientName, signingName)
	if err != nil {
		return s, err
	}
	if s.recipient, err = age.ParseX25519Recipient(values[recipientName]); err != nil {
		return s, errs.Invalid(field, "the recipient is not one of age: %v", err)
	}
	seed, err := base64.StdEncoding.Strict().DecodeString(values[signingName])
	if err != nil || len(seed) != ed25519.SeedSize {
		return s, errs.Invalid(field, "the signing key has not %d bytes in Base64", ed25519.SeedSize)
	}
	s.signing = ed25519.NewKeyFromSeed(seed)
	return s, nil
}

// ParseOperator reads the key file of the operator.
func ParseOperator(field string, text []byte) (o Operator, err error) {
	values, err := parse(field, text, operatorFile, identityName, verificationName)
	if err != nil {
		return o, err
	}
	if o.identity, err = age.ParseX25519Identity(values[identityName]); err != nil {
		return o, errs.Invalid(field, "the identity is not one of age") // the cause may contain a part of it
	}
	if o.key, err = base64.StdEncoding.Strict().DecodeString(values[verificationName]); err != nil || len(o.key) != ed25519.PublicKeySize {
		return o, errs.Invalid(field, "the verification key has not %d bytes in Base64", ed25519.PublicKeySize)
	}
	return o, nil
}

// MaxKeyFile limits a key file, which has about 200 bytes.
const MaxKeyFile = 64 << 10

// parse reads lines of a name and a value. Each name exists exactly once.
func parse(field string, text []byte, first string, names ...string) (map[string]string, error) {
	if len(text) > MaxKeyFile {
		return nil, errs.Invalid(field, "has more than %d bytes", MaxKeyFile)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if lines[0] != first {
		return nil, errs.Invalid(field, "is not a key file: the first line must be %s", first).Try("gpuaas backup keygen makes both key files")
	}
	values := map[string]string{}
	for i, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
		case !slices.Contains(names, name) || value == "" || values[name] != "":
			return nil, errs.Invalid(field, "line %d is not one of %s, or is a second one", i+2, strings.Join(names, ", "))
		default:
			values[name] = value
		}
	}
	for _, name := range names {
		if values[name] == "" {
			return nil, errs.Invalid(field, "has no %s", name)
		}
	}
	return values, nil
}
