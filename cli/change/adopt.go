package change

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const adoptText = `An object has one owner: git or api. With --to git, the next revision of the source that
contains the object can adopt it within one day. With --to api, the API owns the object
immediately. The files must then no longer contain it, or the next commit is invalid.`

func NewAdopt(a *output.Console) *cobra.Command {
	var to, source string
	cmd := &cobra.Command{
		Use: "adopt KIND/NAME", Short: "Move an object between Git and API", Long: adoptText, Args: cobra.ExactArgs(1), ValidArgsFunction: client.CompleteResources(a),
		Example: "  gpuaas export node/gpu-07 > fleet/gpu-07.yaml\n  gpuaas adopt node/gpu-07 --to git --source fleet",
	}
	client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		owner := oapi.AdoptOwner(strings.ToLower(to))
		switch {
		case owner != oapi.AdoptOwnerGit && owner != oapi.AdoptOwnerApi:
			return nil, output.UsageError("--to %q: an object is owned by git or by api", to)
		case owner == oapi.AdoptOwnerGit && source == "":
			f := output.UsageError("--to git needs --source, the source that adopts the object")
			f.Try = "gpuaas get sources"
			return nil, f
		}
		t, err := c.Object(ctx, args[0])
		if err != nil {
			return nil, err
		}
		now, err := c.Desired(ctx, t)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AdoptDesired(ctx, t.Kind(), t.Name, nil, oapi.Adopt{Owner: owner, Source: output.PointerOrNil(source)}, ifUnchanged(now.Value), once)
		}, nil
	}, client.ObjectTable)
	cmd.Flags().StringVar(&to, "to", "", "git or api; required")
	cmd.Flags().StringVar(&source, "source", "", "with --to git: the source that adopts the object")
	_ = cmd.MarkFlagRequired("to")
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]string{"git", "api"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// ifUnchanged makes the server reject the change if the object has changed since it was read.
func ifUnchanged(o oapi.DesiredObject) oapi.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("If-Match", `"`+o.Metadata.ResourceVersion+`"`)
		return nil
	}
}
