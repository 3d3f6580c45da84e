package bundle

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
)

// KeyLine returns a public key as a line of a key file.
func KeyLine(kid string, key []byte) string {
	return kid + " " + base64.StdEncoding.EncodeToString(key) + "\n"
}

// ParseKeys reads a key file: a line for each key, with its id and the key in base64. During and after a rotation a file has
// several lines.
func ParseKeys(text []byte) (Keys, error) {
	keys := Keys{}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kid, value, _ := strings.Cut(line, " ")
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(value))
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("line %d is no key id with an Ed25519 key in base64", n+1)
		}
		if old, twice := keys[kid]; twice && !old.Equal(ed25519.PublicKey(key)) {
			return nil, fmt.Errorf("line %d is another key with the id %s", n+1, kid)
		}
		keys[kid] = key
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the file has no key")
	}
	return keys, nil
}
