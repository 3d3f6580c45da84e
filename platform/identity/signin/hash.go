package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// cost contains the parameters that decide how expensive it is to guess one password.
type cost struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// The first choice of the OWASP Password Storage Cheat Sheet for argon2id with one thread. A weaker hash
// is replaced at the next sign-in of its user.
var present = cost{memory: 19 << 10, passes: 2, threads: 1}

const (
	saltBytes = 16 // RFC 9106
	hashBytes = 32
	// hashMemory limits the memory of all concurrent hashes. A flood of sign-ins must wait instead of
	// ending the process.
	hashMemory = 128 << 10 // KiB
)

var errHash = errors.New("a stored password hash cannot be read")

// hashing bounds how many hashes are made at once. The zero value is ready.
type hashing struct {
	initOnce sync.Once
	slots    chan struct{}
}

func (h *hashing) acquire(ctx context.Context) (release func(), err error) {
	h.initOnce.Do(func() { h.slots = make(chan struct{}, hashMemory/present.memory) })
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// make returns the PHC form of a password's hash.
func (h *hashing) make(ctx context.Context, password string) (string, error) {
	release, err := h.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails: it ends the process instead
	return present.text(salt, present.key(password, salt, hashBytes)), nil
}

func (c cost) key(password string, salt []byte, size uint32) []byte {
	return argon2.IDKey([]byte(password), salt, c.passes, c.memory, c.threads, size)
}

func (c cost) text(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.passes, c.threads, b64(salt), b64(key))
}

// check reports whether the password matches the hash, and whether the hash is weaker than a new one
// would be.
func (h *hashing) check(ctx context.Context, password, text string) (right, weak bool, err error) {
	c, salt, key, err := parseHash(text)
	if err != nil {
		return false, false, err
	}
	release, err := h.acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer release()
	right = subtle.ConstantTimeCompare(c.key(password, salt, uint32(len(key))), key) == 1 //nolint:gosec // parseHash bounds it
	weak = c.memory < present.memory || c.passes < present.passes || len(key) < hashBytes
	return right, weak, nil
}

// parseHash reads a stored hash with its own parameters, so that hashes of older parameters can
// still be checked and replaced.
func parseHash(text string) (c cost, salt, key []byte, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memory, &c.passes, &c.threads); err != nil {
		return c, nil, nil, errHash
	}
	salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return c, nil, nil, errHash
	}
	key, err = base64.RawStdEncoding.DecodeString(parts[5])
	// A hash beyond these limits was not made here, and argon2 would panic or exhaust the memory.
	if err != nil || len(key) < 16 || len(key) > 64 || c.memory < 8 || c.memory > hashMemory || c.passes < 1 || c.passes > 16 || c.threads < 1 {
		return c, nil, nil, errHash
	}
	return c, salt, key, nil
}

// absentHash is compared with the password if the user does not exist. A sign-in then costs the same
// time as for an existing user, so an attacker cannot find out which users exist. No password has this
// hash.
var absentHash = present.text(make([]byte, saltBytes), make([]byte, hashBytes))
