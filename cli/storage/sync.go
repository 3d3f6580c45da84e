package storage

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// syncPlan makes one folder equal to another.
type syncPlan struct {
	*transfer

	sizeOnly, remove bool
	steps            []step
}

func newSync(a *output.Console) *cobra.Command {
	var p syncPlan
	var dry bool
	var parallel int
	cmd := &cobra.Command{
		Use: "sync SOURCE DESTINATION", Short: "Sync a folder with another one", Args: cobra.ExactArgs(2),
		Long: `Copies the files of a folder that the other one lacks, or that have another size or SHA-256 there.
One folder is local and the other one remote: PROJECT:PATH, or :PATH. Symbolic links and devices
are left out.`,
		Example: "  gpuaas storage sync dataset default:dataset\n  gpuaas storage sync --delete default:runs runs",
	}
	flags := cmd.Flags()
	flags.BoolVar(&p.remove, "delete", false, "delete files of the destination that the source lacks")
	flags.BoolVar(&p.sizeOnly, "size-only", false, "do not compare the SHA-256")
	flags.BoolVar(&dry, "dry-run", false, "print what would change")
	flags.IntVar(&parallel, "parallel", defaultParallel, "files, and parts of a large file, that are sent at the same time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := parsePlace(args[0])
		if err != nil {
			return err
		}
		to, err := parsePlace(args[1])
		if err != nil {
			return err
		}
		if from.allocation != "" || to.allocation != "" {
			return output.UsageError("sync has no paths of allocations; gpuaas storage cp -r copies between an allocation and a project")
		}
		if from.remote == to.remote {
			return output.UsageError("one of %s and %s is remote: PROJECT:PATH, or :PATH", from, to)
		}
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		if p.transfer, err = newTransfer(a, c, parallel, dry); err != nil {
			return err
		}
		if to.remote {
			err = p.up(cmd.Context(), from, to)
		} else {
			err = p.down(cmd.Context(), from, to)
		}
		return err
	}
	return cmd
}

// up makes a remote folder equal to a local one.
func (p *syncPlan) up(ctx context.Context, from, to place) error {
	local, err := p.localTree(from.path)
	if err != nil {
		return err
	}
	remote := map[string]oapi.StorageObject{}
	if _, found, err := stat(ctx, p.c, to); err != nil {
		return err
	} else if found {
		if remote, err = p.remoteTree(ctx, to); err != nil {
			return err
		}
	}
	for _, rel := range output.SortedKeys(local) {
		name := filepath.Join(from.path, filepath.FromSlash(rel))
		equal, err := p.equal(ctx, name, local[rel], remote, rel)
		if err != nil {
			return err
		}
		target := to.below(rel)
		if _, err := objectpath.Parse("path", target.path); err != nil {
			return err
		}
		if !equal {
			p.steps = append(p.steps, p.sendStep(name, local[rel].Size(), target))
		}
	}
	for _, rel := range output.SortedKeys(remote) {
		if _, exists := local[rel]; !exists && p.remove {
			p.steps = append(p.steps, p.removal(to.below(rel)))
		}
	}
	return p.run(ctx, p.steps)
}

func (p *syncPlan) equal(ctx context.Context, name string, info fs.FileInfo, remote map[string]oapi.StorageObject, rel string) (bool, error) {
	o, exists := remote[rel]
	if !exists {
		return false, nil
	}
	return same(ctx, name, info, o, p.sizeOnly)
}

func (p *syncPlan) removal(at place) step {
	return step{"delete " + at.String(), 0, func(ctx context.Context) error {
		return remove(ctx, p.a, p.c, at, oapi.DeleteStorageParams{Path: &at.path}, false)
	}}
}

// down makes a local folder equal to a remote one.
func (p *syncPlan) down(ctx context.Context, from, to place) error {
	if _, found, err := stat(ctx, p.c, from); err != nil || !found {
		if err == nil {
			err = notThere(from)
		}
		return err
	}
	remote, err := p.remoteTree(ctx, from)
	if err != nil {
		return err
	}
	if err := makeLocal(to.path, p.dry); err != nil {
		return err
	}
	root, err := os.OpenRoot(to.path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it is a folder
	local, err := p.localTree(to.path)
	if err != nil {
		return err
	}
	for _, rel := range output.SortedKeys(remote) {
		equal := false
		if info, exists := local[rel]; exists {
			if equal, err = same(ctx, filepath.Join(to.path, filepath.FromSlash(rel)), info, remote[rel], p.sizeOnly); err != nil {
				return err
			}
		}
		if !equal {
			p.steps = append(p.steps, p.receiveStep(from, remote[rel], root, rel))
		}
	}
	for _, rel := range output.SortedKeys(local) {
		if _, exists := remote[rel]; !exists && p.remove {
			p.steps = append(p.steps, step{"delete " + filepath.Join(to.path, rel), 0, func(context.Context) error { return root.Remove(rel) }})
		}
	}
	return p.run(ctx, p.steps)
}
