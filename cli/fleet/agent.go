package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

const agentText = `Runs on a server. The builds are in --state-dir. The published releases and the
trusted release keys are in the database of DATABASE_URL, or else in the database of the
profile of gpuaas up.`

const signText = `Runs in the pipeline that builds releases, without a server. The release keys are files in
--keys-dir; no server has them.`

func NewAgent(a *output.Console) *cobra.Command {
	return output.Group("agent", "Manage agent releases", newAgentSign(a), newAgentKeys(a), newAgentTrust(a), newAgentPublish(a), newAgentList(a), newAgentRetry(a), newUpdate(a))
}

// opens opens the database under a name.
type opens func(ctx context.Context, a *output.Console, as string) (*pgxpool.Pool, error)

// agentDesk contains the values that the agent commands share.
type agentDesk struct {
	files agentrelease.Files
	store *agentrelease.Store
	db    *pgxpool.Pool
}

// openAgentDesk opens the database with client.Database or client.DatabaseToChange.
func openAgentDesk(ctx context.Context, a *output.Console, open opens, stateDir string) (d agentDesk, done func(), err error) {
	if stateDir == "" {
		stateDir = serverDir
		if s, err := client.ReadSettings(a); err == nil && s.DataDir != "" {
			stateDir = filepath.Join(s.DataDir, "secrets")
		}
	}
	if d.db, err = open(ctx, a, "gpuaas-agent"); err != nil {
		return d, nil, err
	}
	sets := &secret.KeySets{DB: d.db}
	if err := sets.Refresh(ctx); err != nil {
		d.db.Close()
		return d, nil, err
	}
	d.files = agentrelease.Files{Dir: filepath.Join(stateDir, agentrelease.BuildsDir)}
	d.store = &agentrelease.Store{
		DB: d.db, Naming: ids.DefaultNaming, Clock: a.Clock,
		Keys: func() map[string][]byte { set, _ := sets.Releases(); return set.Keys },
	}
	return d, d.db.Close, nil
}

func newAgentPublish(a *output.Console) *cobra.Command {
	var stateDir, release string
	cmd := &cobra.Command{
		Use: "publish FILE", Short: "Upload a signed agent release", Long: agentText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas agent publish ./gpuaas-agent\n  gpuaas agent publish ./gpuaas-agent-linux-arm64 --release ./arm64.release",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, done, err := openAgentDesk(cmd.Context(), a, client.DatabaseToChange, stateDir)
			if err != nil {
				return err
			}
			defer done()
			signed, err := agentrelease.ReadStatement(cmp.Or(release, args[0]+agentrelease.StatementSuffix))
			if errors.Is(err, fs.ErrNotExist) {
				return errs.Invalid("--release", "there is no signed release of %s", args[0]).Try("the pipeline signs it: gpuaas agent sign %s", args[0]).Because(err)
			} else if err != nil {
				return err
			}
			r, err := d.store.PublishFile(cmd.Context(), d.files, args[0], signed, audit.OnServer("system:cli", "gpuaas agent publish"))
			if err != nil {
				return err
			}
			return showReleases(a, []agentrelease.Release{r}, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&stateDir, "state-dir", "", "of the servers (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	flags.StringVar(&release, "release", "", "file of the signed release (default: FILE"+agentrelease.StatementSuffix+")")
	return cmd
}

func newAgentTrust(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "trust FILE", Short: "Accept release keys", Args: cobra.ExactArgs(1),
		Long: agentText + `

The first file is trusted as it is; compare its key ids with those of the pipeline. Each later
one needs the signature of a key that is trusted. Nodes follow in the same way.`,
		Example: "  gpuaas agent trust ./release-keys.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			signed, err := agentrelease.ReadStatement(args[0])
			if err != nil {
				return err
			}
			d, done, err := openAgentDesk(cmd.Context(), a, client.DatabaseToChange, "")
			if err != nil {
				return err
			}
			defer done()
			set, err := secret.TrustReleaseKeys(cmd.Context(), d.db, signed, audit.OnServer("system:cli", "gpuaas agent trust"), d.store.Naming.Name("", "", "keys", "release_keys").String())
			if err != nil {
				return err
			}
			return showReleaseKeys(a, set.Keys)
		},
	}
	return cmd
}

func newAgentList(a *output.Console) *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use: "list", Short: "List agent releases", Long: agentText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, done, err := openAgentDesk(cmd.Context(), a, client.Database, stateDir)
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
			d, done, err := openAgentDesk(cmd.Context(), a, client.DatabaseToChange, stateDir)
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
