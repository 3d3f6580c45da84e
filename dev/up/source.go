package up

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/environments"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// readFleet finds where the fleet is declared and validates it, before anything
// is written anywhere.
func (i *installation) readFleet(ctx context.Context) error {
	source, err := findSource(i.cfg)
	if err != nil {
		return err
	}
	tree, objects, findings, err := source.Read(ctx)
	switch {
	case err != nil:
		return err
	case len(findings) > 0:
		return &InvalidError{findings}
	}
	for _, o := range objects {
		if o.Kind == desired.KindEnvironment {
			if err := json.Unmarshal(o.Spec, &i.profile); err != nil {
				return fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
			}
		}
	}
	i.source, i.objects, i.commit = source, objects, tree.Commit
	return nil
}

// findSource is the checkout that this is run in, or the files that came with
// the binary.
func findSource(cfg Config) (*sync.Root, error) {
	at := cfg.Repository
	if at == "" {
		var err error
		if at, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("finding the working directory: %w", err)
		}
	}
	folder := "environments/" + cfg.Environment
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(folder))); err == nil {
			if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
				repo, err := source.Open(dir, "HEAD", folder)
				if err != nil {
					return nil, err
				}
				return &sync.Root{Name: sync.DefaultName, Git: repo, WorkTree: true}, nil
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	files, err := environments.Files(cfg.Environment)
	if err != nil {
		return nil, err
	}
	return &sync.Root{Name: sync.DefaultName, Builtin: files}, nil
}

// apply applies the validated fleet before the first screen, which lists its nodes.
func (i *installation) apply(ctx context.Context) error {
	if i.server.Restored() {
		return nil // until the restore of the database is confirmed
	}
	rev, err := i.server.Sync(ctx)
	if err != nil {
		return err
	}
	if len(rev.Findings) > 0 {
		return &InvalidError{rev.Findings}
	}
	if len(rev.Waits) > 0 {
		return errs.New(errs.ApprovalRequired, "%s", rev.Waits[0].Message).Try("gpuaas approve %d", rev.Revision)
	}
	return i.simulate(ctx, i.generated())
}
