// Package forge is the development double of GitHub, GitLab and Gitea. It serves one project with a
// real bare repository: pull requests, statuses, comments and webhooks. It follows the published
// documentation of each forge, limits and error responses included.
package forge

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// The forges that are played.
const (
	GitHub = "github"
	GitLab = "gitlab"
	Gitea  = "gitea"
)

// Config is the initial content of the forge.
type Config struct {
	Kind    string
	Dir     string // the bare repository is made below it
	Project string // owner/name, on GitLab with groups
	Token   string // of the account below; it may do everything in the project
	Account string // the login that the token is of; empty: gpuaas-bot
	// Hooks go there, signed with the secret. Empty: nowhere.
	HookURL, HookSecret string
	// PageSize makes pages shorter than requested. 0 means the page size of the real forge.
	PageSize int
}

// Double is one forge with one project.
type Double struct {
	cfg     Config
	repo    string
	mux     *http.ServeMux
	handler http.Handler

	mu       sync.Mutex
	lastID   int64
	accounts []string // by id
	pulls    []*pull
	statuses map[string][]Status // by commit, sorted by arrival
	faults   []*Fault
	calls    []Call
	hooks    []Delivery
}

// Status is a commit status in the values of the simulated forge.
type Status struct{ Context, State, Text, URL string }

// Comment is a comment on a pull request.
type Comment struct {
	ID     int64
	Author string
	Body   string
	Edits  int
}

// Call is a request to the API, and what was answered.
type Call struct {
	Method, Path string
	Status       int
}

// Fault is an injected error. Matching requests get it as the response, as often as configured.
type Fault struct {
	Method, Path string // of the path a part; empty fits all
	Status       int
	Header       map[string]string
	Body         string
	Times        int
	// Done executes the request before it fails, as if only the response were lost.
	Done bool
}

// New makes a forge with an empty repository whose first branch is main.
func New(ctx context.Context, cfg Config) (*Double, error) {
	if cfg.Account == "" {
		cfg.Account = "gpuaas-bot"
	}
	d := &Double{cfg: cfg, mux: http.NewServeMux(), statuses: map[string][]Status{}}
	d.handler = telemetry.Traced("forge", d.mux)
	d.repo = filepath.Join(cfg.Dir, filepath.FromSlash(cfg.Project)+".git")
	if err := d.initRepository(ctx); err != nil {
		return nil, err
	}
	d.account(cfg.Account)
	switch cfg.Kind {
	case GitHub:
		d.routesOfGitHub("/api/v3")
	case Gitea:
		d.routesOfGitHub("/api/v1")
	case GitLab:
		d.routesOfGitLab("/api/v4")
	default:
		return nil, fmt.Errorf("no forge is played as %q", cfg.Kind)
	}
	d.mux.HandleFunc("/"+cfg.Project+".git/", d.serveGit)
	return d, nil
}

// Repository returns the path of the bare repository.
func (d *Double) Repository() string { return d.repo }

func (d *Double) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// account returns the id of a login. Every login that is named exists.
func (d *Double) account(login string) int64 {
	if i := slices.Index(d.accounts, login); i >= 0 {
		return int64(i) + 1
	}
	d.accounts = append(d.accounts, login)
	return int64(len(d.accounts))
}

func (d *Double) id() int64 {
	d.lastID++
	return d.lastID
}

// InjectFault adds a fault for a later request.
func (d *Double) InjectFault(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Calls returns the API calls since the last call of Calls.
func (d *Double) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// call is one request to the API, under the lock.
type call struct {
	*Double

	ctx  context.Context
	r    *http.Request
	body map[string]string
}

// reply is an HTTP response.
type reply struct {
	status int
	body   any
	header map[string]string
}

// maxBody exceeds every forge's limit of a comment.
const maxBody = 2 << 20

// handle has a route of the API: bad moments first, then the token, then what is
// done there.
func (d *Double) handle(pattern string, do func(*call) reply) {
	d.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		out := d.answer(r, do)
		for name, value := range out.header {
			w.Header().Set(name, value)
		}
		d.calls = append(d.calls, Call{r.Method, r.URL.EscapedPath(), out.status})
		if text, ok := out.body.(string); ok {
			w.WriteHeader(out.status)
			_, _ = io.WriteString(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(out.status)
		_ = json.NewEncoder(w).Encode(out.body)
	})
}

func (d *Double) answer(r *http.Request, do func(*call) reply) reply {
	fault := d.fault(r)
	if fault != nil && !fault.Done {
		return reply{fault.Status, fault.Body, fault.Header}
	}
	if !d.authorised(r.Header) {
		return d.unknown()
	}
	c := &call{Double: d, ctx: r.Context(), r: r, body: map[string]string{}}
	if r.Method != http.MethodGet {
		text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil || json.Unmarshal(text, &c.body) != nil {
			return reply{http.StatusBadRequest, message("Problems parsing JSON"), nil}
		}
	}
	out := do(c)
	if fault != nil {
		return reply{fault.Status, fault.Body, fault.Header}
	}
	return out
}

func (d *Double) fault(r *http.Request) *Fault {
	for i, f := range d.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.EscapedPath(), f.Path) {
			continue
		}
		if f.Times--; f.Times <= 0 {
			d.faults = slices.Delete(d.faults, i, i+1)
		}
		return f
	}
	return nil
}

// authorised compares the token, given as the forge wants it.
func (d *Double) authorised(h http.Header) bool {
	given, want := h.Get("Authorization"), "Bearer "+d.cfg.Token
	switch d.cfg.Kind {
	case GitLab:
		given, want = h.Get("Private-Token"), d.cfg.Token
	case Gitea:
		want = "token " + d.cfg.Token
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

func (d *Double) unknown() reply {
	text := map[string]string{GitHub: "Bad credentials", GitLab: "401 Unauthorized", Gitea: "invalid username, password or token"}[d.cfg.Kind]
	return reply{http.StatusUnauthorized, message(text), nil}
}

func message(text string) map[string]any { return map[string]any{"message": text} }
