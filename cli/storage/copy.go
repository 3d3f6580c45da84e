package storage

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/access"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

const defaultParallel = 8

const copyText = `Copies files between the local machine and a project, between an allocation and a project, or within
a project. At least one path is of a project: PROJECT:PATH, or :PATH in the project of the profile.
alloc:NAME:PATH is a path of an allocation, which gpuaas ssh must reach; the bytes pass through this
computer and are not stored here. SHA-256 is compared at both ends. A large file is sent in parts,
and the same command continues after an interruption. Symbolic links and devices are left out.`

func newCopy(a *output.Console) *cobra.Command {
	var recursive, dry bool
	var parallel int
	cmd := &cobra.Command{
		Use: "cp SOURCE... DESTINATION", Short: "Copy files to or from a project", Long: copyText, Args: cobra.MinimumNArgs(2),
		Example: "  gpuaas storage cp train.bin default:data/\n  gpuaas storage cp -r dataset default:dataset\n  gpuaas storage cp 'default:runs/*/log.txt' logs/\n  gpuaas storage cp alloc:brave-otter:model.pt default:models/\n  gpuaas storage cp -r default:dataset alloc:brave-otter:data",
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "also folders")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be copied")
	cmd.Flags().IntVar(&parallel, "parallel", defaultParallel, "files, and parts of a large file, that are sent at the same time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		t, err := newTransfer(a, c, parallel, dry)
		if err != nil {
			return err
		}
		last := len(args) - 1
		to, err := parsePlace(args[last])
		if err != nil {
			return err
		}
		p := &copyPlan{transfer: t, to: to, recursive: recursive, open: func(ctx context.Context, name string) (*access.Shell, error) { return access.OpenShell(ctx, a, name) }}
		defer p.close()
		if err := p.into(cmd.Context(), last > 1); err != nil {
			return err
		}
		for _, arg := range args[:last] {
			if err := p.add(cmd.Context(), arg); err != nil {
				return err
			}
		}
		return t.run(cmd.Context(), p.steps)
	}
	return cmd
}

// copyPlan collects what cp copies.
type copyPlan struct {
	*transfer

	to        place
	recursive bool
	folder    bool // the destination contains the copies under their names
	// open connects with an allocation; allocation is the connection, if a path needs one.
	open       func(ctx context.Context, name string) (*access.Shell, error)
	allocation *access.Shell
	root       *os.Root
	steps      []step
}

// into finds out whether the destination is a folder.
func (p *copyPlan) into(ctx context.Context, several bool) error {
	p.folder = several || p.to.folder
	if p.to.allocation != "" {
		sh, err := p.shell(ctx, p.to.allocation)
		if err != nil || p.folder {
			return err
		}
		f, err := statFile(ctx, sh, p.to.path)
		p.folder = f.kind == "folder"
		return err
	}
	if p.folder {
		return nil
	}
	if !p.to.remote {
		info, err := os.Stat(p.to.path)
		p.folder = err == nil && info.IsDir()
		return nil
	}
	o, found, err := stat(ctx, p.c, p.to)
	p.folder = found && o.Type == oapi.Folder
	return err
}

func (p *copyPlan) close() {
	if p.root != nil {
		_ = p.root.Close()
	}
	if p.allocation != nil {
		_ = p.allocation.Close()
	}
}

// add adds what one argument names.
func (p *copyPlan) add(ctx context.Context, arg string) error {
	from, err := parsePlace(arg)
	switch {
	case err != nil:
		return err
	case !from.remote && !p.to.remote && (from.allocation != "" || p.to.allocation != ""):
		return output.UsageError("%s and %s are of no project; gpuaas scp copies between an allocation and the local machine", from, p.to)
	case !from.remote && !p.to.remote:
		return output.UsageError("%s and %s are local; a remote path is PROJECT:PATH, or :PATH", from, p.to)
	case from.allocation != "":
		return p.addAllocation(ctx, from)
	case !from.remote:
		return p.addLocal(from)
	}
	found, err := expand(ctx, p.c, from)
	if err != nil {
		return err
	}
	if len(found) > 1 && !p.folder {
		return output.UsageError("%s matches %d objects, and %s is no folder; end it with a slash", from, len(found), p.to)
	}
	for _, o := range found {
		from.path = o.Path
		if err := p.addRemote(ctx, from, o); err != nil {
			return err
		}
	}
	return nil
}

// target returns the destination of a source.
func (p *copyPlan) target(base string) place {
	if p.folder && base != "." && base != "/" {
		return p.to.below(base)
	}
	return p.to
}

func (p *copyPlan) addLocal(from place) error {
	info, err := os.Stat(from.path)
	if err != nil {
		return output.UsageError("%s cannot be read: %v", from, errors.Unwrap(err))
	}
	to := p.target(filepath.Base(from.path))
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return output.UsageError("%s is %s", from, kindOf(info.Mode()))
		}
		return p.upload(from.path, info.Size(), to)
	}
	if !p.recursive {
		return output.UsageError("%s is a folder; copy it with -r", from)
	}
	files, err := p.localTree(from.path)
	for _, rel := range output.SortedKeys(files) {
		if err == nil {
			err = p.upload(filepath.Join(from.path, filepath.FromSlash(rel)), files[rel].Size(), to.below(rel))
		}
	}
	return err
}

// upload adds a file, if its name is possible.
func (p *copyPlan) upload(from string, size int64, to place) error {
	if _, err := objectpath.Parse("path", to.path); err != nil {
		return err
	}
	p.steps = append(p.steps, p.sendStep(from, size, to))
	return nil
}

func (p *copyPlan) addRemote(ctx context.Context, from place, o oapi.StorageObject) error {
	to := p.target(path.Base(o.Path))
	if o.Type == oapi.File {
		return p.copyOne(from, o, to)
	}
	if !p.recursive {
		return output.UsageError("%s is a folder; copy it with -r", from)
	}
	files, err := p.remoteTree(ctx, from)
	for _, rel := range output.SortedKeys(files) {
		if err == nil {
			err = p.copyOne(from, files[rel], to.below(rel))
		}
	}
	return err
}

// copyOne adds a download, or a copy within a project.
func (p *copyPlan) copyOne(from place, o oapi.StorageObject, to place) error {
	if to.allocation != "" {
		return p.addReceive(from, o, to)
	}
	if !to.remote {
		rel, err := p.below(to.path)
		if err == nil {
			p.steps = append(p.steps, p.receiveStep(from, o, p.root, rel))
		}
		return err
	}
	if from.project != to.project {
		return output.UsageError("%s and %s are of two projects; copy the files to a local folder first", from, to)
	}
	p.steps = append(p.steps, step{"copy " + o.Path + " to " + to.path, o.SizeBytes, func(ctx context.Context) error {
		_, err := client.Change[oapi.StorageObject](ctx, p.c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return p.c.CopyStorage(ctx, nil, oapi.StorageRenameRequest{From: o.Path, To: to.path}, from.in(p.c), once)
		})
		return err
	}})
	return nil
}

// below opens the folder that no download leaves, and returns the path in it.
func (p *copyPlan) below(to string) (string, error) {
	dir := p.to.path
	if !p.folder && to == dir {
		dir = filepath.Dir(dir)
	}
	if p.root == nil {
		if err := makeLocal(dir, p.dry); err != nil {
			return "", err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		p.root = root
	}
	rel, err := filepath.Rel(dir, to)
	return filepath.ToSlash(rel), err
}

// makeLocal creates the folder of downloads.
func makeLocal(dir string, dry bool) error {
	if _, err := os.Stat(dir); err == nil || !dry {
		return os.MkdirAll(dir, 0o755) //nolint:gosec // as mkdir does
	}
	return output.UsageError("the folder %s does not exist", dir)
}
