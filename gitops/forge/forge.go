// Package forge is the client of GitHub, GitLab and Gitea: it lists open pull requests, sets commit
// statuses, and maintains our one comment on a pull request. It stores what a forge should display
// and what it was sent last (table forge_reports). It decides nothing about changes and does not
// trust the content of a webhook.
package forge

import (
	"context"
	"net/http"
	"strconv"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Kind is which API a forge speaks.
type Kind string

// The forges that are spoken to. Forgejo speaks as Gitea does.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Gitea  Kind = "gitea"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{GitHub, GitLab, Gitea} }

// Config is one repository at one forge.
type Config struct {
	Kind Kind
	// URL is the forge's own, or that of its API; empty means github.com or gitlab.com.
	URL string
	// Project is owner/name, on GitLab with all its groups.
	Project string
	// Token reads pull requests, writes statuses and comments. Never logged.
	Token []byte
	// WebhookSecret is the key that signs webhooks. Verify requires it.
	WebhookSecret []byte
	// AllowPrivate is for development: it permits a forge on the local machine and without TLS.
	AllowPrivate bool
	// Client is for tests; nil makes one that is bounded and follows nothing.
	Client *http.Client
}

// Forge is a repository as its forge knows it.
type Forge interface {
	// Open lists the open pull requests against a branch, newest first. Beyond a
	// thousand the oldest are left out.
	Open(ctx context.Context, branch string) ([]Pull, error)
	// Status sets one commit status. Setting it twice has no further effect.
	Status(ctx context.Context, commit string, s Status) error
	// Comment edits our comment, or makes it, and returns its id there.
	Comment(ctx context.Context, c Comment) (remoteID string, err error)
}

// Pull is an open pull request, on GitLab a merge request.
type Pull struct {
	Number int
	Head   string // its newest commit
	Ref    string // what to fetch from the repository to have that commit
	Title  string
	Author string // the name at the forge
	// AuthorEmail is empty if the forge does not return it. Then the commit's author is used.
	AuthorEmail string
	URL         string
	Fork        bool // the commits are of another repository
}

// State is the state of a commit status, with GitHub's values.
type State string

// The states of a status.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
	Errored State = "error"
)

// The contexts under which a commit shows what became of it.
const (
	ContextValidate = "gpuaas/validate"
	ContextPlan     = "gpuaas/plan"
	ContextPolicy   = "gpuaas/policy"
	ContextSync     = "gpuaas/sync"
	contextComment  = "comment"
)

// Status is one line about a commit.
type Status struct {
	Context string
	State   State
	Text    string
	URL     string
}

// Comment is our comment on a pull request.
type Comment struct {
	Pull int
	// RemoteID is of the comment that was made before, or empty.
	RemoteID string
	// Marker finds that comment again when its id was lost. It is written before
	// the body.
	Marker string
	Body   string
}

// Marker is invisible in the comment, and one for each source: two of them may
// follow the same repository.
func Marker(source string) string { return "<!-- gpuaas:plan:" + source + " -->" }

// dialect contains the differences between the three APIs.
type dialect interface {
	pulls(branch string, page int) (path string)
	readPulls(body []byte, branch string) ([]Pull, error)
	status(commit string, s Status) (path string, body any)
	comments(pull int) thread
	readComments(body []byte) ([]remoteComment, error)
	unchanged(err *answer) bool
}

// thread contains the paths of a pull request's comments: one path to list and create, and a prefix
// to edit.
type thread struct{ all, item, edit string }

// remoteComment is a comment by any user, as the forge returns it.
type remoteComment struct {
	ID     string
	Author string
	Body   string
}

// New returns the adapter of a repository. It makes no request.
func New(c Config) (Forge, error) {
	if len(c.Token) == 0 {
		return nil, errs.Invalid("tokenRef", "a forge needs a token").Try("refer to one by credential:NAME")
	}
	var speak func(project string) dialect
	var project bool
	switch c.Kind {
	case GitHub:
		speak, project = newGitHub, ownerAndName.MatchString(c.Project)
	case Gitea:
		speak, project = newGitea, ownerAndName.MatchString(c.Project)
	case GitLab:
		speak, project = newGitLab, groupsAndName.MatchString(c.Project)
	default:
		return nil, errs.Invalid("kind", "forge kind %q does not exist", c.Kind).Try("one of github, gitlab, gitea")
	}
	if !project {
		return nil, errs.Invalid("project", "%q is no project of %s", c.Project, c.Kind).Try("as in its address: owner/name")
	}
	base, err := address(c)
	if err != nil {
		return nil, err
	}
	return &client{dialect: speak(c.Project), base: base, header: credentials(c), http: bounded(c)}, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
