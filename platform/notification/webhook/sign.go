package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// The prefixes of Standard Webhooks.
const (
	secretPrefix = "whsec_"
	publicPrefix = "whpk_"
)

const (
	// newSecret is the length of a secret of ours, in bytes.
	newSecret   = 24
	leastSecret = 24
	mostSecret  = 64
)

// key is a secret of an endpoint: the key of HMAC, or the seed of an Ed25519 key.
type key []byte

// newKey draws a key, or reads the one that the caller wants.
func newKey(kind Signature, wanted string) (key, error) {
	switch {
	case wanted == "" && kind == Symmetric:
		return random(newSecret), nil
	case wanted == "":
		return random(ed25519.SeedSize), nil
	case kind == Asymmetric:
		return nil, errs.Invalid("secret", "is not possible with the signature v1a").Try("leave it out; the platform creates the key")
	}
	text, ok := strings.CutPrefix(wanted, secretPrefix)
	k, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(k) < leastSecret || len(k) > mostSecret {
		return nil, errs.Invalid("secret", "must be %s and %d to %d bytes in base64", secretPrefix, leastSecret, mostSecret).
			Try("leave it out, and the platform creates one")
	}
	return k, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// texts returns the parts that the receiver gets: the secret once, and the public key always.
func (k key) texts(kind Signature) (secret, public string) {
	if kind == Symmetric {
		return secretPrefix + base64.StdEncoding.EncodeToString(k), ""
	}
	pub, _ := ed25519.NewKeyFromSeed(k).Public().(ed25519.PublicKey)
	return "", publicPrefix + base64.StdEncoding.EncodeToString(pub)
}

func (k key) sign(kind Signature, content []byte) string {
	if kind == Symmetric {
		mac := hmac.New(sha256.New, k)
		mac.Write(content)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(k), content))
}

// signatures returns the value of the header webhook-signature: one signature for each key.
func signatures(kind Signature, keys []key, id string, at time.Time, body []byte) string {
	content := fmt.Appendf(nil, "%s.%s.%s", id, timestamp(at), body)
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.sign(kind, content)
	}
	return strings.Join(all, " ")
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func secretAt(id ids.Webhook) envelope.Place {
	return envelope.Place{Table: "webhook_endpoints", Column: "secret_enc", Row: id.String()}
}

func previousAt(id ids.Webhook) envelope.Place {
	return envelope.Place{Table: "webhook_endpoints", Column: "previous_enc", Row: id.String()}
}

// keysOf opens the secrets of an endpoint, the newest first. The older one ends with the overlap.
func (s *Service) keysOf(ctx context.Context, e Endpoint) ([]key, error) {
	k, err := s.Seal.Open(ctx, e.sealed, secretAt(e.ID))
	if err != nil {
		return nil, err
	}
	keys := []key{k}
	if e.PreviousUntil != nil && s.Clock.Now().Before(*e.PreviousUntil) {
		if k, err = s.Seal.Open(ctx, e.previous, previousAt(e.ID)); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}
