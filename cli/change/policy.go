package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewPolicy(a *output.Console) *cobra.Command {
	return output.Group("policy", "Show and set policies", NewPolicyList(a, "list"), newPolicyGet(a), newPolicySet(a))
}

func NewPolicyList(a *output.Console, use string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " [PREFIX]", Short: "List policies", Args: cobra.MaximumNArgs(1), Example: "  gpuaas policy list gitops.",
	}
	if use != "list" {
		cmd.Aliases, cmd.Example = []string{"policy-keys"}, "  gpuaas get policies gitops."
	}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Pager, error) {
		var prefix *string
		if len(args) == 1 {
			prefix = &args[0]
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListPolicies(ctx, &oapi.ListPoliciesParams{Prefix: prefix, Limit: size, Cursor: cursor})
		}, nil
	}, PolicyTable)
}

func PolicyTable(_ *output.Console, all ...oapi.PolicyKey) output.Table {
	t := output.Table{Head: []string{"KEY", "VALUE", "SCOPE", "SET BY", "DEFAULT", "BOUNDS", "MEANING"}, Wide: []string{"TYPE", "UNIT", "SCOPES", "VERSION"}}
	for _, k := range all {
		meaning := k.Meaning
		if k.NotInForce != nil {
			meaning = "not in force: " + *k.NotInForce
		}
		add := func(value, scope, by, version string) {
			t.Add("policy-key/"+k.Key, k.Key, output.CellText(value), output.CellText(scope), by, output.CellText(valueOf(k.Default)), boundsOf(k), output.CellText(meaning),
				k.Type, output.OrDash(output.ValueOrZero(k.Unit)), output.CellText(strings.Join(k.Scopes, ",")), version)
		}
		for _, s := range k.Set {
			add(valueOf(s.Value), s.Scope, client.PlaceOf(s.Source), output.Itoa(s.Version))
		}
		if len(k.Set) == 0 {
			add("-", "-", "-", "-")
		}
	}
	return t
}

// valueOf is the value as JSON, text without quotes.
func valueOf(v oapi.PolicyValue) string {
	raw, err := v.MarshalJSON()
	if err != nil {
		return "?"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func boundsOf(k oapi.PolicyKey) string {
	switch {
	case k.Values != nil:
		return output.CellText(strings.Join(*k.Values, "|"))
	case k.Minimum != nil && k.Maximum != nil:
		return fmt.Sprintf("%d to %d", *k.Minimum, *k.Maximum)
	case k.Minimum != nil:
		return fmt.Sprintf("%d or more", *k.Minimum)
	case k.Maximum != nil:
		return fmt.Sprintf("%d or less", *k.Maximum)
	default:
		return "-"
	}
}

func newPolicyGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get KEY", Short: "Show a policy", Args: cobra.ExactArgs(1), Example: "  gpuaas policy get gitops.prune_cap_percent",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			key, raw, err := PolicyKey(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.Show(raw, PolicyTable(a, key))
		},
	}
}

func PolicyKey(ctx context.Context, c *client.Client, name string) (oapi.PolicyKey, json.RawMessage, error) {
	all, err := client.ReadAll[oapi.PolicyKey](ctx, c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListPolicies(ctx, &oapi.ListPoliciesParams{Prefix: &name, Limit: size, Cursor: cursor})
	})
	if err != nil {
		return oapi.PolicyKey{}, nil, err
	}
	at := slices.IndexFunc(all.Items, func(k oapi.PolicyKey) bool { return k.Key == name })
	if at < 0 {
		return oapi.PolicyKey{}, nil, c.Unknown("policy key", name, "gpuaas policy list")
	}
	var document client.Page
	if err := json.Unmarshal(all.Raw, &document); err != nil {
		return oapi.PolicyKey{}, nil, fmt.Errorf("reading list: %w", err)
	}
	return all.Items[at], document.Items[at], nil
}

const policySetText = `Sets a value as an object that the API owns. If Git sets the value at this scope, the server
rejects the change and names the file and the line to edit. Separate the items of a list
with commas.`

func newPolicySet(a *output.Console) *cobra.Command {
	scope := "platform"
	cmd := &cobra.Command{
		Use: "set KEY VALUE", Short: "Set a policy", Long: policySetText, Args: cobra.ExactArgs(2),
		Example: "  gpuaas policy set gitops.prune_cap_percent 10\n  gpuaas policy set allocation.max_concurrent_per_project 8 --scope tenant:acme",
	}
	client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		key, _, err := PolicyKey(ctx, c, args[0])
		if err != nil {
			return nil, err
		}
		value, err := PolicyValue(key, args[1])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PutPolicy(ctx, key.Key, nil, oapi.PolicyWrite{Scope: &scope, Value: value}, once, IfUnchanged(key, scope))
		}, nil
	}, PolicyTable)
	cmd.Flags().StringVar(&scope, "scope", scope, "platform, or tenant:ID, project:ID, sku:NAME as the key allows")
	return cmd
}

// IfUnchanged sends what the user has read at the scope: the version of a value, or that there is none.
func IfUnchanged(key oapi.PolicyKey, scope string) oapi.RequestEditorFn {
	for _, s := range key.Set {
		if s.Scope == scope {
			return client.IfMatch(s.Version)
		}
	}
	return client.IfAbsent
}

// PolicyValue parses a value with the type of the key's default. The server checks the bounds.
func PolicyValue(key oapi.PolicyKey, text string) (v oapi.PolicyValue, err error) {
	raw, err := key.Default.MarshalJSON()
	if err != nil || len(raw) == 0 {
		return v, fmt.Errorf("reading the default of %s: %w", key.Key, err)
	}
	var value any = text
	switch raw[0] {
	case 't', 'f':
		value, err = strconv.ParseBool(text)
	case '[':
		value = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	case '"':
	default:
		value, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		return v, output.UsageError("%q is no value of %s, which is %s like %s", text, key.Key, key.Type, valueOf(key.Default))
	}
	document, err := output.Encode(value)
	if err != nil {
		return v, err
	}
	return v, v.UnmarshalJSON(document)
}
