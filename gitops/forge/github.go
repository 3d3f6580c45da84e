package forge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// github is the REST API of 2022-11-28: docs.github.com/rest, pages "pulls",
// "commits/statuses" and "issues/comments".
type github struct{ repo string }

func newGitHub(project string) dialect { return github{"/repos/" + project} }

func (g github) pulls(branch string, page int) string {
	return fmt.Sprintf("%s/pulls?state=open&base=%s&per_page=100&page=%d", g.repo, url.QueryEscape(branch), page)
}

func (github) readPulls(body []byte, branch string) ([]Pull, error) { return readPulls(body, branch) }

// What GitHub cuts a description at, by refusing it.
const gitHubText = 140

func (g github) status(commit string, s Status) (string, any) {
	return g.repo + "/statuses/" + url.PathEscape(commit), ofGitHub{s.State, line(s.Text, gitHubText), s.Context, s.URL}
}

// ofGitHub is a status in GitHub's format, which Gitea shares.
type ofGitHub struct {
	State       State  `json:"state"`
	Description string `json:"description"`
	Context     string `json:"context"`
	TargetURL   string `json:"target_url,omitempty"`
}

func (g github) comments(pull int) thread {
	return thread{all: fmt.Sprintf("%s/issues/%d/comments", g.repo, pull), item: g.repo + "/issues/comments/", edit: http.MethodPatch}
}

func (github) readComments(body []byte) ([]remoteComment, error) { return readComments(body) }

func (github) unchanged(*answer) bool { return false }

// readPulls reads what GitHub and Gitea both answer.
func readPulls(body []byte, branch string) (pulls []Pull, err error) {
	type side struct {
		Ref, SHA string
		Repo     *struct {
			FullName string `json:"full_name"`
		}
	}
	var list []struct {
		Number  int
		Title   string
		HTMLURL string `json:"html_url"`
		User    struct{ Login, Email string }
		Head    side
		Base    side
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading pull requests: %w", err)
	}
	for _, p := range list {
		// Gitea cannot filter by branch.
		if p.Base.Ref != branch || p.Head.SHA == "" {
			continue
		}
		pulls = append(pulls, Pull{
			Number: p.Number, Head: p.Head.SHA, Ref: fmt.Sprintf("refs/pull/%d/head", p.Number),
			Title: p.Title, Author: p.User.Login, AuthorEmail: p.User.Email, URL: p.HTMLURL,
			// A fork that was deleted has no repository any more.
			Fork: p.Head.Repo == nil || p.Base.Repo == nil || p.Head.Repo.FullName != p.Base.Repo.FullName,
		})
	}
	return pulls, nil
}

// readComments reads what GitHub and Gitea both answer.
func readComments(body []byte) (comments []remoteComment, err error) {
	var list []struct {
		ID   int64
		Body string
		User struct{ ID int64 }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading comments: %w", err)
	}
	for _, c := range list {
		if c.ID != 0 {
			comments = append(comments, remoteComment{ID: number(c.ID), Author: number(c.User.ID), Body: c.Body})
		}
	}
	return comments, nil
}
