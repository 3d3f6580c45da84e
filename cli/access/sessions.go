package access

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewSessions returns the group terminal-session.
func NewSessions(a *output.Console) *cobra.Command {
	var status string
	list := &cobra.Command{Use: "list [NAME]", Short: "List terminal sessions", Args: cobra.MaximumNArgs(1), Example: "  gpuaas terminal-session list --status open"}
	list.Flags().StringVar(&status, "status", "", "open or ended")
	list = client.ListCommand(a, list, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		p := oapi.ListTerminalSessionsParams{Status: output.PointerOrNil(oapi.ListTerminalSessionsParamsStatus(status))}
		if len(args) > 0 {
			found, err := c.Find(ctx, args[0])
			if err != nil {
				return nil, err
			}
			p.AllocationId = &found.Value.Id
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			page := p
			page.Limit, page.Cursor = size, cursor
			return c.ListTerminalSessions(ctx, &page, c.InProject)
		}, nil
	}, sessionTable)
	return output.Group("terminal-session", "Manage terminal sessions", list, newEnd(a, func(ctx context.Context, c *client.Client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndTerminalSession(ctx, id, nil, c.InProject, once)
	}))
}

// NewAdminSessions returns the group terminal-session of operators.
func NewAdminSessions(a *output.Console) *cobra.Command {
	var status, node string
	list := &cobra.Command{Use: "list", Short: "List terminal sessions of all tenants", Args: cobra.NoArgs, Example: "  gpuaas admin terminal-session list --node gpu-07 --status open"}
	list.Flags().StringVar(&status, "status", "", "open or ended")
	list.Flags().StringVar(&node, "node", "", "only on this node")
	list = client.ListCommand(a, list, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListAdminTerminalSessions(ctx, &oapi.ListAdminTerminalSessionsParams{
				Status: output.PointerOrNil(oapi.ListAdminTerminalSessionsParamsStatus(status)), Node: output.PointerOrNil(node), Limit: size, Cursor: cursor,
			})
		}, nil
	}, sessionTable)
	return output.Group("terminal-session", "Manage terminal sessions", list, newEnd(a, func(ctx context.Context, c *client.Client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndAdminTerminalSession(ctx, id, nil, once)
	}))
}

// newEnd needs no confirmation: the user can open another session.
func newEnd(a *output.Console, send func(context.Context, *client.Client, uuid.UUID, oapi.RequestEditorFn) (*http.Response, error)) *cobra.Command {
	return &cobra.Command{
		Use: "end ID", Short: "Revoke a terminal session", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ref, ok := output.IdOf(strings.TrimPrefix(args[0], "terminal-session/"))
			if !ok {
				return output.UsageError("%q is no id of a terminal session", ref)
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return send(ctx, c, id, once)
			})
			if err == nil {
				a.Notify("%s the session ends", output.SymbolGood)
			}
			return err
		},
	}
}

func sessionTable(a *output.Console, all ...oapi.TerminalSession) output.Table {
	t := output.Table{
		Head: []string{"ID", "PURPOSE", "STATUS", "ALLOCATION", "ADDRESS", "SENT BYTES", "RECEIVED BYTES", "AGE", "ENDED BECAUSE"},
		Wide: []string{"PRINCIPAL", "USER AGENT", "HOST KEY"},
	}
	for _, s := range all {
		t.Add("terminal-session/"+s.Id.String(), s.Id.String(), string(s.Purpose), string(s.Status), s.AllocationId.String(), output.OrDash(s.Address),
			strconv.FormatInt(s.SentBytes, 10), strconv.FormatInt(s.ReceivedBytes, 10), output.Age(a.Clock.Now(), s.CreatedAt), output.OrDash(string(output.ValueOrZero(s.EndReason))),
			s.PrincipalId.String(), output.CellText(s.UserAgent), output.OrDash(output.ValueOrZero(s.HostKey)))
	}
	return t
}
