package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newGetSources(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "sources", Aliases: []string{"source", "git-sources"}, Short: "The Git repositories that declare things, and how far each has come", Args: cobra.NoArgs,
	}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListGitSources(ctx, &oapi.ListGitSourcesParams{Limit: size, Cursor: cursor})
		}, nil
	}, sourceTable)
}

func (c *client) sources(ctx context.Context, limit int) (list[oapi.GitSource], error) {
	return readAll[oapi.GitSource](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListGitSources(ctx, &oapi.ListGitSourcesParams{Limit: size, Cursor: cursor})
	})
}

func (c *client) source(ctx context.Context, name string) (answer[oapi.GitSource], error) {
	return ask[oapi.GitSource](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetGitSource(ctx, name) })
}

func sourceTable(a *app, all ...oapi.GitSource) table {
	t := table{
		head: []string{"NAME", "READY", "STATUS", "REVISION", "COMMIT", "HEAD", "CHECKED", "MESSAGE"},
		wide: []string{"REPOSITORY", "REF", "FOLDERS", "DECLARED BY"},
	}
	for _, s := range all {
		ready, _ := condition(s.Conditions, "Ready")
		t.add("source/"+s.Name, s.Name, truth(ready.Status), sourceState(s), itoa(deref(s.Revision)), short(deref(s.AppliedCommit)), short(deref(s.Head)),
			ago(a.Clock.Now(), s.CheckedAt), cell(ready.Message), cell(s.Repository), cell(s.Ref), cell(strings.Join(s.Dirs, ",")), string(s.DeclaredBy))
	}
	return t
}

func sourceState(s oapi.GitSource) string {
	switch {
	case s.GoneAt != nil:
		return "no longer declared"
	case s.Suspended != nil:
		return "suspended"
	default:
		return "followed"
	}
}

// short is a commit as people say it.
func short(commit string) string { return orDash(commit[:min(10, len(commit))]) }

// recentRevisions of a source tell its story; more are in get revisions.
const recentRevisions = 5

func (a *app) describeSource(ctx context.Context, c *client, name string) error {
	found, err := c.source(ctx, strings.TrimPrefix(name, "source/"))
	if err != nil {
		return err
	}
	s := found.Value
	history, err := c.revisions(ctx, recentRevisions, oapi.ListRevisionsParams{Source: &s.Name})
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"Name", s.Name},
		{"Repository", cell(s.Repository)},
		{"Branch", cell(s.Ref)},
		{"Folders", cell(strings.Join(s.Dirs, ", "))},
		{"Declared by", string(s.DeclaredBy)},
		{"Forge", forgeOf(s.Forge)},
		{"Signatures", signaturesOf(s.Verify)},
		{"Head", short(deref(s.Head))},
		{"Stands on", strings.TrimSpace(short(deref(s.AppliedCommit)) + " " + revisionOf(s.Revision))},
		{"Looked at", stamp(deref(s.CheckedAt))},
		{"Fetched", stamp(deref(s.FetchedAt))},
		{"Suspended", suspensionOf(s.Suspended)},
		{"Gone since", stamp(deref(s.GoneAt))},
	}
	return a.describe("source/"+s.Name, map[string]json.RawMessage{"source": found.Raw, "revisions": history.Raw},
		section{facts: facts},
		section{title: "Conditions:", table: conditionTable(s.Conditions)},
		section{title: "Revisions:", table: revisionTable(a.Clock.Now(), history.Items)})
}

func forgeOf(f *oapi.ForgeInfo) string {
	if f == nil {
		return ""
	}
	return cell(string(f.Kind) + " " + f.Project + " at " + f.Url)
}

func signaturesOf(v oapi.VerifyInfo) string {
	if !v.Required {
		return "not asked for"
	}
	return "required, of " + count(v.Signers, "signer")
}

func revisionOf(n *int64) string {
	if n == nil {
		return ""
	}
	return "(revision " + itoa(*n) + ")"
}

func suspensionOf(s *oapi.Suspension) string {
	if s == nil {
		return ""
	}
	text := cell(s.Reason) + ", by " + cell(s.By) + " since " + stamp(s.At)
	return text + cmp.Or(map[bool]string{true: ", until somebody resumes it"}[s.Until == nil], ", until "+until(s.Until))
}
