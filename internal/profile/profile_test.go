package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/profile"
)

func setup(t *testing.T) profile.Store {
	t.Helper()
	return profile.Store{Path: filepath.Join(t.TempDir(), "new", "config.yaml")}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := setup(t)

	dev := profile.Profile{URL: "http://127.0.0.1:8080", Token: "gpk_x", Project: "default", DataDir: "/d", InternalURL: "i", RiverURL: "r", MetricsURL: "m", CA: "ca.pem"}
	for name, p := range map[string]profile.Profile{"dev": dev, "other": {URL: "https://gpu.example"}} {
		if err := s.Write(name, p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]profile.Profile{"dev": dev, "other": {URL: "https://gpu.example"}}, got.Profiles); diff != "" {
		t.Error(diff)
	}
	if got.Current != "dev" && got.Current != "other" {
		t.Errorf("current is %q, want the last one written", got.Current)
	}
	if s.Exposed() {
		t.Error("others can read the tokens")
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Path), ".config-*"))
	if len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestMissingFileSaysNothing(t *testing.T) {
	t.Parallel()
	f, err := setup(t).Read()
	if err != nil || f.Current != "" || len(f.Profiles) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// Two `up` at once, each with its own name: neither profile is lost.
func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			if err := s.Write(name, profile.Profile{URL: "http://" + name}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f, err := s.Read(); err != nil || len(f.Profiles) != 6 {
		t.Errorf("%d profiles are left, %v", len(f.Profiles), err)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":            {"current: dev\nprofile: {}\n", `:2: unknown key "profile" in the file; the keys are current, profiles`},
		"unknown key of profile": {"profiles:\n  dev:\n    url: x\n    tokn: y\n", `:4: unknown key "tokn" in profile dev; the keys are url, token,`},
		"profile is no mapping":  {"profiles:\n  dev: http://x\n", `:2: profile dev must be a mapping`},
		"not a mapping":          {"- a\n", `:1: the file must be a mapping`},
		"wrong type":             {"profiles:\n  dev:\n    url: [a]\n", `line 3: cannot unmarshal`},
		"not YAML":               {"a: [\n", `did not find`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := profile.Store{Path: filepath.Join(t.TempDir(), "config.yaml")}
			if err := os.WriteFile(s.Path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.Read()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), s.Path) || errs.CodeOf(err) != errs.ValidationError {
				t.Errorf("%v, want %s", err, c.want)
			}
			// A file that cannot be parsed is not overwritten either.
			if err := s.Write("dev", profile.Profile{}); err == nil {
				t.Error("wrote over a file that could not be read")
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"own folder first":        {map[string]string{"GPUAAS_CONFIG_DIR": "/a", "XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/a/config.yaml"},
		"then XDG":                {map[string]string{"XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/b/gpuaas/config.yaml"},
		"relative XDG is ignored": {map[string]string{"XDG_CONFIG_HOME": "b", "HOME": "/c"}, "/c/.config/gpuaas/config.yaml"},
		"then home":               {map[string]string{"HOME": "/c"}, "/c/.config/gpuaas/config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := profile.Find(func(k string) string { return c.env[k] })
			if err != nil || s.Path != c.want {
				t.Errorf("%s, %v; want %s", s.Path, err, c.want)
			}
		})
	}
	if _, err := profile.Find(func(string) string { return "" }); err == nil {
		t.Error("no home, but no error")
	}
}
