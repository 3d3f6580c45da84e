package change

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const rollbackText = `Creates a commit that restores an older revision. The history of Git stays, and the commit is
reviewed as any change. In a checkout of the source's repository the command creates the
commit on a new branch, without a change of the work tree or the index. In other folders
it prints the commands to run.`

func NewRollback(a *output.Console) *cobra.Command {
	var to, branch, repository string
	cmd := &cobra.Command{
		Use: "rollback", Short: "Create a commit that restores a revision", Long: rollbackText, Args: cobra.NoArgs,
		Annotations: map[string]string{output.MoreOutputs: "text"},
		Example:     "  gpuaas rollback --to 11\n  gpuaas rollback --to 11 --repository ~/fleet --branch back-to-11",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			b, err := rollbackTo(cmd.Context(), c, strings.TrimPrefix(to, "revision/"))
			if err != nil {
				return err
			}
			b.Branch = cmp.Or(branch, b.Branch)
			return rollback(cmd.Context(), a, b, repository)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "number of the revision to restore; required")
	cmd.Flags().StringVar(&branch, "branch", "", "name of the new branch; rollback-to-REVISION when left out")
	cmd.Flags().StringVar(&repository, "repository", ".", "a checkout of the source's repository")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// rollbackPlan contains the values of a rollback.
type rollbackPlan struct {
	Revision int64    `json:"revision"`
	Source   string   `json:"source"`
	Commit   string   `json:"commit"` // whose folders are restored
	Folders  []string `json:"folders"`
	Branch   string   `json:"branch"`
	Onto     string   `json:"onto"`           // the branch that the source follows
	Made     string   `json:"made,omitempty"` // the commit, once there is one
	Base     string   `json:"base,omitempty"` // its parent
	Commands []string `json:"commands"`       // what is left to do
}

func rollbackTo(ctx context.Context, c *client.Client, number string) (rollbackPlan, error) {
	r, err := Revision(ctx, c, number)
	if err != nil {
		return rollbackPlan{}, err
	}
	rev := r.Value
	switch {
	case rev.Status != oapi.RevisionStatusApplied:
		return rollbackPlan{}, errs.New(errs.Conflict, "revision %d was never applied: it is %s", rev.Revision, rev.Status).Try("gpuaas get revisions --status applied")
	case rev.Commit == source.WorkTreeCommit:
		return rollbackPlan{}, errs.New(errs.Conflict, "revision %d was read from uncommitted files", rev.Revision).Try("gpuaas get revisions --status applied")
	}
	s, err := c.Source(ctx, rev.Source)
	if err != nil {
		return rollbackPlan{}, err
	}
	onto := cmp.Or(strings.TrimPrefix(s.Value.Ref, "refs/heads/"), "HEAD")
	return rollbackPlan{
		Revision: rev.Revision, Source: rev.Source, Commit: rev.Commit, Folders: s.Value.Dirs, Onto: onto, Branch: fmt.Sprintf("rollback-to-%d", rev.Revision),
	}, nil
}

func (b rollbackPlan) message() string {
	return fmt.Sprintf("Roll back to revision %d\n\nThe folders %s are again as they were at %s.\n", b.Revision, strings.Join(b.Folders, ", "), b.Commit)
}

// commands do by hand what a checkout would have let us do.
func (b rollbackPlan) commands() []string {
	onto := "origin/" + b.Onto
	if b.Onto == "HEAD" {
		onto = "origin/HEAD"
	}
	return []string{
		"git fetch origin",
		fmt.Sprintf("git switch --create %s %s", shellWord(b.Branch), shellWord(onto)),
		fmt.Sprintf("git restore --source=%s --staged --worktree -- %s", shellWord(b.Commit), shellWords(b.Folders)),
		fmt.Sprintf("git commit --message=%s", shellWord(fmt.Sprintf("Roll back to revision %d", b.Revision))),
		b.push(),
	}
}

func (b rollbackPlan) push() string { return "git push --set-upstream origin " + shellWord(b.Branch) }

func rollback(ctx context.Context, a *output.Console, b rollbackPlan, repository string) error {
	made, err := source.RevertTo(ctx, repository, b.Commit, b.Folders, b.Branch, b.message(), author(ctx, a, repository))
	switch code := errs.CodeOf(err); {
	case err == nil:
		b.Made, b.Base, b.Commands = made.Commit, made.Base, []string{b.push()}
		a.Notify("%s branch %s: the folders %s are as at revision %d. Push the branch and request a review.", output.SymbolGood, made.Branch, strings.Join(b.Folders, ", "), b.Revision)
	// No checkout, or one of something else: the commit is not in there.
	case code == errs.NotFound || code == errs.Unavailable:
		b.Commands = b.commands()
		a.Notify("%s is no checkout with commit %s. In one of %s:", repository, short(b.Commit), b.Source)
	default:
		return err
	}
	if a.Data() {
		raw, err := output.Encode(b)
		if err != nil {
			return err
		}
		return a.Show(raw, output.Table{})
	}
	_, err = fmt.Fprintln(a.Out, strings.Join(b.Commands, "\n"))
	return err
}

// author returns the author that Git would use in the checkout.
func author(ctx context.Context, a *output.Console, repository string) source.Author {
	ask := func(key, other string) string {
		out, err := exec.CommandContext(ctx, "git", "-C", repository, "config", "--get", key).Output() //nolint:gosec // the person's own checkout
		if err != nil {
			return other
		}
		return cmp.Or(strings.TrimSpace(string(out)), other)
	}
	return source.Author{
		Name: cmp.Or(a.Env("GIT_AUTHOR_NAME"), ask("user.name", "gpuaas")), Email: cmp.Or(a.Env("GIT_AUTHOR_EMAIL"), ask("user.email", "gpuaas@localhost")),
		At: a.Clock.Now(),
	}
}

// shellWord quotes a text as one argument for a shell.
func shellWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@", r)
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func shellWords(all []string) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = shellWord(s)
	}
	return strings.Join(words, " ")
}
