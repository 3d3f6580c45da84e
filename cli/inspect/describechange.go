package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// describeObject prints the fields that are common to all kinds.
func describeObject(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef) error {
	t, err := c.Placed(ctx, t)
	if err != nil {
		return err
	}
	found, err := c.Desired(ctx, t)
	if err != nil {
		return err
	}
	m := found.Value.Metadata
	s := output.ValueOrZero(found.Value.Status)
	facts := [][2]string{
		{"Name", m.Name},
		{"Kind", string(found.Value.Kind)},
		{"ID", m.Uid.String()},
		{"Project", output.ValueOrZero(m.Scope)},
		{"Owner", string(m.Source.Owner)},
		{"Source", origin(found.Value)},
		{"Generation", output.Itoa(m.Generation)},
		{"Version", m.ResourceVersion},
		{"Created", output.FormatTime(m.CreatedAt)},
		{"Updated", output.FormatTime(m.UpdatedAt)},
		{"Sync, health", strings.Trim(string(s.Sync)+", "+string(s.Health), ", ")},
		{"Suspended", change.SuspensionOf(m.Suspended)},
		{"Adoption", adoptionOf(m.Adopt)},
		{"Annotations", pairs(m.Annotations)},
		{"Labels", pairs(m.Labels)},
	}
	spec, err := output.Encode(found.Value.Spec)
	if err != nil {
		return err
	}
	text, err := output.ToYAML(spec)
	if err != nil {
		return fmt.Errorf("encoding spec: %w", err)
	}
	declared := output.Table{}
	for line := range strings.Lines(string(text)) {
		declared.Add("", strings.TrimRight(line, "\n"))
	}
	return a.Describe(strings.ToLower(t.String()), map[string]json.RawMessage{"desired": found.Raw},
		output.Section{Fields: facts}, output.Section{Title: "Conditions:", Table: output.ConditionTable(output.ConditionsOf(s))}, output.Section{Title: "Spec:", Table: declared})
}

func adoptionOf(a *oapi.Adoption) string {
	if a == nil {
		return ""
	}
	return "the next revision of source " + a.Source + " can adopt it until " + output.FormatTime(a.Until)
}
