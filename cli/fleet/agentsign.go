package fleet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

// keysFile is the file with the signed set of release keys, in the folder of the keys.
const keysFile = "release-keys.json"

func newAgentSign(a *output.Console) *cobra.Command {
	var keysDir, version, minimum, expires, out string
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Sign an agent release", Long: signText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas agent sign ./gpuaas-agent --keys-dir ./keys --minimum v1.3.0\n  gpuaas agent sign ./gpuaas-agent-linux-arm64 --keys-dir ./keys --version v1.4.0 --minimum v1.3.0 --expires 90d",
		RunE: func(cmd *cobra.Command, args []string) error {
			life, err := days(expires)
			if err != nil {
				return err
			}
			keys, err := releaseSigner(keysDir)
			if err != nil {
				return err
			}
			b, err := buildOf(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			b.Minimum, b.Life = minimum, life
			signed, err := agentrelease.Sign(cmd.Context(), keys, b, a.Clock.Now())
			if err != nil {
				return err
			}
			if out == "" {
				out = args[0] + agentrelease.StatementSuffix
			}
			if err := agentrelease.WriteStatement(out, signed); err != nil {
				return err
			}
			a.Notify("%s is signed as %s for %s: %s", args[0], b.Version, b.Platform, out)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&keysDir, "keys-dir", "", "folder of the release keys")
	flags.StringVar(&version, "version", "", "version of the build (default: the version that a build for the local platform reports)")
	flags.StringVar(&minimum, "minimum", "", "the lowest version that a node with this version can return to")
	flags.StringVar(&expires, "expires", "90d", "how long nodes may become it")
	flags.StringVar(&out, "out", "", "file of the signed release (default: FILE"+agentrelease.StatementSuffix+")")
	return cmd
}

// buildOf describes a build, with the version that it reports if it runs here.
func buildOf(ctx context.Context, path, version string) (agentrelease.Build, error) {
	b, err := agentrelease.Describe(path)
	if err != nil {
		return b, err
	}
	reported, err := agentrelease.VersionOf(ctx, path, b.Platform)
	switch {
	case err != nil:
		return b, err
	case reported == "" && version == "":
		return b, output.UsageError("a build for %s cannot run here to report its version: set --version", b.Platform)
	case reported != "" && version != "" && reported != version:
		return b, errs.Invalid("--version", "the build reports version %s", reported)
	}
	if b.Version = reported; reported == "" {
		b.Version = version
	}
	return b, nil
}

// releaseSigner opens release keys. It rejects a folder without keys: opening it would create keys that no
// node trusts.
func releaseSigner(dir string) (secret.LocalSigner, error) {
	if dir == "" {
		return secret.LocalSigner{}, output.UsageError("set --keys-dir to the folder of the release keys")
	}
	if _, err := os.Stat(filepath.Join(dir, keysFile)); err != nil {
		return secret.LocalSigner{}, errs.Invalid("--keys-dir", "%s contains no release keys", dir).Try("gpuaas agent keys begin --keys-dir %s creates the first one", dir).Because(err)
	}
	return secret.OpenSigner(dir)
}

func newAgentKeys(a *output.Console) *cobra.Command {
	return output.Group("keys", "Manage release keys",
		newReleaseKeys(a, "begin", "Create a release key", "The first key is created, or the next one, which signs after finish.", func(ctx context.Context, dir string) (secret.LocalSigner, error) {
			if _, err := os.Stat(filepath.Join(dir, keysFile)); err != nil {
				return secret.OpenSigner(dir)
			}
			keys, err := secret.OpenSigner(dir)
			if err != nil {
				return keys, err
			}
			return keys, keys.Begin(ctx)
		}),
		newReleaseKeys(a, "finish", "Remove the old release key", "The new key signs from now on. Nodes that have not received it enrol again.", func(ctx context.Context, dir string) (secret.LocalSigner, error) {
			keys, err := releaseSigner(dir)
			if err != nil {
				return keys, err
			}
			return keys, keys.Finish(ctx)
		}),
	)
}

// newReleaseKeys makes a command that changes the release keys and writes the signed set of them.
func newReleaseKeys(a *output.Console, name, short, long string, change func(context.Context, string) (secret.LocalSigner, error)) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Long: long + "\n\n" + signText + "\nServers trust the keys after gpuaas agent trust " + keysFile + ".",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return output.UsageError("set --keys-dir to the folder of the release keys")
			}
			keys, err := change(cmd.Context(), dir)
			if err != nil {
				return err
			}
			public := keys.Public()
			signed, err := agentrelease.SignKeys(cmd.Context(), keys, public, secret.Sequence(public), a.Clock.Now())
			if err != nil {
				return err
			}
			if err := agentrelease.WriteStatement(filepath.Join(dir, keysFile), signed); err != nil {
				return err
			}
			return showReleaseKeys(a, public)
		},
	}
	cmd.Flags().StringVar(&dir, "keys-dir", "", "folder of the release keys")
	return cmd
}

func showReleaseKeys(a *output.Console, public map[string][]byte) error {
	type key struct {
		ID     string `json:"id"`
		Public string `json:"public"`
	}
	keys := []key{}
	t := output.Table{Head: []string{"KEY", "PUBLIC"}}
	for _, kid := range slices.Sorted(maps.Keys(public)) {
		keys = append(keys, key{kid, hex.EncodeToString(public[kid])})
		t.Add("release-key/"+kid, kid, hex.EncodeToString(public[kid]))
	}
	document, err := output.Encode(map[string]any{"keys": keys})
	if err != nil {
		return err
	}
	return a.Show(document, t)
}

// days reads 90d, or what Go calls a duration.
func days(text string) (time.Duration, error) {
	var n int
	if err := json.Unmarshal([]byte(trimDays(text)), &n); err == nil && n > 0 && text != trimDays(text) {
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, output.UsageError("%q is no time to expire after, such as 90d or 12h", text)
	}
	return d, nil
}
