package sync

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// DefaultName is the default name of the source that a server is started with.
const DefaultName = "fleet"

// OpenSource opens the repository that a server is started with: a local folder, or a remote
// repository, of which a bounded copy is stored in dir.
func OpenSource(getenv func(string) string, dir string, spec source.Spec) (*source.Source, error) {
	if info, err := os.Stat(spec.Location); err == nil && info.IsDir() {
		return source.Open(spec.Location, spec.Ref, spec.Dirs...)
	}
	for name, to := range map[string]*[]byte{"GPUAAS_GIT_TOKEN": &spec.Auth.Token, "GPUAAS_GIT_SSH_KEY": &spec.Auth.SSHKey, "GPUAAS_GIT_KNOWN_HOSTS": &spec.Auth.KnownHosts} {
		text, err := secretref.FromEnv(getenv, name)
		if err != nil {
			return nil, err
		}
		*to = []byte(text)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for Git stores: %w", err)
	}
	return source.OpenStore(filepath.Join(dir, spec.Name), spec)
}
