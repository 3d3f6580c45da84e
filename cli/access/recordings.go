package access

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const typeCast = "application/x-asciicast"

// NewRecordings returns the group recording.
func NewRecordings(a *output.Console) *cobra.Command {
	list := client.ListCommand(a, &cobra.Command{Use: "list [NAME]", Short: "List terminal recordings", Args: cobra.MaximumNArgs(1), Example: "  gpuaas recording list brave-otter"},
		func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
			p := oapi.ListTerminalRecordingsParams{}
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
				return c.ListTerminalRecordings(ctx, &page, c.InProject)
			}, nil
		}, recordingTable)
	export := client.ExportCommand(a, &cobra.Command{
		Use: "export ID", Short: "Export a terminal recording", Args: cobra.ExactArgs(1), Example: "  gpuaas recording export 01990f44-1111-7222-8333-444455556666 -f session.cast",
		Long: `Writes the recording as asciicast v2, which asciinema plays. The audit log records the read. The output is what
the recorded programs have printed: other players may act on its clipboard and window commands.`,
	}, typeCast, func(_ context.Context, c *client.Client, args []string) (client.Sender, error) {
		return recordingOf(c, args[0])
	})
	return output.Group("recording", "Show and export terminal recordings", list, newPlay(a), export)
}

func recordingOf(c *client.Client, arg string) (client.Sender, error) {
	id, ref, ok := output.IdOf(strings.TrimPrefix(arg, "recording/"))
	if !ok {
		return nil, output.UsageError("%q is no id of a recording", ref)
	}
	return func(ctx context.Context) (*http.Response, error) {
		return c.GetTerminalRecording(ctx, id, nil, c.InProject)
	}, nil
}

func newPlay(a *output.Console) *cobra.Command {
	p := player{out: a.Out}
	cmd := &cobra.Command{
		Use: "play ID", Short: "Show a terminal recording with its timing", Args: cobra.ExactArgs(1), Example: "  gpuaas recording play 01990f44-1111-7222-8333-444455556666 --speed 4",
		Long: `Plays the recording in this terminal, with its timing. q ends it. The audit log records the read. Commands of the
recorded programs to the clipboard, the title and the like are left out.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.speed <= 0 {
				return output.UsageError("--speed is above 0, not %g", p.speed)
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			open, err := recordingOf(c, args[0])
			if err != nil {
				return err
			}
			var cast bytes.Buffer // a slow player delays the response
			if err := c.CopyExport(cmd.Context(), typeCast, open, &cast); err != nil {
				return err
			}
			return p.watch(cmd.Context(), a, &cast)
		},
	}
	cmd.Flags().Float64Var(&p.speed, "speed", 1, "times the recorded speed")
	cmd.Flags().DurationVar(&p.idle, "idle", 2*time.Second, "longest pause; 0 for no limit")
	return cmd
}

func recordingTable(a *output.Console, all ...oapi.TerminalRecording) output.Table {
	t := output.Table{Head: []string{"ID", "STATUS", "ALLOCATION", "PRINCIPAL", "DURATION", "OUTPUT BYTES", "AGE"}, Wide: []string{"SIZE", "REQUIRED", "CORRELATION"}}
	for _, r := range all {
		status := string(r.Status)
		if r.IncompleteReason != nil {
			status += ": " + string(*r.IncompleteReason)
		}
		t.Add("recording/"+r.Id.String(), r.Id.String(), status, r.AllocationId.String(), r.PrincipalId.String(), (time.Duration(r.DurationSeconds) * time.Second).String(),
			strconv.FormatInt(r.OutputBytes, 10), output.Age(a.Clock.Now(), r.CreatedAt), strconv.Itoa(r.Columns)+"x"+strconv.Itoa(r.Rows), strconv.FormatBool(r.Required), r.CorrelationId)
	}
	return t
}
