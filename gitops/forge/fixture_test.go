package forge_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/dev/forge"
	gitopsforge "github.com/gpuaas/gpuaas/gitops/forge"
)

const token = "token-of-the-robot"

// fixture is a forge with a project, our adapter, and a person's checkout.
type fixture struct {
	*testing.T

	double *forge.Double
	forge  gitopsforge.Forge
	server *httptest.Server
	dir    string // the checkout
}

func project(kind gitopsforge.Kind) string {
	if kind == gitopsforge.GitLab {
		return "acme/infra/fleet"
	}
	return "acme/fleet"
}

func alone(t *testing.T, kind gitopsforge.Kind, change func(*forge.Config)) *fixture {
	t.Helper()
	w := &fixture{T: t, dir: t.TempDir()}
	cfg := forge.Config{Kind: string(kind), Dir: t.TempDir(), Project: project(kind), Token: token}
	if change != nil {
		change(&cfg)
	}
	double, err := forge.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.double, w.server = double, httptest.NewServer(double)
	t.Cleanup(w.server.Close)
	w.forge = w.client(kind, token)
	return w
}

// setup also has a first commit on main.
func setup(t *testing.T, kind gitopsforge.Kind, change func(*forge.Config)) *fixture {
	t.Helper()
	w := alone(t, kind, change)
	w.git("init", "--quiet", "--initial-branch", "main")
	w.git("remote", "add", "origin", w.double.Repository())
	w.push("main", "README.md", "a fleet")
	return w
}

func (w *fixture) client(kind gitopsforge.Kind, token string) gitopsforge.Forge {
	w.Helper()
	f, err := gitopsforge.New(gitopsforge.Config{Kind: kind, URL: w.server.URL, Project: project(kind), Token: []byte(token), AllowPrivate: true})
	if err != nil {
		w.Fatal(err)
	}
	return f
}

func (w *fixture) git(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "git", append([]string{"-C", w.dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits a file on a branch that begins at main, and pushes it.
func (w *fixture) push(branch, path, text string) (commit string) {
	w.Helper()
	if branch != "main" {
		w.git("checkout", "--quiet", "-B", branch)
	}
	if err := os.WriteFile(filepath.Join(w.dir, path), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	w.git("add", ".")
	w.git("commit", "--quiet", "-m", "write "+path)
	w.git("push", "--quiet", "--force", "origin", "HEAD:refs/heads/"+branch)
	commit = w.git("rev-parse", "HEAD")
	if branch != "main" {
		w.git("checkout", "--quiet", "main")
	}
	return commit
}

// pull opens a pull request with one commit of its own.
func (w *fixture) pull(name string) (number int, head string) {
	w.Helper()
	head = w.push(name, name+".yaml", name)
	number, err := w.double.Open(w.Context(), forge.Pull{From: name, Into: "main", Title: "Change " + name, Author: "ada"})
	if err != nil {
		w.Fatal(err)
	}
	return number, head
}

// eachForge runs a test against all three.
func eachForge(t *testing.T, test func(t *testing.T, kind gitopsforge.Kind)) {
	t.Helper()
	for _, kind := range gitopsforge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func many(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("change-%d", i)
	}
	return names
}

func faulty(status int, header, value string) forge.Fault {
	return forge.Fault{Status: status, Header: map[string]string{header: value}, Times: 1}
}
