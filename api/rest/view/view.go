package view

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

// whole is the response of a read model: its document, or 304 for a client that has the same one.
type whole struct {
	body      []byte
	tag       string
	unchanged bool
}

// end waits for the sections and encodes the read model. The tag is that of its bytes.
func (m *model) end(body any, cached *string) (whole, error) {
	m.sections.Wait()
	if m.rejected != nil {
		return whole{}, m.rejected
	}
	text, err := json.Marshal(body)
	if err != nil {
		return whole{}, fmt.Errorf("encoding a read model: %w", err)
	}
	sum := sha256.Sum256(text)
	w := whole{body: append(text, '\n'), tag: `"` + hex.EncodeToString(sum[:tagBytes]) + `"`}
	w.unchanged = request.NotModified(cached, w.tag)
	return w, nil
}

// tagBytes is the length of a tag: two documents have the same one by chance only.
const tagBytes = 16

func (d whole) write(w http.ResponseWriter) error {
	w.Header().Set("ETag", d.tag)
	if d.unchanged {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(d.body)
	return err
}
