package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// seal writes v with its digest, which shows that a file was cut or changed by accident. It does not
// protect against a process that may write here, because that process can also call seal.
func seal(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return durable.Write(path, append(append(append(text, '\n'), sum(text)...), '\n'), 0o600)
}

// unseal reads what seal wrote. What was written before there were seals has none.
func unseal(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading journal: %w", err)
	}
	body, digest, sealed := bytes.Cut(text, []byte{'\n'})
	if sealed && !bytes.Equal(bytes.TrimSuffix(digest, []byte{'\n'}), sum(body)) {
		return fmt.Errorf("%s is damaged: %w", filepath.Base(path), ErrLost)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s is damaged: %w: %w", filepath.Base(path), ErrLost, err)
	}
	return nil
}

func sum(body []byte) []byte {
	digest := sha256.Sum256(body)
	return hex.AppendEncode(nil, digest[:])
}
