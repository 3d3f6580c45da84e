package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi" //nolint:gosec // G504 is about Go before 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The person that merges are made by.
const merger = "Forge <forge@example.com>"

// git runs a command in the bare repository without the user's Git configuration.
func (d *Double) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", d.repo}, args...)...) //nolint:gosec // a test's own words
	cmd.Env = environment(d.cfg.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func environment(home string) []string {
	name, email, _ := strings.Cut(strings.TrimSuffix(merger, ">"), " <")
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
	}
}

func (d *Double) initRepository(ctx context.Context) error {
	if err := os.MkdirAll(d.repo, 0o700); err != nil {
		return fmt.Errorf("making the repository's folder: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch", "main"},
		{"config", "http.receivepack", "true"},
		{"config", "uploadpack.allowAnySHA1InWant", "true"}, // as the three forges do
	} {
		if _, err := d.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// ref returns the commit of a name, or "".
func (d *Double) ref(ctx context.Context, name string) string {
	commit, err := d.git(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if err != nil {
		return ""
	}
	return commit
}

// refresh has each pull request's ref follow its branch, as the forges do after
// every push.
func (d *Double) refresh(ctx context.Context) error {
	for _, p := range d.pulls {
		head := d.ref(ctx, "refs/heads/"+p.From)
		if p.Fork || p.merged || head == "" {
			continue
		}
		if _, err := d.git(ctx, "update-ref", d.pullRef(p.Number), head); err != nil {
			return err
		}
	}
	return nil
}

func (d *Double) pullRef(number int) string {
	if d.cfg.Kind == GitLab {
		return fmt.Sprintf("refs/merge-requests/%d/head", number)
	}
	return fmt.Sprintf("refs/pull/%d/head", number)
}

// serveGit is the smart protocol over HTTP, by git's own server. The token is the
// password, whatever the name. After a push the hooks go out.
func (d *Double) serveGit(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != d.cfg.Token {
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	d.mu.Lock()
	fault := d.fault(r)
	before := d.branches(r.Context())
	err := d.refresh(r.Context())
	d.mu.Unlock()
	switch {
	case fault != nil:
		http.Error(w, fault.Body, fault.Status)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	path, err := exec.LookPath("git")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	(&cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Root: "/",
		Env: append(environment(d.cfg.Dir), "GIT_PROJECT_ROOT="+d.cfg.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER="+d.cfg.Account, "GIT_PROTOCOL="+r.Header.Get("Git-Protocol")),
	}).ServeHTTP(w, r)
	if filepath.Base(r.URL.Path) == "git-receive-pack" && r.Method == http.MethodPost {
		d.pushed(context.WithoutCancel(r.Context()), before)
	}
}

// branches are the commits of all branches.
func (d *Double) branches(ctx context.Context) map[string]string {
	text, err := d.git(ctx, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads")
	if err != nil {
		return nil
	}
	at := map[string]string{}
	for l := range strings.Lines(text) {
		name, commit, _ := strings.Cut(strings.TrimSpace(l), " ")
		at[name] = commit
	}
	return at
}
