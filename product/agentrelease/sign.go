package agentrelease

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/protocol"
)

// Statement is a signed protocol.Release, or a signed protocol.ReleaseKeySet. A pipeline makes it, and servers
// publish its bytes.
type Statement = protocol.Signed

// Signer signs with a release key. No server has one.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Build is a build of the agent that is to be signed.
type Build struct {
	Version  string
	Platform string // linux/amd64
	Digest   string // SHA-256, hex
	Size     int64
	Minimum  string
	Life     time.Duration // Life when zero
}

// Sign signs a build.
func Sign(ctx context.Context, by Signer, b Build, now time.Time) (Statement, error) {
	now = now.Truncate(time.Second)
	r := protocol.Release{
		V: protocol.ReleaseVersion, Kid: by.Active(), Version: b.Version, Platform: b.Platform, Digest: b.Digest, Size: b.Size,
		Minimum: b.Minimum, IssuedAt: now, ExpiresAt: now.Add(cmp.Or(b.Life, Life)),
	}
	if err := r.Sound(); err != nil {
		return Statement{}, errs.New(errs.ValidationError, "this build cannot be published").Because(err).With("reason", err.Error())
	}
	if err := hasMinimum(r); err != nil {
		return Statement{}, err
	}
	body, err := r.Canonical()
	if err != nil {
		return Statement{}, err
	}
	return sign(ctx, by, r.Kid, body)
}

// hasMinimum rejects a release after which a node could go back to any older one.
func hasMinimum(r protocol.Release) error {
	switch ordered := protocol.Ordered(r.Version); {
	case ordered && r.Minimum == "":
		return errs.New(errs.ValidationError, "version %s needs a minimum", r.Version).At("minimum").
			Try("name the lowest version that a node may return to, such as the release before this one")
	case !ordered && r.Minimum != "":
		return errs.New(errs.ValidationError, "a version that is not ordered has no minimum").At("minimum").Try("name versions as v1.2.3")
	}
	return nil
}

// SignKeys signs the set of release keys that nodes trust from now on. The signer is the oldest key during a
// rotation, which nodes trust already, and the new one after it.
func SignKeys(ctx context.Context, by Signer, keys map[string][]byte, sequence int64, now time.Time) (Statement, error) {
	set := protocol.ReleaseKeySet{V: protocol.Version, Kid: by.Active(), Sequence: sequence, Keys: keys, IssuedAt: now}
	body, err := set.Canonical()
	if err != nil {
		return Statement{}, err
	}
	return sign(ctx, by, set.Kid, body)
}

func sign(ctx context.Context, by Signer, kid string, body []byte) (Statement, error) {
	signature, err := by.Sign(ctx, kid, body)
	if err != nil {
		return Statement{}, fmt.Errorf("signing: %w", err)
	}
	return Statement{Kid: kid, Body: body, Signature: signature}, nil
}

// maxStatement limits a file with a statement.
const maxStatement = 256 << 10

// ReadStatement reads the file of a statement.
func ReadStatement(path string) (s Statement, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("reading a signed statement: %w", err)
	}
	if len(text) > maxStatement || json.Unmarshal(text, &s) != nil || len(s.Body) == 0 {
		return s, errs.New(errs.ValidationError, "%s is no signed statement", path).Try("gpuaas agent sign and gpuaas agent keys write them")
	}
	return s, nil
}

// WriteStatement writes the file of a statement.
func WriteStatement(path string, s Statement) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding a signed statement: %w", err)
	}
	return durable.Write(path, append(text, '\n'), 0o644)
}
