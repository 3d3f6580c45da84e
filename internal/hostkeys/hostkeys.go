// Package hostkeys compares the host key of an SSH server with those that its node has reported.
package hostkeys

import (
	"bytes"
	"slices"

	"golang.org/x/crypto/ssh"
)

// Keys are the host keys of one SSH server.
type Keys []ssh.PublicKey

// Parse reads lines as in authorized_keys. A line without a key is left out, so that it matches none.
func Parse(lines []string) (keys Keys) {
	for _, line := range lines {
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Algorithms returns the algorithms of the keys. A client that offers only these receives one of the keys, and not one of
// another type that the server has, too.
func (k Keys) Algorithms() (names []string) {
	for _, key := range k {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, key.Type())
	}
	return names
}

// Has reports whether key is one of the keys.
func (k Keys) Has(key ssh.PublicKey) bool {
	return slices.ContainsFunc(k, func(one ssh.PublicKey) bool { return bytes.Equal(one.Marshal(), key.Marshal()) })
}
