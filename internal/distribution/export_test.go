package distribution

import "crypto/ed25519"

// Open verifies a statement alone.
func Open(text []byte, key ed25519.PublicKey) (any, error) { return open(text, key) }
