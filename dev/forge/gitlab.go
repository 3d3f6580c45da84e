package forge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"
)

func (d *Double) routesOfGitLab(base string) {
	project := base + "/projects/{project}"
	d.handle("GET "+base+"/user", func(c *call) reply { return reply{http.StatusOK, c.gitLabUser(c.cfg.Account), nil} })
	d.handle("GET "+project+"/merge_requests", inGitLabProject((*call).listMergeRequests))
	d.handle("POST "+project+"/statuses/{sha}", inGitLabProject((*call).setStatus))
	d.handle("GET "+project+"/merge_requests/{number}/notes", inGitLabProject((*call).listNotes))
	d.handle("POST "+project+"/merge_requests/{number}/notes", inGitLabProject((*call).createNote))
	d.handle("PUT "+project+"/merge_requests/{number}/notes/{id}", inGitLabProject((*call).editNote))
	d.handle("/", func(*call) reply { return gitLabMissing("") })
}

// inGitLabProject wants the project as one part of the path, its slashes escaped.
func inGitLabProject(do func(*call) reply) func(*call) reply {
	return func(c *call) reply {
		if c.r.PathValue("project") != c.cfg.Project {
			return gitLabMissing("Project ")
		}
		return do(c)
	}
}

func gitLabMissing(what string) reply {
	return reply{http.StatusNotFound, message("404 " + what + "Not Found"), nil}
}

// gitLabInvalid names fields with lists of sentences.
func gitLabInvalid(field, why string) reply {
	return reply{http.StatusBadRequest, map[string]any{"message": map[string]any{field: []string{why}}}, nil}
}

func (c *call) gitLabUser(login string) map[string]any {
	return map[string]any{"id": c.account(login), "username": login, "name": login}
}

func (c *call) listMergeRequests() reply {
	if err := c.refresh(c.ctx); err != nil {
		return reply{http.StatusInternalServerError, message(err.Error()), nil}
	}
	query := c.r.URL.Query()
	var list []any
	for _, p := range slices.Backward(c.pulls) {
		if into := query.Get("target_branch"); into != "" && into != p.Into || query.Get("state") == "opened" && p.closed {
			continue
		}
		own, from := int64(1), int64(1)
		if p.Fork {
			from = 2
		}
		list = append(list, map[string]any{
			"id": 1000 + p.Number, "iid": p.Number, "title": p.Title, "state": "opened", "author": c.gitLabUser(p.Author),
			"source_branch": p.From, "target_branch": p.Into, "source_project_id": from, "target_project_id": own,
			"sha": orNull(c.ref(c.ctx, c.pullRef(p.Number))), "web_url": fmt.Sprintf("https://forge.example/%s/-/merge_requests/%d", c.cfg.Project, p.Number),
		})
	}
	return c.page(list)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

const (
	mostGitLabText = 255
	mostNote       = 1_000_000
)

// setStatus knows GitLab's trap: a status that is pending cannot become pending.
func (c *call) setStatus() reply {
	sha := c.r.PathValue("sha")
	s := Status{c.body["context"], c.body["state"], c.body["description"], c.body["target_url"]}
	if name := c.body["name"]; s.Context == "" {
		s.Context = name
	}
	last := ""
	for _, before := range c.statuses[sha] {
		if before.Context == s.Context {
			last = before.State
		}
	}
	branch, err := c.git(c.ctx, "for-each-ref", "--contains", sha, "--format=%(refname)", "refs/heads")
	switch {
	case len(sha) != 40 || c.ref(c.ctx, sha) == "":
		return gitLabMissing("Commit ")
	case (err != nil || branch == "") && c.body["ref"] == "":
		return gitLabMissing("References for commit ")
	case !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, s.State):
		return reply{http.StatusBadRequest, map[string]any{"error": "state does not have a valid value"}, nil}
	case utf8.RuneCountInString(s.Text) > mostGitLabText:
		return gitLabInvalid("description", "is too long (maximum is 255 characters)")
	case utf8.RuneCountInString(s.URL) > mostGitLabText:
		return gitLabInvalid("target_url", "is too long (maximum is 255 characters)")
	case last == s.State && (last == "pending" || last == "running"):
		event := map[string]string{"pending": "enqueue", "running": "run"}[last]
		return reply{http.StatusBadRequest, message(fmt.Sprintf("Cannot transition status via :%s from :%s (Reason(s): Status cannot transition via %q)", event, last, event)), nil}
	}
	c.statuses[sha] = append(c.statuses[sha], s)
	return reply{http.StatusCreated, map[string]any{"id": c.id(), "sha": sha, "status": s.State, "name": s.Context, "description": s.Text, "target_url": s.URL}, nil}
}

func (c *call) listNotes() reply {
	p := c.find(c.r.PathValue("number"))
	if p == nil {
		return gitLabMissing("")
	}
	// GitLab mixes system notes with the comments of users.
	list := []any{map[string]any{"id": 900_000 + p.Number, "body": "changed the description", "system": true, "author": c.gitLabUser(p.Author)}}
	for _, one := range p.comments {
		list = append(list, c.asNote(one))
	}
	return c.page(list)
}

func (c *call) asNote(one *Comment) map[string]any {
	return map[string]any{"id": one.ID, "body": one.Body, "system": false, "author": c.gitLabUser(one.Author)}
}

func (c *call) createNote() reply {
	p := c.find(c.r.PathValue("number"))
	switch {
	case p == nil:
		return gitLabMissing("")
	case c.body["body"] == "":
		return reply{http.StatusBadRequest, map[string]any{"error": "body is missing"}, nil}
	case utf8.RuneCountInString(c.body["body"]) > mostNote:
		return gitLabInvalid("note", "is too long (maximum is 1000000 characters)")
	}
	return reply{http.StatusCreated, c.asNote(c.comment(p, c.cfg.Account, c.body["body"])), nil}
}

// editNote edits a user's own note only, as GitLab does.
func (c *call) editNote() reply {
	p := c.find(c.r.PathValue("number"))
	if p == nil {
		return gitLabMissing("")
	}
	for _, one := range p.comments {
		switch {
		case strconv.FormatInt(one.ID, 10) != c.r.PathValue("id"):
		case one.Author != c.cfg.Account:
			return reply{http.StatusForbidden, message("403 Forbidden"), nil}
		default:
			one.Body = c.body["body"]
			one.Edits++
			return reply{http.StatusOK, c.asNote(one), nil}
		}
	}
	return gitLabMissing("")
}
