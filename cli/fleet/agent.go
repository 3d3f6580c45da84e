package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

const agentText = `Runs on a server machine. The builds and their signing keys are in --state-dir. The
published releases are in the database of DATABASE_URL, or else in the database of the
profile of gpuaas up.`

func NewAgent(a *output.Console) *cobra.Command {
	return output.Group("agent", "Manage agent releases", newAgentPublish(a), newAgentList(a), newAgentRetry(a), newUpdate(a))
}

// agentDesk contains the values that the agent commands share.
type agentDesk struct {
	files agentrelease.Files
	store *agentrelease.Store
}

func openAgentDesk(ctx context.Context, a *output.Console, stateDir string) (d agentDesk, done func(), err error) {
	if stateDir == "" {
		stateDir = "/var/lib/gpuaas-server"
		if s, err := client.ReadSettings(a); err == nil && s.DataDir != "" {
			stateDir = filepath.Join(s.DataDir, "secrets")
		}
	}
	// Opening the keys in another folder would create new ones, which no node trusts.
	if _, err := os.Stat(filepath.Join(stateDir, agentrelease.KeysDir)); err != nil {
		return d, nil, errs.Invalid("--state-dir", "%s contains no release keys of a server", stateDir).Try("name the folder that gpuaas server has as --state-dir").Because(err)
	}
	keys, err := secret.OpenSigner(filepath.Join(stateDir, agentrelease.KeysDir))
	if err != nil {
		return d, nil, err
	}
	db, err := client.Database(ctx, a, "gpuaas-agent")
	if err != nil {
		return d, nil, err
	}
	d.files = agentrelease.Files{Dir: filepath.Join(stateDir, agentrelease.BuildsDir)}
	d.store = &agentrelease.Store{DB: db, Signer: keys, Naming: ids.DefaultNaming, Clock: a.Clock}
	return d, db.Close, nil
}

func newAgentPublish(a *output.Console) *cobra.Command {
	var stateDir, version, minimum, expires string
	cmd := &cobra.Command{
		Use: "publish FILE", Short: "Sign and publish an agent release", Long: agentText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas agent publish ./gpuaas-agent\n  gpuaas agent publish ./gpuaas-agent-linux-arm64 --version v1.4.0 --minimum v1.2.0 --expires 90d",
		RunE: func(cmd *cobra.Command, args []string) error {
			life, err := days(expires)
			if err != nil {
				return err
			}
			d, done, err := openAgentDesk(cmd.Context(), a, stateDir)
			if err != nil {
				return err
			}
			defer done()
			return publish(cmd.Context(), a, d, args[0], agentrelease.Build{Version: version, Minimum: minimum, Life: life})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&stateDir, "state-dir", "", "of the servers (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	flags.StringVar(&version, "version", "", "version of the build (default: the version that a build for the local platform reports)")
	flags.StringVar(&minimum, "minimum", "", "the lowest version that a node with this version can return to")
	flags.StringVar(&expires, "expires", "90d", "how long nodes may become it")
	return cmd
}

func publish(ctx context.Context, a *output.Console, d agentDesk, path string, want agentrelease.Build) error {
	b, err := d.files.Put(path)
	if err != nil {
		return err
	}
	said, err := agentrelease.VersionOf(ctx, path, b.Platform)
	switch {
	case err != nil:
		return err
	case said == "" && want.Version == "":
		return output.UsageError("a build for %s cannot run here to report its version: set --version", b.Platform)
	case said != "" && want.Version != "" && said != want.Version:
		return errs.Invalid("--version", "the build reports version %s", said)
	}
	b.Version, b.Minimum, b.Life, b.By = said, want.Minimum, want.Life, audit.OnServer("system:cli", "gpuaas agent publish")
	if said == "" {
		b.Version = want.Version
	}
	r, err := d.store.Publish(ctx, b)
	if err != nil {
		return err
	}
	return showReleases(a, []agentrelease.Release{r}, nil)
}

func newAgentList(a *output.Console) *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use: "list", Short: "List agent releases", Long: agentText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, done, err := openAgentDesk(cmd.Context(), a, stateDir)
			if err != nil {
				return err
			}
			defer done()
			ctx := cmd.Context()
			all, err := d.store.Releases(ctx, d.store.DB)
			if err != nil {
				return err
			}
			rollouts, err := d.store.Rollouts(ctx, d.store.DB)
			if err != nil {
				return err
			}
			return showReleases(a, all, rollouts)
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "of the servers (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	return cmd
}

// published is a release as data.
type published struct {
	Version   string                `json:"version"`
	Platform  string                `json:"platform"`
	Digest    string                `json:"digest"`
	Size      int64                 `json:"size"`
	Minimum   string                `json:"minimum"`
	ExpiresAt time.Time             `json:"expires_at"`
	CreatedAt time.Time             `json:"created_at"`
	Rollout   *agentrelease.Rollout `json:"rollout"`
}

func showReleases(a *output.Console, all []agentrelease.Release, rollouts []agentrelease.Rollout) error {
	t := output.Table{Head: []string{"VERSION", "PLATFORM", "DIGEST", "MINIMUM", "EXPIRES", "STATUS", "NODES", "MESSAGE"}}
	items := []published{}
	add := func(p published) {
		items = append(items, p)
		status, nodes, message := "-", "-", ""
		if p.Rollout != nil {
			status, nodes, message = string(p.Rollout.Status), fmt.Sprintf("%d/%d", p.Rollout.Has, p.Rollout.Nodes), p.Rollout.Message
		}
		expires := "-"
		if !p.ExpiresAt.IsZero() {
			expires = output.FormatTime(p.ExpiresAt)
		}
		t.Add("agent-release/"+p.Version, p.Version, output.OrDash(p.Platform), output.OrDash(p.Digest[:min(len(p.Digest), 12)]), output.OrDash(p.Minimum), expires, status, nodes, output.CellText(message))
	}
	shown := map[string]bool{}
	for _, r := range all {
		p := published{Version: r.Version, Platform: r.Platform, Digest: r.Digest, Size: r.Size, Minimum: r.Minimum, ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt}
		for i := range rollouts {
			if rollouts[i].Version == r.Version {
				p.Rollout, shown[r.Version] = &rollouts[i], true
			}
		}
		add(p)
	}
	for i, one := range rollouts { // versions without a published build are listed only here
		if !shown[one.Version] {
			add(published{Version: one.Version, Rollout: &rollouts[i]})
		}
	}
	document, err := output.Encode(map[string]any{"items": items})
	if err != nil {
		return err
	}
	return a.Show(document, t)
}

func newAgentRetry(a *output.Console) *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use: "retry VERSION", Short: "Resume a stopped rollout", Long: agentText, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, done, err := openAgentDesk(cmd.Context(), a, stateDir)
			if err != nil {
				return err
			}
			defer done()
			if err := d.store.Retry(cmd.Context(), args[0], audit.OnServer("system:cli", "gpuaas agent retry")); err != nil {
				return err
			}
			a.Notify("%s is tried again, from its first ring on.", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "of the servers (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	return cmd
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
