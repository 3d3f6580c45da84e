package change

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGetSources(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "sources", Aliases: []string{"source", "git-sources"}, Short: "List Git sources", Args: cobra.NoArgs,
	}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListGitSources(ctx, &oapi.ListGitSourcesParams{Limit: size, Cursor: cursor})
		}, nil
	}, SourceTable)
}

func SourceTable(a *output.Console, all ...oapi.GitSource) output.Table {
	t := output.Table{
		Head: []string{"NAME", "READY", "STATUS", "REVISION", "COMMIT", "HEAD", "CHECKED", "MESSAGE"},
		Wide: []string{"REPOSITORY", "REF", "FOLDERS", "CONFIGURED BY"},
	}
	for _, s := range all {
		ready, _ := output.Condition(s.Conditions, "Ready")
		t.Add("source/"+s.Name, s.Name, output.ConditionSymbol(ready.Status), sourceState(s), output.Itoa(output.ValueOrZero(s.Revision)), short(output.ValueOrZero(s.AppliedCommit)), short(output.ValueOrZero(s.Head)),
			output.Ago(a.Clock.Now(), s.CheckedAt), output.CellText(ready.Message), output.CellText(s.Repository), output.CellText(s.Ref), output.CellText(strings.Join(s.Dirs, ",")), string(s.DeclaredBy))
	}
	return t
}

func sourceState(s oapi.GitSource) string {
	switch {
	case s.GoneAt != nil:
		return "no longer configured"
	case s.Suspended != nil:
		return "suspended"
	default:
		return "followed"
	}
}

// short abbreviates a commit hash.
func short(commit string) string { return output.OrDash(commit[:min(10, len(commit))]) }

// recentRevisions limits the revisions of a source; get revisions lists more.
const recentRevisions = 5

func DescribeSource(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	found, err := c.Source(ctx, strings.TrimPrefix(name, "source/"))
	if err != nil {
		return err
	}
	s := found.Value
	history, err := revisions(ctx, c, recentRevisions, oapi.ListRevisionsParams{Source: &s.Name})
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"Name", s.Name},
		{"Repository", output.CellText(s.Repository)},
		{"Branch", output.CellText(s.Ref)},
		{"Folders", output.CellText(strings.Join(s.Dirs, ", "))},
		{"Configured", string(s.DeclaredBy)},
		{"Forge", forgeOf(s.Forge)},
		{"Signatures", signaturesOf(s.Verify)},
		{"Head", short(output.ValueOrZero(s.Head))},
		{"Applied", strings.TrimSpace(short(output.ValueOrZero(s.AppliedCommit)) + " " + revisionOf(s.Revision))},
		{"Last fetch", output.FormatTime(output.ValueOrZero(s.CheckedAt))},
		{"Fetched", output.FormatTime(output.ValueOrZero(s.FetchedAt))},
		{"Suspended", SuspensionOf(s.Suspended)},
		{"Removed at", output.FormatTime(output.ValueOrZero(s.GoneAt))},
	}
	return a.Describe("source/"+s.Name, map[string]json.RawMessage{"source": found.Raw, "revisions": history.Raw},
		output.Section{Fields: facts},
		output.Section{Title: "Conditions:", Table: output.ConditionTable(s.Conditions)},
		output.Section{Title: "Revisions:", Table: RevisionTable(a.Clock.Now(), history.Items)})
}

func forgeOf(f *oapi.ForgeInfo) string {
	if f == nil {
		return ""
	}
	return output.CellText(string(f.Kind) + " " + f.Project + " at " + f.Url)
}

func signaturesOf(v oapi.VerifyInfo) string {
	if !v.Required {
		return "not requested"
	}
	return "required, of " + output.CountOf(v.Signers, "signer")
}

func revisionOf(n *int64) string {
	if n == nil {
		return ""
	}
	return "(revision " + output.Itoa(*n) + ")"
}

func SuspensionOf(s *oapi.Suspension) string {
	if s == nil {
		return ""
	}
	text := output.CellText(s.Reason) + ", by " + output.CellText(s.By) + " since " + output.FormatTime(s.SuspendedAt)
	return text + cmp.Or(map[bool]string{true: ", until it is resumed"}[s.Until == nil], ", until "+output.ExpiryText(s.Until))
}
