package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGetRevisions(a *output.Console) *cobra.Command {
	limit := 20
	var source, status string
	cmd := &cobra.Command{
		Use: "revisions", Aliases: []string{"revision"}, Short: "List revisions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := revisions(cmd.Context(), c, limit, oapi.ListRevisionsParams{Source: output.PointerOrNil(source), Status: output.PointerOrNil(oapi.ListRevisionsParamsStatus(status))})
			if err != nil {
				return err
			}
			a.NotifyMore(limit, all.More)
			return a.Show(all.Raw, RevisionTable(a.Clock.Now(), all.Items))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.Flags().StringVar(&source, "source", "", "only of this source")
	cmd.Flags().StringVar(&status, "status", "", "only in this state: applied, invalid, waiting_approval, rejected")
	return cmd
}

func revisions(ctx context.Context, c *client.Client, limit int, which oapi.ListRevisionsParams) (client.List[oapi.Revision], error) {
	return client.ReadAll[oapi.Revision](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		which.Limit, which.Cursor = size, cursor
		return c.ListRevisions(ctx, &which)
	})
}

func RevisionTable(now time.Time, all []oapi.Revision) output.Table {
	t := output.Table{
		Head: []string{"REVISION", "CURRENT", "STATUS", "SOURCE", "COMMIT", "OBJECTS", "CHANGES", "AGE", "MESSAGE"},
		Wide: []string{"AUTHOR", "SIGNER", "COMMIT MESSAGE"},
	}
	for _, r := range all {
		current := "-"
		if r.Current {
			current = output.SymbolGood + " yes"
		}
		number := output.Itoa(r.Revision)
		t.Add("revision/"+number, number, current, string(r.Status), r.Source, short(r.Commit),
			strconv.Itoa(r.Objects), fmt.Sprintf("+%d ~%d -%d", r.Created, r.Changed, r.Deleted), output.Age(now, r.CreatedAt), output.CellText(VerdictOf(r)),
			output.CellText(output.ValueOrZero(r.Author)), output.CellText(output.ValueOrZero(r.Signer)), output.CellText(output.ValueOrZero(r.Message)))
	}
	return t
}

// VerdictOf returns why a revision is not applied: its first finding, or its first wait.
func VerdictOf(r oapi.Revision) string {
	text, more := "", 0
	switch waits := output.ValueOrZero(r.ApprovalReasons); {
	case len(r.Findings) > 0:
		text, more = findingText(r.Findings[0]), len(r.Findings)-1
	case len(waits) > 0 && (r.Status == oapi.RevisionStatusWaitingApproval || r.Status == oapi.RevisionStatusPlanned):
		text, more = waits[0].Message, len(waits)-1
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func findingText(f oapi.Finding) string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Message)
}

func Revision(ctx context.Context, c *client.Client, name string) (client.Response[oapi.Revision], error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n < 1 {
		f := output.UsageError("%q is no number of a revision", name)
		f.Try = "gpuaas get revisions"
		return client.Response[oapi.Revision]{}, f
	}
	return client.Send[oapi.Revision](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetRevision(ctx, n) })
}

func DescribeRevision(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	_, name, _ = cutLast(name)
	found, err := Revision(ctx, c, name)
	if err != nil {
		return err
	}
	r := found.Value
	facts := [][2]string{
		{"Revision", output.Itoa(r.Revision)},
		{"Status", string(r.Status)},
		{"Current", strconv.FormatBool(r.Current)},
		{"Source", r.Source},
		{"Repository", output.CellText(output.ValueOrZero(r.Repository))},
		{"Commit", r.Commit},
		{"Before", output.ValueOrZero(r.Parent)},
		{"Author", output.CellText(output.ValueOrZero(r.Author))},
		{"Signer", output.CellText(output.ValueOrZero(r.Signer))},
		{"Message", output.CellText(output.ValueOrZero(r.Message))},
		{"Committed", output.FormatTime(output.ValueOrZero(r.CommittedAt))},
		{"Seen", output.FormatTime(r.CreatedAt)},
		{"Objects", fmt.Sprintf("%d: %d created, %d changed, %d deleted, %d adopted", r.Objects, r.Created, r.Changed, r.Deleted, output.ValueOrZero(r.Adopted))},
	}
	if r.PlanId != nil {
		facts = append(facts, [2]string{"Plan", "plan/" + r.PlanId.String()})
	}
	return a.Describe("revision/"+output.Itoa(r.Revision), map[string]json.RawMessage{"revision": found.Raw},
		output.Section{Fields: facts},
		output.Section{Title: "Findings:", Table: findingTable(r.Findings)},
		output.Section{Title: "Waits for:", Table: waitTable(output.ValueOrZero(r.ApprovalReasons))})
}

// cutLast is strings.Cut at the last slash; without one, all is behind it.
func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+1:], true
}

func findingTable(all []oapi.Finding) output.Table {
	t := output.Table{Head: []string{"PLACE", "OBJECT", "FIELD", "MESSAGE", "EXPECTED"}}
	for _, f := range all {
		t.Add("", output.CellText(fmt.Sprintf("%s:%d:%d", f.Path, f.Line, f.Column)), output.CellText(output.ValueOrZero(f.Object)), output.CellText(output.ValueOrZero(f.Field)), output.CellText(f.Message), output.CellText(output.ValueOrZero(f.Expected)))
	}
	return t
}

func waitTable(all []oapi.ApprovalReason) output.Table {
	t := output.Table{Head: []string{"REASON", "OBJECTS", "MESSAGE"}}
	for _, w := range all {
		t.Add("", string(w.Reason), output.CellText(SomeOf(w.Objects)), output.CellText(w.Message))
	}
	return t
}

// SomeOf formats the first elements of a list for a table column.
func SomeOf(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
}
