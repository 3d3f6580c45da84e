package alloc

import (
	"context"
	"errors"
	"strconv"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// PendingSections describe why a request is queued and what would place it. They are empty for
// other requests.
func PendingSections(p *oapi.Pending) []output.Section {
	if p == nil {
		return nil
	}
	position := ""
	if p.Position != nil {
		position = strconv.Itoa(*p.Position) + " in the queue for this SKU"
	}
	filters := output.Table{Head: []string{"FILTER", "NODES"}}
	for _, f := range p.Filters {
		filters.Add("", f.Filter, strconv.Itoa(f.Nodes))
	}
	fits := output.Table{Head: []string{"WHAT", "BY ITSELF AT"}}
	for _, f := range p.Suggestions {
		fits.Add("", f.Text, output.FormatTime(output.ValueOrZero(f.FitsAt)))
	}
	return []output.Section{
		{Title: "Waits for capacity:", Fields: [][2]string{
			{"  Position", position}, {"  Since", output.FormatTime(p.StartedAt)}, {"  Given up", output.FormatTime(output.ValueOrZero(p.DeadlineAt))}, {"  Why", p.Message},
		}},
		{Title: "Nodes left out:", Table: filters},
		{Title: "Suggestions:", Table: fits},
	}
}

// waitsAs reads a new queued request again, because only a read returns the reason. An error of the
// read is ignored: the request exists.
func waitsAs(ctx context.Context, c *client.Client, made client.Response[oapi.Allocation]) client.Response[oapi.Allocation] {
	if seen, err := c.Allocation(ctx, made.Value.Id); err == nil {
		return seen
	}
	return made
}

// Queued reports whether a request waits for capacity.
func Queued(one oapi.Allocation) bool {
	ready, _ := output.Condition(one.Conditions, "Ready")
	return ready.Reason == "Queued"
}

// orQueue adds the suggestion --queue to an error of a request without it.
func (f creation) orQueue(err error) error {
	refused, ok := errors.AsType[*output.CommandError](err)
	if !ok || f.queue || client.CodeOf(err) != errs.SKUUnavailable {
		return err
	}
	advised := *refused
	advised.Try = "use --queue to wait for capacity; gpuaas get skus lists the free GPUs"
	return &advised
}
