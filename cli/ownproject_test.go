package cli

import (
	"testing"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// A service account acts in its own project. The project of the profile belongs to the user, and
// the server would deny it.
func TestAProgramLeavesTheProfilesProject(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	env := map[string]string{"XDG_CONFIG_HOME": dir, "GPUAAS_CONFIG_DIR": dir}
	a := &output.Console{Env: func(name string) string { return env[name] }}
	store, err := profile.Find(a.Env)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Edit(func(f *profile.File) error {
		f.Current, f.Profiles = "p", map[string]profile.Profile{"p": {URL: "http://127.0.0.1:1", Token: "gpk_x", Project: "default"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"": "default", "gpk_y": "default", "gps_z": ""} {
		env["GPUAAS_TOKEN"] = token
		if s, err := client.ReadSettings(a); err != nil || s.Project != want {
			t.Errorf("%q: project %q, want %q, %v", token, s.Project, want, err)
		}
	}
}
