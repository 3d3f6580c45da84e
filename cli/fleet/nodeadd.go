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

const addText = `Declares the node and prints one line to paste on the host. The line fetches the agent,
compares it with the digest that this server told, and enrols: its token works once,
for this node, for a quarter of an hour.`

func newNodeAdd(a *output.Console) *cobra.Command {
	body := oapi.NodeRequest{}
	var root bool
	var address string
	var serials []string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Declare a machine, and print the line that brings it in", Long: addText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas node add gpu-07 --sku h100-sxm --region eu-1 --gpus 8",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			body.Name, body.Address = nodeNamed(args[0]), output.PointerOrNil(address)
			if len(serials) > 0 {
				body.Serials = &serials
			}
			made, err := client.Change[oapi.DesiredObject](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateNode(ctx, nil, body, once)
			})
			if err != nil {
				return err
			}
			a.Notify("%s %s is declared", output.SymbolGood, body.Name)
			token, err := tokenOf(cmd.Context(), a, c, body.Name)
			if err != nil {
				return err
			}
			return showToken(a, token, root, map[string]json.RawMessage{"desired": made.Raw})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&body.Sku, "sku", "", "what its GPUs are sold as; required")
	flags.StringVar(&body.Region, "region", "", "where it stands; required")
	flags.IntVar(&body.Gpus, "gpus", 0, "how many it must show; required")
	flags.StringVar(&address, "address", "", "where its SSH service is reached, HOST or HOST:PORT; its name when left out")
	flags.StringSliceVar(&serials, "serial", nil, "serial number of a GPU that it must show; once for each")
	flags.BoolVar(&root, "root", false, "the line is for a root shell: without sudo")
	for _, name := range []string{"sku", "region", "gpus"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func newNodeEnrol(a *output.Console) *cobra.Command {
	var root bool
	cmd := &cobra.Command{
		Use: "re-enrol NODE", Aliases: []string{"enrol"}, Short: "Print the line by which a machine comes in anew; what it had before ends with it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			token, err := tokenOf(cmd.Context(), a, c, nodeNamed(args[0]))
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
	// A node is known to the door once the loop has carried its declaration out.
	carriedWithin = 30 * time.Second
	carriedLook   = 200 * time.Millisecond
)

// tokenOf asks for a token as soon as the declaration was carried out.
func tokenOf(ctx context.Context, a *output.Console, c *client.Client, name string) (client.Response[oapi.EnrolmentToken], error) {
	within, cancel := context.WithTimeout(ctx, carriedWithin)
	defer cancel()
	for {
		got, err := client.Change[oapi.EnrolmentToken](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateEnrolmentToken(ctx, name, nil, oapi.Empty{}, once)
		})
		if err == nil || client.CodeOf(err) != errs.NotFound || client.Sleep(within, carriedLook) != nil {
			return got, err
		}
	}
}

// showToken prints the line for the host, and nothing beside it where a person reads.
func showToken(a *output.Console, token client.Response[oapi.EnrolmentToken], root bool, parts map[string]json.RawMessage) error {
	t := token.Value
	if a.Data() {
		parts["enrolment"] = token.Raw
		return a.Describe("node/"+t.Node, parts)
	}
	if t.Install == nil {
		a.Notify("This server hands out no agent: install it on the host, and give it this token within %s.", output.FormatSeconds(int64(t.ExpiresAt.Sub(a.Clock.Now())/time.Second)))
		return a.Write(t.Token + "\n")
	}
	line := t.Install.Command
	if root {
		line = strings.Replace(line, "sudo ./gpuaas-agent", "./gpuaas-agent", 1)
	}
	a.Notify("Run this line on the host within %s; it works once:", output.FormatSeconds(int64(t.ExpiresAt.Sub(a.Clock.Now())/time.Second)))
	return a.Write(fmt.Sprintln(line))
}
