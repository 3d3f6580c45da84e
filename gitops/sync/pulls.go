package sync

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// pullsAtOnce limits the pull requests that one poll validates: each may cost a validation at its
// limits. The others follow in the next polls.
const pullsAtOnce = 5

// review previews each open pull request once for each head and each applied revision. Errors of
// one pull request, or of the forge, do not affect the source.
func (w *watcher) review(ctx context.Context) {
	if !w.forgeReports(w.spec.Name) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if err := w.reviewAll(ctx); err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "pull requests cannot be previewed", "component", "git", "source", w.spec.Name, "err", err)
	}
}

// reviewAll previews the open pull requests that changed since the last poll. The number for each poll is limited, so
// that many pull requests do not delay the tracked branch.
func (w *watcher) reviewAll(ctx context.Context) (err error) {
	defer w.unbroken(ctx, &err)
	state, err := w.Desired.SourceByName(ctx, w.Desired.DB, w.spec.Name)
	if err != nil {
		return err
	}
	r, err := w.open(ctx)
	if err != nil {
		return err
	}
	at, ok, err := w.forge(ctx)
	if err != nil || !ok {
		return err
	}
	open, err := at.Open(ctx, branchOf(w.spec.Ref))
	if err != nil {
		return err
	}
	previews, done := map[int]string{}, 0
	for _, pull := range open {
		if pull.Fork && !w.Rules().Forks {
			continue // a stranger could make the server validate files, and read the plan
		}
		key := fmt.Sprintf("%s on %d", pull.Head, state.Applied.Revision)
		if w.pulls[pull.Number] == key || done == pullsAtOnce {
			previews[pull.Number] = w.pulls[pull.Number]
			continue
		}
		done++
		if err := w.preview(ctx, repository(r), state, pull); err != nil {
			w.Log.WarnContext(ctx, "pull request cannot be previewed", "component", "git", "source", w.spec.Name, "pull_request", pull.Number, "err", err)
			continue // retried in the next poll
		}
		previews[pull.Number] = key
	}
	w.pulls = previews
	return nil
}

// forge makes the adapter; none where no forge is declared.
func (w *watcher) forge(ctx context.Context) (forge.Forge, bool, error) {
	declared := w.spec.Forge
	if declared == nil || declared.TokenRef == "" {
		return nil, false, nil
	}
	token, err := w.Credentials.Resolve(ctx, declared.TokenRef, declared.URL)
	if err != nil {
		return nil, false, err
	}
	at, err := forge.New(forge.Config{
		Kind: forge.Kind(declared.Kind), URL: declared.URL, Project: declared.Project, Token: token, AllowPrivate: w.Development,
	})
	return at, err == nil, err
}

func branchOf(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// preview validates the head of a pull request, computes its plan, and stores the report for the
// forge. It applies nothing.
func (w *watcher) preview(ctx context.Context, repo *source.Source, state revision.SourceState, pull forge.Pull) error {
	tree, err := repo.At(ctx, pull.Ref, w.cached)
	if err == nil && (tree.Unchanged || tree.Base != "" && tree.Base != w.cached) {
		tree, err = repo.At(ctx, pull.Ref, "")
	}
	if err != nil {
		return err
	}
	v, findings := validated{}, tree.Findings
	if len(findings) == 0 {
		if v, findings, err = w.validate(ctx, tree); err != nil {
			return err
		}
	}
	if len(findings) > 0 {
		return w.reject(ctx, tree, pull, findings)
	}
	snap := v.within(w.snapshot(state, tree), state)
	return pgx.BeginFunc(ctx, w.Desired.DB, func(tx pgx.Tx) error {
		c := w.change(state, snap)
		if c.Diff, err = w.Desired.Preview(ctx, tx, snap); err != nil {
			return err
		}
		made, err := w.Change.Make(ctx, tx, c)
		if err != nil {
			return err
		}
		if !made.Plan.Empty() {
			from := originOf(snap.Meta)
			from.Author, from.Pull = cmp.Or(pull.AuthorEmail, from.Author), pull.Number
			if _, err := w.Change.Store(ctx, tx, made, from); err != nil {
				return err
			}
		}
		shown := made.Plan
		if pull.Fork {
			shown = shown.Public()
		}
		return w.Reports.Put(ctx, tx, reviewed(w.spec.Name, tree.Commit, pull.Number, shown))
	})
}

func (w *watcher) reject(ctx context.Context, tree source.Tree, pull forge.Pull, findings []desired.Finding) error {
	p := preview.Plan{Source: w.spec.Name, Repository: w.spec.Repository, Commit: tree.Commit, Findings: findings, Summary: counted(len(findings), "finding")}
	first := findings[0].String()
	return pgx.BeginFunc(ctx, w.Desired.DB, func(tx pgx.Tx) error {
		return w.Reports.Put(ctx, tx, []forge.Report{
			forge.OfCommit(w.spec.Name, tree.Commit, forge.Status{Context: forge.ContextValidate, State: forge.Failure, Text: first}),
			forge.OfPull(w.spec.Name, pull.Number, p.Markdown()),
		})
	})
}

// reviewed returns the reports for a valid pull request. A change that needs an approval does not
// fail the check: the pull request may be merged, and the revision waits then.
func reviewed(source, commit string, pull int, p preview.Plan) []forge.Report {
	of := func(context string, state forge.State, text string) forge.Report {
		return forge.OfCommit(source, commit, forge.Status{Context: context, State: state, Text: text})
	}
	policy := of(forge.ContextPolicy, forge.Success, "no objections")
	switch {
	case len(p.Findings) > 0:
		policy = of(forge.ContextPolicy, forge.Failure, p.Findings[0].String())
	case len(p.Waits) > 0:
		policy = of(forge.ContextPolicy, forge.Success, "will wait for approval: "+p.Waits[0].Message)
	}
	return []forge.Report{
		of(forge.ContextValidate, forge.Success, counted(p.Objects, "object")), of(forge.ContextPlan, forge.Success, p.Summary), policy,
		forge.OfPull(source, pull, p.Markdown()),
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func resultOf(rev revision.Revision, err error) string {
	switch {
	case errs.CodeOf(err) == errs.Unavailable || errs.CodeOf(err) == errs.NotFound:
		return "unreachable"
	case err != nil:
		return "error"
	case rev.Status == "":
		return "unchanged"
	}
	return rev.Status
}
