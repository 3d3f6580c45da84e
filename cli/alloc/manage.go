package alloc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newAllocUpdate(a *output.Console) *cobra.Command {
	var name, ttl string
	var labels []string
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Update an allocation", Args: cobra.ExactArgs(1),
		Long:    "Changes the name, the labels or the end of a live allocation. The labels replace the previous ones.",
		Example: "  gpuaas alloc update brave-otter --ttl 4h\n  gpuaas alloc update brave-otter --name training --label team=speech",
	}
	cmd.Flags().StringVar(&name, "name", "", "new name")
	cmd.Flags().StringVar(&ttl, "ttl", "", "release it after this time from now, like 4h")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "KEY=VALUE, repeatable; replaces all labels")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		body, err := patchOf(name, ttl, labels)
		if err != nil {
			return nil, err
		}
		found, err := c.Find(ctx, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateAllocation(ctx, found.Value.Id, nil, body, c.InProject, client.IfMatch(found.Value.Version), once)
		}, err
	}, func(a *output.Console, all ...oapi.Allocation) output.Table {
		return AllocationTable(a.Clock.Now(), all...)
	})
}

func patchOf(name, ttl string, labels []string) (body oapi.AllocationPatch, err error) {
	body.Name = output.PointerOrNil(name)
	if ttl != "" {
		d, err := output.ParseSpan(ttl)
		if err != nil {
			return body, output.UsageError("--ttl: %v", err)
		}
		seconds := int64(d / time.Second)
		body.TtlSeconds = &seconds
	}
	if labels != nil {
		all := map[string]string{}
		for _, l := range labels {
			key, value, found := strings.Cut(l, "=")
			if !found {
				return body, output.UsageError("--label: %q is not of the form KEY=VALUE", l)
			}
			all[key] = value
		}
		body.Labels = &all
	}
	if body == (oapi.AllocationPatch{}) {
		return body, output.UsageError("nothing to update: set --name, --label or --ttl")
	}
	return body, nil
}

// showOf completes a command that reads something about one allocation of the project.
func showOf[T any](a *output.Console, cmd *cobra.Command, read func(context.Context, *client.Client, oapi.Allocation) (*http.Response, error), show func(*output.Console, T) output.Table) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		found, err := c.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		got, err := client.Send[T](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return read(ctx, c, found.Value) })
		if err != nil {
			return err
		}
		return a.Show(got.Raw, show(a, got.Value))
	}
	return cmd
}

func newAllocWhy(a *output.Console) *cobra.Command {
	return showOf(a, &cobra.Command{Use: "why NAME", Short: "Explain what an allocation waits for"},
		func(ctx context.Context, c *client.Client, one oapi.Allocation) (*http.Response, error) {
			return c.GetAllocationWhy(ctx, one.Id, nil, c.InProject)
		}, func(_ *output.Console, w oapi.AllocationWhy) output.Table {
			t := output.Table{Head: []string{"WAITS FOR", "REASON", "SINCE", "DEADLINE", "MESSAGE"}}
			t.Add("why", string(w.Owner), string(w.Reason), output.FormatTime(w.StartedAt), output.ExpiryText(w.DeadlineAt), output.CellText(w.Message))
			for _, s := range w.Suggestions {
				t.Add("why", "", "", "", output.ExpiryText(s.FitsAt), output.CellText(s.Text))
			}
			return t
		})
}

func newAllocTelemetry(a *output.Console) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "telemetry NAME", Short: "Show GPU telemetry", Example: "  gpuaas alloc telemetry brave-otter --from 15m",
	}
	cmd.Flags().StringVar(&from, "from", "", "start: RFC 3339 or how long ago, like 15m; one hour when left out")
	return showOf(a, cmd, func(ctx context.Context, c *client.Client, one oapi.Allocation) (*http.Response, error) {
		begin, err := a.ParseTime("--from", from)
		if err != nil {
			return nil, err
		}
		return c.GetAllocationTelemetry(ctx, one.Id, &oapi.GetAllocationTelemetryParams{From: begin}, c.InProject)
	}, func(_ *output.Console, got oapi.Telemetry) output.Table {
		t := output.Table{Head: []string{"AT", "GPU", "UTIL", "MEMORY", "POWER", "TEMP"}}
		for _, g := range got.Gpus {
			for _, r := range g.Readings {
				t.Add("gpu/"+g.Uuid, output.FormatTime(r.At), g.Uuid, strconv.Itoa(r.UtilisationPercent)+" %", fmt.Sprintf("%d MiB", r.UsedMib),
					fmt.Sprintf("%d W", r.PowerMw/1000), strconv.Itoa(r.Celsius)+" °C") //nolint:mnd // milliwatts
			}
		}
		return t
	})
}

func newAllocPreview(a *output.Console) *cobra.Command {
	var body oapi.AllocationRequest
	var region, ttl string
	gpus := 1
	cmd := &cobra.Command{
		Use: "preview SKU", Short: "Preview an allocation", Args: cobra.ExactArgs(1),
		Long:    "Evaluates a request and changes nothing: cost, runway, free GPUs, remaining caps, and every rule that rejects it.",
		Example: "  gpuaas alloc preview h100-sxm --gpus 8 --ttl 4h",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			body.Sku, body.Gpus, body.Region = args[0], &gpus, output.PointerOrNil(region)
			if ttl != "" {
				patch, err := patchOf("", ttl, nil)
				if err != nil {
					return err
				}
				body.TtlSeconds = patch.TtlSeconds
			}
			got, err := client.Send[oapi.AllocationPreview](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.PreviewAllocation(ctx, nil, body, c.InProject)
			})
			if err != nil {
				return err
			}
			return a.Show(got.Raw, previewTable(got.Value))
		},
	}
	cmd.Flags().IntVar(&gpus, "gpus", gpus, "number of GPUs")
	cmd.Flags().StringVar(&region, "region", "", "region; any when left out")
	cmd.Flags().StringVar(&ttl, "ttl", "", "release it after this time, like 4h")
	return cmd
}

func previewTable(p oapi.AllocationPreview) output.Table {
	t := output.Table{Head: []string{"FITS", "FREE", "PRICE/H", "RUNWAY", "LEFT", "REJECTED BY"}}
	fits, runway := output.SymbolGood, "-"
	if !p.Fits {
		fits = output.SymbolBad
	}
	if p.RunwayMinutes != nil {
		runway = output.FormatSeconds(*p.RunwayMinutes * 60) //nolint:mnd // seconds of a minute
	}
	left := strconv.Itoa(min(p.Remaining.User, p.Remaining.Project, p.Remaining.Tenant))
	row := []string{fits, strconv.Itoa(p.Free), output.Amount(p.PricePerHour), runway, left}
	for _, r := range p.Rejections {
		t.Add("preview", slices.Concat(row, []string{r.Code + ": " + output.CellText(r.Message)})...)
		row = make([]string, len(row))
	}
	if len(p.Rejections) == 0 {
		t.Add("preview", slices.Concat(row, []string{"-"})...)
	}
	return t
}
