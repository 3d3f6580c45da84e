package forge

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind    Kind
		url     string
		private bool
		want    string // empty: rejected
	}{
		{GitHub, "", false, "https://api.github.com"},
		{GitHub, "https://github.com/", false, "https://api.github.com"},
		{GitHub, "https://api.github.com", false, "https://api.github.com"},
		{GitHub, "https://ghe.example.com", false, "https://ghe.example.com/api/v3"},
		{GitHub, "https://ghe.example.com/api/v3/", false, "https://ghe.example.com/api/v3"},
		{GitLab, "", false, "https://gitlab.com/api/v4"},
		{GitLab, "https://git.example.com/gitlab", false, "https://git.example.com/gitlab/api/v4"},
		{Gitea, "https://git.example.com", false, "https://git.example.com/api/v1"},
		{Gitea, "", false, ""},
		{Gitea, "http://git.example.com", false, ""},
		{Gitea, "http://127.0.0.1:3000", true, "http://127.0.0.1:3000/api/v1"},
		{Gitea, "ftp://git.example.com", true, ""},
		{Gitea, "file:///etc/passwd", true, ""},
		{Gitea, "https://user:password@git.example.com", false, ""},
		{Gitea, "https://git.example.com?x=1", false, ""},
		{Gitea, "https://git.example.com#x", false, ""},
		{Gitea, "git.example.com", false, ""},
		{Gitea, "https://", false, ""},
		{Gitea, "https://git.example.com\r\nX: y", false, ""},
	} {
		got, err := address(Config{Kind: c.kind, URL: c.url, AllowPrivate: c.private})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: %q, %v, want %q", c.kind, c.url, got, err, c.want)
		}
	}
}

func TestOddConfigurationsAreRejected(t *testing.T) {
	t.Parallel()
	good := Config{Kind: GitHub, Project: "acme/fleet", Token: []byte("t")}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for field, changes := range map[string][]func(*Config){
		"tokenRef": {func(c *Config) { c.Token = nil }},
		"kind":     {func(c *Config) { c.Kind = "" }, func(c *Config) { c.Kind = "bitbucket" }},
		"project": {
			func(c *Config) { c.Project = "" },
			func(c *Config) { c.Project = "fleet" },
			func(c *Config) { c.Project = "acme/fleet/" },
			func(c *Config) { c.Project = "acme/../fleet" },
			func(c *Config) { c.Project = "acme/.." },
			func(c *Config) { c.Project = "a/b/c" },
			func(c *Config) { c.Project = "acme/fl eet" },
			func(c *Config) { c.Project = "acme/fleet?x" },
			func(c *Config) { c.Project = "acme%2ffleet/x" },
			func(c *Config) { c.Kind, c.Project = GitLab, "acme//fleet" },
			func(c *Config) { c.Kind, c.Project = GitLab, "fleet" },
		},
	} {
		for i, change := range changes {
			c := good
			change(&c)
			_, err := New(c)
			if errs.CodeOf(err) != errs.ValidationError || !strings.HasPrefix(err.Error(), field+": ") {
				t.Errorf("%s %d: %v", field, i, err)
			}
		}
	}
}

// TestNamesThatLeadInwards checks that the resolved address decides, not the name.
func TestNamesThatLeadInwards(t *testing.T) {
	t.Parallel()
	for at, allowed := range map[string]bool{
		"140.82.112.5:443": true, "10.1.2.3:443": true, "192.168.7.7:3000": true, "[2606:50c0:8000::64]:443": true,
		"127.0.0.1:80": false, "127.8.8.8:80": false, "[::1]:80": false, "[::ffff:127.0.0.1]:80": false, "0.0.0.0:80": false, "[::]:80": false,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[::ffff:169.254.169.254]:80": false, "[fd00:ec2::254]:80": false,
		"100.100.100.200:80": false, "168.63.129.16:80": false, "224.0.0.1:80": false, "/run/docker.sock": false, "": false,
	} {
		if err := public("tcp", at, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", at, err)
		}
	}
	f, err := New(Config{Kind: Gitea, URL: "https://localhost:1", Project: "acme/fleet", Token: []byte("t")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(t.Context(), "main"); err == nil || !strings.Contains(err.Error(), "not an allowed address") {
		t.Errorf("a name that leads here: %v", err)
	}
}
