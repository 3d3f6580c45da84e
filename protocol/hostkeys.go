package protocol

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	// maxHostKeys is above the number of types of host keys.
	maxHostKeys = 8
	// maxHostKey is the length of an RSA key of 16,384 bits.
	maxHostKey = 3 << 10
)

// HostKeyLine returns the form of a host key in reports.
func HostKeyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// CheckHostKeys rejects keys that are not in the form of HostKeyLine, certificates, repetitions and long lists.
func CheckHostKeys(lines []string) error {
	if len(lines) > maxHostKeys {
		return Reject(EnvelopeInvalid, "%d host keys, at most %d", len(lines), maxHostKeys)
	}
	for i, line := range lines {
		if len(line) > maxHostKey {
			return Reject(EnvelopeInvalid, "host key %d has %d bytes, at most %d", i+1, len(line), maxHostKey)
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if _, signed := key.(*ssh.Certificate); err != nil || signed || HostKeyLine(key) != line || slices.Contains(lines[:i], line) {
			return Reject(EnvelopeInvalid, "host key %d is not a public key of its own", i+1)
		}
	}
	return nil
}
