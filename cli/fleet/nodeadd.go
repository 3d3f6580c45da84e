package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const addText = `Creates the node and prints one command to run on the node. The command downloads the
agent, compares it with the digest from this server, and enrols. Its token works once,
for this node, within 15 minutes.`

func newNodeAdd(a *output.Console) *cobra.Command {
	body := oapi.NodeRequest{}
	var root bool
	var address, zone, rack, management string
	var serials []string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Create a node and print its install command", Long: addText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas node add gpu-07 --sku h100-sxm --region eu-1 --gpus 8",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			body.Name, body.Address = nodeNamed(args[0]), output.PointerOrNil(address)
			body.Zone, body.Rack, body.ManagementAddress = output.PointerOrNil(zone), output.PointerOrNil(rack), output.PointerOrNil(management)
			if len(serials) > 0 {
				body.Serials = &serials
			}
			made, err := client.Change[oapi.DesiredObject](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateNode(ctx, nil, body, once)
			})
			if err != nil {
				return err
			}
			a.Notify("%s %s is created", output.SymbolGood, body.Name)
			token, err := tokenOf(cmd.Context(), c, body.Name)
			if err != nil {
				return err
			}
			return showToken(a, token, root, map[string]json.RawMessage{"desired": made.Raw})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&body.Sku, "sku", "", "SKU of its GPUs; required")
	flags.StringVar(&body.Region, "region", "", "region; required")
	flags.IntVar(&body.Gpus, "gpus", 0, "number of GPUs that the node must report; required")
	flags.StringVar(&zone, "zone", "", "zone of the node")
	flags.StringVar(&rack, "rack", "", "rack of the node; nodes of one rack fail together")
	flags.StringVar(&management, "management-address", "", "address of its management controller, HOST or HOST:PORT")
	flags.StringVar(&address, "address", "", "address of its SSH service, HOST or HOST:PORT (default: the name of the node)")
	flags.StringSliceVar(&serials, "serial", nil, "serial number of a GPU that the node must report; may be repeated")
	flags.BoolVar(&root, "root", false, "the line is for a root shell: without sudo")
	for _, name := range []string{"sku", "region", "gpus"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func newNodeEnrol(a *output.Console) *cobra.Command {
	var root bool
	cmd := &cobra.Command{
		Use: "re-enrol NODE", Aliases: []string{"enrol"}, Short: "Create a new enrolment token", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			token, err := tokenOf(cmd.Context(), c, nodeNamed(args[0]))
			if err != nil {
				return err
			}
			return showToken(a, token, root, map[string]json.RawMessage{})
		},
	}
	cmd.Flags().BoolVar(&root, "root", false, "the line is for a root shell: without sudo")
	return cmd
}

const (
	// carriedWithin is the time for which the command waits until the loop has applied the node's
	// object. The node API knows the node only afterwards.
	carriedWithin = 30 * time.Second
	appliedPoll   = 200 * time.Millisecond
)

// tokenOf requests a token as soon as the node's object was applied.
func tokenOf(ctx context.Context, c *client.Client, name string) (client.Response[oapi.EnrolmentToken], error) {
	within, cancel := context.WithTimeout(ctx, carriedWithin)
	defer cancel()
	for {
		got, err := client.Change[oapi.EnrolmentToken](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateEnrolmentToken(ctx, name, nil, oapi.Empty{}, once)
		})
		if err == nil || client.CodeOf(err) != errs.NotFound || client.Sleep(within, appliedPoll) != nil {
			return got, err
		}
	}
}

// showToken prints the install command, and nothing else on stdout.
func showToken(a *output.Console, token client.Response[oapi.EnrolmentToken], root bool, parts map[string]json.RawMessage) error {
	t := token.Value
	if a.Data() {
		parts["enrolment"] = token.Raw
		return a.Describe("node/"+t.Node, parts)
	}
	if t.Install == nil {
		a.Notify("This server has no agent release: install the agent on the node, and enrol it with this token within %s.", output.FormatSeconds(int64(t.ExpiresAt.Sub(a.Clock.Now())/time.Second)))
		return a.Write(t.Token + "\n")
	}
	line := t.Install.Command
	if root {
		line = strings.Replace(line, "sudo ./gpuaas-agent", "./gpuaas-agent", 1)
	}
	a.Notify("Run this command on the node within %s; it works once:", output.FormatSeconds(int64(t.ExpiresAt.Sub(a.Clock.Now())/time.Second)))
	return a.Write(fmt.Sprintln(line))
}
