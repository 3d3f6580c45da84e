package people

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const tokenText = `Prints an access token that is valid for at most one hour, for a program that calls the API.
The credential is read from FILE, from stdin with -, or from GPUAAS_TOKEN or the file of
GPUAAS_TOKEN_FILE. The gpuaas commands do not need it: they accept the credential as
GPUAAS_TOKEN and request tokens themselves.`

func newServiceAccountToken(a *output.Console) *cobra.Command {
	var may []string
	var audience string
	cmd := &cobra.Command{
		Use: "token [FILE]", Short: "Create an access token", Long: tokenText, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := client.Credential(a, args)
			if err != nil {
				return err
			}
			c, err := client.ConnectAnonymously(a)
			if err != nil {
				return err
			}
			r := oapi.TokenRequest{Secret: &secret, Audience: output.PointerOrNil(audience), Scopes: output.FlagOrNil(cmd, "scope", output.Scopes(may))}
			got, err := c.Mint(cmd.Context(), r)
			if err != nil {
				return err
			}
			a.Notify("Good for %s: %s", output.FormatSeconds(int64(got.Value.ExpiresIn)), output.ScopeList(got.Value.Scopes, "nothing"))
			if a.Data() {
				return a.Show(got.Raw, output.Table{})
			}
			_, err = io.WriteString(a.Out, got.Value.AccessToken+"\n")
			return err
		},
	}
	cmd.Flags().StringSliceVar(&may, "scope", nil, "only these of the account's; may be repeated")
	cmd.Flags().StringVar(&audience, "audience", "", "audience of the token (default: this installation)")
	return cmd
}
