package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// logFlags are the flags of both commands.
type logFlags struct {
	source, since string
	tail          int
	followNew     bool
}

func (f *logFlags) add(cmd *cobra.Command, sources, usual string) *cobra.Command {
	cmd.Flags().StringVar(&f.source, "source", usual, sources)
	cmd.Flags().IntVar(&f.tail, "tail", 200, "number of lines before the first new one")
	cmd.Flags().StringVar(&f.since, "since", "", "only lines that are not older, like 10m or 2026-01-05T09:00:00Z")
	cmd.Flags().BoolVarP(&f.followNew, "follow", "f", false, "continue until Ctrl-C")
	return cmd
}

// from returns the time of --since, or nil.
func (f *logFlags) from(a *output.Console) (*time.Time, error) {
	if f.since == "" {
		return nil, nil //nolint:nilnil // all lines
	}
	if at, err := time.Parse(time.RFC3339, f.since); err == nil {
		return &at, nil
	}
	span, err := output.ParseSpan(f.since)
	if err != nil {
		return nil, output.UsageError("--since: %v, and no time like 2026-01-05T09:00:00Z", err)
	}
	at := a.Clock.Now().Add(-span)
	return &at, nil
}

// NewAllocationLogs returns the command alloc logs.
func NewAllocationLogs(a *output.Console) *cobra.Command {
	f := &logFlags{}
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show logs of an allocation", Args: cobra.ExactArgs(1),
		Long: `Prints lines of a log of the allocation. The source login contains the logins, kernel the faults of
its GPUs and processes that the kernel has killed because memory ran out, agent the steps of
provisioning and release. With --follow the command continues with each new line, also after
a lost connection.`,
		Example: "  gpuaas alloc logs brave-otter -f\n  gpuaas alloc logs brave-otter --source kernel --since 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			since, err := f.from(a)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := c.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printStream(cmd.Context(), a, c, func(ctx context.Context, last *string) (*http.Response, error) {
				return c.GetAllocationLogs(ctx, found.Value.Id, &oapi.GetAllocationLogsParams{
					Source: output.PointerOrNil(oapi.GetAllocationLogsParamsSource(f.source)), Tail: &f.tail, Since: since, Follow: &f.followNew, LastEventID: last,
				}, c.InProject, events)
			})
		},
	}
	return f.add(cmd, "login, kernel or agent", "agent")
}

// NewNodeLogs returns the command node logs.
func NewNodeLogs(a *output.Console) *cobra.Command {
	f := &logFlags{}
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show logs of a node", Args: cobra.ExactArgs(1),
		Long: `Prints lines of a log of the node. With --follow the command continues with each new line,
also after a lost connection. Each connection is a row of the audit log.`,
		Example: "  gpuaas node logs gpu-07 --source kernel -f",
		RunE: func(cmd *cobra.Command, args []string) error {
			since, err := f.from(a)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			return printStream(cmd.Context(), a, c, func(ctx context.Context, last *string) (*http.Response, error) {
				return c.GetNodeLogs(ctx, strings.TrimPrefix(args[0], "node/"), &oapi.GetNodeLogsParams{
					Source: output.PointerOrNil(oapi.GetNodeLogsParamsSource(f.source)), Tail: &f.tail, Since: since, Follow: &f.followNew, LastEventID: last,
				}, events)
			})
		},
	}
	return f.add(cmd, "agent, helper, kernel, sshd, fabricmanager, persistenced or system", "system")
}

func events(_ context.Context, r *http.Request) error {
	r.Header.Set("Accept", "text/event-stream")
	return nil
}

// logItem is the data of an event of the stream.
type logItem struct {
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
	Lines   int       `json:"lines"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// errComplete is the end after the last line.
var errComplete = errors.New("the log is complete")

const (
	// resumeAfter is the pause before a lost stream is opened again.
	resumeAfter = 2 * time.Second
	// maxLost limits the consecutive failures of a stream that has worked.
	maxLost = 30
)

// printStream prints a log, and opens a lost stream again after its last line.
func printStream(ctx context.Context, a *output.Console, c *client.Client, open func(ctx context.Context, last *string) (*http.Response, error)) error {
	var last *string
	worked := false
	for lost := 0; ; lost++ {
		err := c.StreamFrom(ctx, func(ctx context.Context) (*http.Response, error) { return open(ctx, last) }, func() { worked, lost = true, 0 }, func(e client.Event) error {
			if e.Type == "line" {
				last = &e.ID
			}
			return printLog(a, e)
		})
		known, refused := errors.AsType[*output.CommandError](err)
		switch {
		case errors.Is(err, errComplete), ctx.Err() != nil:
			return nil //nolint:nilerr // the user has ended it
		case !worked, lost >= maxLost, refused && known.Code != string(errs.Unavailable):
			return err
		}
		if client.Sleep(ctx, resumeAfter) != nil {
			return nil //nolint:nilerr // the user has ended it
		}
	}
}

// printLog prints one item. The server has removed control characters.
func printLog(a *output.Console, e client.Event) error {
	var item logItem
	if err := json.Unmarshal(e.Raw, &item); err != nil {
		return fmt.Errorf("reading a line of the log: %w", err)
	}
	switch {
	case a.Format() == "json" && e.Type != "end":
		return a.Write(string(e.Raw) + "\n")
	case e.Type == "dropped":
		a.Notify("%s %d lines were dropped", output.SymbolWarn, item.Lines)
	case e.Type == "end" && item.Reason == "complete":
		return errComplete
	case e.Type == "end" && item.Reason == "lost":
		a.Notify("%s %s; trying again", output.SymbolWarn, item.Message)
		return io.EOF
	case e.Type == "end":
		return &output.CommandError{Message: "the log has ended: " + item.Message, Exit: output.ExitFailure}
	case e.Type == "line":
		return a.Write(item.At.Local().Format("2006-01-02 15:04:05.000") + "  " + item.Text + "\n")
	}
	return nil
}
