package forge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// routesOfGitHub also contains Gitea's routes, which have GitHub's formats. The kind decides where
// they differ.
func (d *Double) routesOfGitHub(base string) {
	repo := base + "/repos/{owner}/{repo}"
	d.handle("GET "+base+"/user", func(c *call) reply { return reply{http.StatusOK, c.user(c.cfg.Account), nil} })
	d.handle("GET "+repo+"/pulls", inProject((*call).listPulls))
	d.handle("POST "+repo+"/statuses/{sha}", inProject((*call).createStatus))
	d.handle("GET "+repo+"/issues/{number}/comments", inProject((*call).listComments))
	d.handle("POST "+repo+"/issues/{number}/comments", inProject((*call).createComment))
	d.handle("PATCH "+repo+"/issues/comments/{id}", inProject((*call).editComment))
	d.handle("/", func(c *call) reply { return notFound() })
}

func inProject(do func(*call) reply) func(*call) reply {
	return func(c *call) reply {
		if c.r.PathValue("owner")+"/"+c.r.PathValue("repo") != c.cfg.Project {
			return notFound() // one that exists and is hidden answers the same
		}
		return do(c)
	}
}

func notFound() reply { return reply{http.StatusNotFound, message("Not Found"), nil} }

// invalid is the answer to a field that does not fit.
func (d *Double) invalid(resource, field, why string) reply {
	body := message("Validation Failed")
	body["errors"] = []map[string]string{{"resource": resource, "code": "custom", "field": field, "message": why}}
	return reply{http.StatusUnprocessableEntity, body, nil}
}

func (c *call) user(login string) map[string]any {
	u := map[string]any{"id": c.account(login), "login": login}
	if c.cfg.Kind == Gitea {
		u["email"] = login + "@noreply.example.com"
	}
	return u
}

func (c *call) listPulls() reply {
	if err := c.refresh(c.ctx); err != nil {
		return reply{http.StatusInternalServerError, message(err.Error()), nil}
	}
	query := c.r.URL.Query()
	var list []any
	for _, p := range slices.Backward(c.pulls) {
		// Gitea cannot filter by base branch.
		if base := query.Get("base"); c.cfg.Kind == GitHub && base != "" && base != p.Into {
			continue
		}
		if state := query.Get("state"); state != "all" && p.closed != (state == "closed") {
			continue
		}
		list = append(list, c.asGitHub(p))
	}
	return c.page(list)
}

func (c *call) asGitHub(p *pull) map[string]any {
	own := map[string]any{"full_name": c.cfg.Project, "fork": false}
	from, branch := any(own), p.From
	if p.Fork {
		from, branch = map[string]any{"full_name": p.Author + "/fork", "fork": true}, "patch"
	}
	return map[string]any{
		"number": p.Number, "title": p.Title, "state": "open", "user": c.user(p.Author),
		"html_url": fmt.Sprintf("https://forge.example/%s/pull/%d", c.cfg.Project, p.Number),
		"head":     map[string]any{"ref": branch, "sha": c.ref(c.ctx, c.pullRef(p.Number)), "repo": from},
		"base":     map[string]any{"ref": p.Into, "sha": c.ref(c.ctx, "refs/heads/"+p.Into), "repo": own},
	}
}

// page returns one page of a list, with the next page in the Link header.
func (c *call) page(list []any) reply {
	most, asked := 100, "per_page"
	if c.cfg.Kind == Gitea {
		most, asked = 50, "limit"
	}
	size := 30
	if n, err := strconv.Atoi(c.r.URL.Query().Get(asked)); err == nil && n > 0 {
		size = min(n, most)
	}
	if c.cfg.PageSize > 0 {
		size = min(size, c.cfg.PageSize)
	}
	number, err := strconv.Atoi(c.r.URL.Query().Get("page"))
	if err != nil || number < 1 {
		number = 1
	}
	from := min((number-1)*size, len(list))
	to := min(from+size, len(list))
	out := reply{http.StatusOK, append([]any{}, list[from:to]...), map[string]string{"X-Total-Count": strconv.Itoa(len(list))}}
	if to < len(list) {
		next := *c.r.URL
		query := next.Query()
		query.Set("page", strconv.Itoa(number+1))
		next.RawQuery = query.Encode()
		out.header["Link"] = fmt.Sprintf(`<http://%s%s>; rel="next", <http://%s%s>; rel="first"`, c.r.Host, next.RequestURI(), c.r.Host, c.r.URL.RequestURI())
	}
	return out
}

// GitHub's limits: statuses of one context for a commit, length of a description, length of a
// comment.
const (
	mostStatuses     = 1000
	mostDescription  = 140
	mostComment      = 65536
	mostGiteaContext = 255
)

func (c *call) createStatus() reply {
	sha, s := c.r.PathValue("sha"), Status{c.body["context"], c.body["state"], c.body["description"], c.body["target_url"]}
	states := []string{"pending", "success", "failure", "error"}
	said := 0
	for _, before := range c.statuses[sha] {
		if before.Context == s.Context {
			said++
		}
	}
	switch {
	case len(sha) != 40 || c.ref(c.ctx, sha) == "":
		if c.cfg.Kind == Gitea {
			return notFound()
		}
		return reply{http.StatusUnprocessableEntity, message("No commit found for SHA: " + sha), nil}
	case !slices.Contains(states, s.State) && (c.cfg.Kind != Gitea || s.State != "warning"):
		return c.invalid("Status", "state", "state is not included in the list")
	case c.cfg.Kind == GitHub && utf8.RuneCountInString(s.Text) > mostDescription:
		return c.invalid("Status", "description", "description is too long (maximum is 140 characters)")
	case c.cfg.Kind == GitHub && s.URL != "" && !strings.HasPrefix(s.URL, "http"):
		return c.invalid("Status", "target_url", "target_url must use http(s) scheme")
	case c.cfg.Kind == GitHub && said >= mostStatuses:
		return c.invalid("Status", "context", "This SHA and context has reached the maximum number of statuses.")
	case c.cfg.Kind == Gitea && len(s.Context) > mostGiteaContext:
		return reply{http.StatusUnprocessableEntity, message("[]: Context is too long"), nil}
	}
	c.statuses[sha] = append(c.statuses[sha], s)
	return reply{http.StatusCreated, map[string]any{"id": c.id(), "state": s.State, "context": s.Context, "description": s.Text, "target_url": s.URL, "creator": c.user(c.cfg.Account)}, nil}
}

func (c *call) listComments() reply {
	p := c.find(c.r.PathValue("number"))
	if p == nil {
		return notFound()
	}
	var list []any
	for _, one := range p.comments {
		list = append(list, c.asComment(one))
	}
	if c.cfg.Kind == Gitea { // it has no pages of comments
		return reply{http.StatusOK, append([]any{}, list...), nil}
	}
	return c.page(list)
}

func (c *call) asComment(one *Comment) map[string]any {
	return map[string]any{"id": one.ID, "body": one.Body, "user": c.user(one.Author)}
}

func (c *call) createComment() reply {
	p := c.find(c.r.PathValue("number"))
	switch {
	case p == nil:
		return notFound()
	case c.body["body"] == "":
		return c.invalid("IssueComment", "body", "body cannot be blank")
	case utf8.RuneCountInString(c.body["body"]) > mostComment:
		return c.invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)")
	}
	return reply{http.StatusCreated, c.asComment(c.comment(p, c.cfg.Account, c.body["body"])), nil}
}

// editComment edits a comment of any author, as every writer of a project may on GitHub.
func (c *call) editComment() reply {
	for _, p := range c.pulls {
		for _, one := range p.comments {
			if strconv.FormatInt(one.ID, 10) != c.r.PathValue("id") {
				continue
			}
			if utf8.RuneCountInString(c.body["body"]) > mostComment {
				return c.invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)")
			}
			one.Body = c.body["body"]
			one.Edits++
			return reply{http.StatusOK, c.asComment(one), nil}
		}
	}
	return notFound()
}
