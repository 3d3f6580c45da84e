package backup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestConfigurationOfABackup: a server must not start with the configuration of the recovery, which trusts every user.
func TestConfigurationOfABackup(t *testing.T) {
	t.Parallel()
	for name, had := range map[string][]string{
		"in the data directory": {"pg_hba.conf", "pg_ident.conf", "postgresql.auto.conf", "postgresql.conf"},
		"as on Debian":          {"postgresql.auto.conf"},
	} {
		root := openRoot(t, filepath.Join(t.TempDir(), "data"))
		for _, file := range had {
			must(t, root.WriteFile(file, []byte("# of the backup\n"), 0o600))
		}
		must(t, setAside(root))
		must(t, root.Remove("recovery.signal"))
		missing, err := putBack(root.Name(), false)
		must(t, err)
		if missing != (len(had) == 1) {
			t.Errorf("%s: missing %v", name, missing)
		}
		entries, err := os.ReadDir(root.Name())
		must(t, err)
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
			if text, err := os.ReadFile(filepath.Join(root.Name(), e.Name())); string(text) != "# of the backup\n" {
				t.Errorf("%s: %s is %q, %v", name, e.Name(), text, err)
			}
		}
		if !slices.Equal(left, had) {
			t.Errorf("%s: %v, want %v", name, left, had)
		}
	}
}
