// Package release has the command that verifies a version of the product. It calls no installation.
package release

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/distribution"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// NewRelease returns "gpuaas release".
func NewRelease(a *output.Console) *cobra.Command {
	group := &cobra.Command{Use: "release", Short: "Verify versions of the product", Args: cobra.ArbitraryArgs, RunE: output.Overview}
	group.AddCommand(newVerify(a))
	return group
}

func newVerify(a *output.Console) *cobra.Command {
	var key, version string
	c := &cobra.Command{
		Use: "verify DIR", Short: "Verify a downloaded version of the product", Args: cobra.ExactArgs(1),
		Long: `The command compares all files of the folder with SHA256SUMS, these with the signed statement in
provenance.dsse.json, and the programs in the archives with their bills of materials and the commit.
It needs no network and no installation.`,
		Example: `gpuaas release verify ./v1.2.3 --version v1.2.3 --key gpuaas-release.pub`,
		RunE: func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return errs.Invalid("dir", "%s is not a folder", args[0]).Try("pass the folder with the downloaded files")
			}
			text, err := os.ReadFile(key)
			if err != nil {
				return errs.Invalid("key", "cannot be read: %v", err).Try("pass the file with the public key of the releases")
			}
			public, err := distribution.ParsePublicKey(text)
			if err != nil {
				return errs.Invalid("key", "%s has no public key of Ed25519 in PEM: %v", key, err)
			}
			v, err := distribution.Verify(os.DirFS(args[0]), public)
			if err != nil {
				return errs.New(errs.SignatureInvalid, "%s is not a version that this key has signed: %v", args[0], err).Try("download it again, and do not run its programs")
			}
			if version != "" && v.Version != version {
				return errs.New(errs.SignatureInvalid, "%s is %s, not %s", args[0], v.Version, version).Try("download it again, and do not run its programs")
			}
			raw, err := output.Encode(v)
			if err != nil {
				return err
			}
			if a.Format() == "table" || a.Format() == "wide" {
				_, err = fmt.Fprintf(a.Out, "%s is verified: commit %s, built by %s, signed by the key %s\n", v.Version, v.Revision, v.Builder, v.KeyID)
				return err
			}
			return a.Show(raw, output.Table{Names: []string{v.Version}})
		},
	}
	c.Flags().StringVar(&key, "key", "", "file with the public key of the releases, in PEM")
	c.Flags().StringVar(&version, "version", "", "version that the folder must be")
	_ = c.MarkFlagRequired("key")
	return c
}
