package identity

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Sealer encrypts secrets that are stored in columns. Every replica needs the same keys.
type Sealer interface {
	Seal(secret []byte, at envelope.Place) []byte
	// Open returns decryption_failed for what was sealed elsewhere, or was changed.
	Open(ctx context.Context, sealed []byte, at envelope.Place) ([]byte, error)
}

// replyAt returns where the stored response to a request is sealed.
func replyAt(k Key) envelope.Place {
	return envelope.Place{Table: "idempotency_keys", Column: "body", Row: k.String()}
}

// GrantAt returns where the tokens of a session are sealed.
func GrantAt(id ids.Session) envelope.Place {
	return envelope.Place{Table: "sessions", Column: "grant_enc", Row: id.String()}
}
