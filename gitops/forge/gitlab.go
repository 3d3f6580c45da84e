package forge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitlab is the REST API v4: docs.gitlab.com/api, pages "merge_requests",
// "commits" (statuses) and "notes".
type gitlab struct{ project string }

func newGitLab(project string) dialect { return gitlab{"/projects/" + url.PathEscape(project)} }

func (g gitlab) pulls(branch string, page int) string {
	return fmt.Sprintf("%s/merge_requests?state=opened&target_branch=%s&per_page=100&page=%d", g.project, url.QueryEscape(branch), page)
}

func (gitlab) readPulls(body []byte, branch string) (pulls []Pull, err error) {
	var list []struct {
		IID          int
		Title        string
		SHA          string
		WebURL       string `json:"web_url"`
		TargetBranch string `json:"target_branch"`
		Source       int64  `json:"source_project_id"`
		Target       int64  `json:"target_project_id"`
		Author       struct{ Username string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading merge requests: %w", err)
	}
	for _, m := range list {
		// A merge request has no commit while its branch is deleted or being imported.
		if m.SHA == "" || m.TargetBranch != branch {
			continue
		}
		pulls = append(pulls, Pull{
			Number: m.IID, Head: m.SHA, Ref: fmt.Sprintf("refs/merge-requests/%d/head", m.IID),
			Title: m.Title, Author: m.Author.Username, URL: m.WebURL, Fork: m.Source != m.Target,
		})
	}
	return pulls, nil
}

// GitLab's values of the states. It has no error state apart from failed.
var gitLabStates = map[State]string{Pending: "pending", Success: "success", Failure: "failed", Errored: "failed"}

// What GitLab cuts descriptions and addresses at, by refusing them.
const gitLabText = 255

func (g gitlab) status(commit string, s Status) (string, any) {
	target := s.URL
	if len(target) > gitLabText {
		target = ""
	}
	return g.project + "/statuses/" + url.PathEscape(commit), struct {
		State       string `json:"state"`
		Description string `json:"description"`
		Context     string `json:"context"`
		TargetURL   string `json:"target_url,omitempty"`
	}{gitLabStates[s.State], line(s.Text, gitLabText), s.Context, target}
}

func (g gitlab) comments(pull int) thread {
	notes := fmt.Sprintf("%s/merge_requests/%d/notes", g.project, pull)
	return thread{all: notes, item: notes + "/", edit: http.MethodPut}
}

func (gitlab) readComments(body []byte) (comments []remoteComment, err error) {
	var list []struct {
		ID     int64
		Body   string
		System bool
		Author struct{ ID int64 }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading notes: %w", err)
	}
	for _, n := range list {
		if n.ID != 0 && !n.System {
			comments = append(comments, remoteComment{ID: number(n.ID), Author: number(n.Author.ID), Body: n.Body})
		}
	}
	return comments, nil
}

// unchanged recognises an unchanged status. GitLab before 18.4 rejects a status that has the same state already (gitlab-org/gitlab issue
// 556757). The older description stays.
func (gitlab) unchanged(a *answer) bool {
	return a.status == http.StatusBadRequest && strings.Contains(a.message, "Cannot transition status")
}
