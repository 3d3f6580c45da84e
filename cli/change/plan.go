// Package change contains the commands that change desired state: validate, plan, apply, approve, put,
// delete, adopt, suspend, policies and environments.
package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// proposal is a change whose effects the user wants to preview.
type proposal struct {
	source, commit, author string
}

func (p *proposal) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.source, "source", "", "the files are the complete tree of this Git source; without it the API owns the objects")
}

func (p *proposal) record(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.commit, "commit", "", "the commit that they are of, for the record")
	cmd.Flags().StringVar(&p.author, "author", "", "author of the change, stored with the plan")
}

// plan requests the effect of the files under the paths.
func (p *proposal) plan(ctx context.Context, c *client.Client, paths []string) (planned, error) {
	files, err := planFiles(ctx, paths)
	if err != nil {
		return planned{}, err
	}
	r := oapi.PlanRequest{Source: output.PointerOrNil(p.source), Commit: output.PointerOrNil(strings.ToLower(p.commit)), Author: output.PointerOrNil(p.author), Files: files}
	got, err := client.Change[oapi.PlanDetail](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.CreatePlan(ctx, nil, r, once)
	})
	if err != nil {
		return planned{}, findInvalidFiles(err)
	}
	return plannedFrom(got)
}

// planned is a plan of the API, with its change in the form that gitops/preview formats.
type planned struct {
	client.Response[oapi.PlanDetail]

	change preview.Plan
}

func plannedFrom(got client.Response[oapi.PlanDetail]) (planned, error) {
	p := planned{Response: got}
	var document struct {
		Change *preview.Plan `json:"change"`
	}
	if err := json.Unmarshal(got.Raw, &document); err != nil {
		return p, fmt.Errorf("the response of the server does not match the contract: %w", err)
	}
	if document.Change == nil {
		return p, errs.New(errs.Conflict, "plan %s is a plan of the control loop, not a change", got.Value.Id).Try("gpuaas describe plan/%s", got.Value.Id)
	}
	p.change = *document.Change
	p.change.Hash = got.Value.Hash
	return p, nil
}

// planFiles reads files as a server would, by their path within the repository.
func planFiles(ctx context.Context, paths []string) (map[string]string, error) {
	files := map[string][]byte{}
	for _, name := range paths {
		tree, err := source.ReadPath(ctx, name, source.DefaultLimits())
		switch {
		case errs.CodeOf(err) == errs.NotFound:
			f := output.UsageError("no file or folder at %s", name)
			f.Try = "gpuaas plan environments/dev --source fleet"
			return nil, f
		case err != nil:
			return nil, err
		case len(tree.Findings) > 0:
			return nil, &invalidFilesError{findings: tree.Findings}
		}
		maps.Copy(files, tree.Files)
	}
	all := make(map[string]string, len(files))
	for name, body := range files {
		all[inRepository(name)] = string(body)
	}
	return all, nil
}

// inRepository is a file's path as a commit would have it. Outside any checkout it
// is the one that was typed.
func inRepository(name string) string {
	full, err := filepath.Abs(name)
	if err != nil {
		return path.Clean(filepath.ToSlash(name))
	}
	for dir := filepath.Dir(full); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			if inside, err := filepath.Rel(dir, full); err == nil {
				return filepath.ToSlash(inside)
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return strings.TrimLeft(strings.TrimPrefix(path.Clean(filepath.ToSlash(name)), "../"), "/")
}

// invalidFilesError is an error about files that cannot be applied, with the positions of its findings.
type invalidFilesError struct {
	findings []desired.Finding
	cause    *output.CommandError // the server's error, if the server rejected the files
}

func (r *invalidFilesError) Error() string {
	return "the files have " + output.CountOf(len(r.findings), "finding")
}

// findInvalidFiles extracts the positions from the server's error.
func findInvalidFiles(err error) error {
	f, ok := errors.AsType[*output.CommandError](err)
	if !ok || errs.Code(f.Code) != errs.SpecInvalid {
		return err
	}
	raw, _ := json.Marshal(f.Details["findings"]) // it came as JSON
	r := &invalidFilesError{cause: f}
	if json.Unmarshal(raw, &r.findings) != nil || len(r.findings) == 0 {
		return err
	}
	return r
}

// places prints what is wrong where, and makes an error of it.
func places(a *output.Console, r *invalidFilesError) error {
	for _, f := range r.findings {
		if _, err := fmt.Fprintln(a.Out, output.OneLine(f.String())); err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
	}
	f := &output.CommandError{Message: r.Error(), Code: output.CodeFindings, Try: "correct the places above; gpuaas validate DIR finds them without a server", Exit: output.ExitFailure}
	if r.cause != nil {
		f.Correlation = r.cause.Correlation
	}
	return f
}

const planText = `Previews a change: the objects and fields, the affected tenants, the cost, and the approvals
that it needs. The command changes nothing. With --source the files represent the complete
tree of that Git source, and the change deletes objects that they do not contain. Without
--source they represent objects that the API owns. The server stores the plan, so that it
can be applied or approved as it was displayed.

-o is text, json, yaml, name, or markdown (a comment on a pull request). With
--detailed-exitcode the command ends with 0 without changes, 2 with changes, and 1 after a
failure.`

func NewPlan(a *output.Console) *cobra.Command {
	p := proposal{}
	var detailed bool
	var file string
	cmd := &cobra.Command{
		Use: "plan DIR|FILE…", Short: "Preview the effect of a change", Long: planText, Args: cobra.MinimumNArgs(1),
		Annotations: map[string]string{output.MoreOutputs: "text,markdown"},
		Example:     "  gpuaas plan environments/production --source fleet\n  gpuaas plan fleet --source fleet --commit 9f3c2d1e -o markdown --comment-file comment.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			got, err := p.plan(cmd.Context(), c, args)
			if wrong, ok := errors.AsType[*invalidFilesError](err); ok {
				return reportInvalid(a, p, wrong, file)
			}
			if err != nil {
				return err
			}
			if err := commentInto(file, got.change); err != nil {
				return err
			}
			return showProposed(a, got, detailed)
		},
	}
	p.flags(cmd)
	p.record(cmd)
	cmd.Flags().BoolVar(&detailed, DetailedExit, false, "end with 2 if there are changes")
	cmd.Flags().StringVar(&file, "comment-file", "", "file for the plan as a comment on a pull request")
	return cmd
}

// DetailedExit is the flag with which every failure, usage errors included, exits with 1. Exit code
// 2 means that the plan has changes.
const DetailedExit = "detailed-exitcode"

func showProposed(a *output.Console, got planned, detailed bool) error {
	if err := showChange(a, got); err != nil {
		return err
	}
	switch {
	case len(got.change.Findings) > 0:
		return inapplicable(got.change)
	case detailed && !got.change.Empty():
		return &output.CommandError{Exit: output.ExitChanges, Silent: true}
	}
	return nil
}

func inapplicable(p preview.Plan) error {
	return &output.CommandError{Message: "the change cannot be applied: " + p.Findings[0].String(), Code: output.CodeFindings, Try: "correct the places above", Exit: output.ExitFailure}
}

// reportInvalid reports files from which no plan can be made, also in the comment.
func reportInvalid(a *output.Console, p proposal, wrong *invalidFilesError, file string) error {
	told := preview.Plan{Source: p.source, Commit: p.commit, Findings: wrong.findings, Summary: wrong.Error()}
	if err := commentInto(file, told); err != nil {
		return err
	}
	if a.Format() == "markdown" {
		_, err := io.WriteString(a.Out, comment(told))
		return errors.Join(&output.CommandError{Message: wrong.Error(), Code: output.CodeFindings, Try: "correct the places above", Exit: output.ExitFailure}, err)
	}
	return places(a, wrong)
}

// comment starts with the server's marker for forge comments, so that the later writer edits the
// comment of the earlier one.
func comment(p preview.Plan) string { return forge.Marker(p.Source) + "\n" + p.Markdown() }

func commentInto(file string, p preview.Plan) error {
	if file == "" {
		return nil
	}
	_, err := client.WriteWhole(file, func(to io.Writer) (int64, error) {
		n, err := io.WriteString(to, comment(p))
		return int64(n), err
	})
	return err
}

// showChange prints a plan in the requested format.
func showChange(a *output.Console, p planned) error {
	switch a.Format() {
	case "markdown":
		_, err := io.WriteString(a.Out, comment(p.change))
		return err
	case "text", "table", "wide":
		if err := p.change.Text(a.Out); err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
		a.Notify("plan/%s, %s", p.Value.Id, p.Value.Status)
		return nil
	default:
		return a.Show(p.Raw, planTable(a.Clock.Now(), []oapi.Plan{briefly(p.Value)}))
	}
}

// ShowPlan prints any plan: a change as one, the loop's own as its steps.
func ShowPlan(a *output.Console, got client.Response[oapi.PlanDetail]) error {
	if got.Value.Change == nil {
		return a.Show(got.Raw, planTable(a.Clock.Now(), []oapi.Plan{briefly(got.Value)}))
	}
	p, err := plannedFrom(got)
	if err != nil {
		return err
	}
	return showChange(a, p)
}

// briefly returns a plan without its details, as lists contain it.
func briefly(p oapi.PlanDetail) oapi.Plan {
	return oapi.Plan{
		Id: p.Id, CreatedAt: p.CreatedAt, Status: oapi.PlanStatus(p.Status), Hash: p.Hash, Actions: p.Actions, Blocked: p.Blocked, Source: p.Source, Commit: p.Commit,
		PullRequest: p.PullRequest, Author: p.Author, Summary: p.Summary, DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt, Decision: p.Decision, AppliedAt: p.AppliedAt,
	}
}
