package nodeapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/protocol"
)

// A build goes to nodes with a task to become it, by its digest and by nothing
// else, and not to strangers.
func TestBuildsAreServedToNodes(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	dir, body := t.TempDir(), bytes.Repeat([]byte("build"), 1<<20)
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	for name, text := range map[string][]byte{digest: body, "secret": []byte("key")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.server.Binaries, h.server.Builds = &nodeapi.Binaries{}, agentrelease.Files{Dir: dir}
	h.open()
	known := h.join(h.declare())
	get := func(p *peer, name string) (int, []byte) {
		response, err := p.Get(h.url + fmt.Sprintf(protocol.PathBuild, name))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, got
	}
	if status, got := get(known, digest); status != http.StatusOK || !bytes.Equal(got, body) {
		t.Errorf("%d, %d bytes", status, len(got))
	}
	for _, name := range []string{"secret", "..%2fsecret", strings.Repeat("0", 64)} {
		if status, _ := get(known, name); status != http.StatusNotFound {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, got := get(h.stranger(), digest); status != http.StatusUnauthorized || bytes.Contains(got, []byte("build")) {
		t.Errorf("a stranger: %d", status)
	}
}
