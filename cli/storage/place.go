package storage

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// place is a file or folder that an argument names: of a project, of an allocation, or of the local machine.
type place struct {
	remote     bool
	allocation string // the path is in it
	project    string // empty: that of the profile
	path       string // without a slash at its end
	folder     bool   // the argument ends with a slash
}

// String returns the argument.
func (p place) String() string {
	if p.allocation != "" {
		return allocationPrefix + p.allocation + ":" + p.path
	}
	if p.remote {
		return p.project + ":" + p.path
	}
	return p.path
}

// parsePlace reads an argument of cp and sync. Like that of scp, a remote one has a colon before its first slash.
func parsePlace(arg string) (place, error) {
	if p, ok, err := allocationPlace(arg); ok {
		return p, err
	}
	project, rest, remote := strings.Cut(arg, ":")
	if remote && !strings.Contains(project, "/") {
		return remotePlace(project, rest)
	}
	if arg == "" {
		return place{}, output.UsageError("a path is empty")
	}
	return place{path: cmp.Or(strings.TrimRight(arg, "/"), "/"), folder: strings.HasSuffix(arg, "/")}, nil
}

// parseRemote reads an argument of a command that has only remote paths.
func parseRemote(arg string) (place, error) {
	project, rest, named := strings.Cut(arg, ":")
	if !named || strings.Contains(project, "/") {
		return remotePlace("", arg)
	}
	return remotePlace(project, rest)
}

func remotePlace(project, text string) (place, error) {
	p := place{remote: true, project: project, path: strings.Trim(text, "/"), folder: strings.HasSuffix(text, "/") || text == ""}
	if p.path != "" && !globbed(p.path) {
		if _, err := objectpath.Parse("path", p.path); err != nil {
			return place{}, err
		}
	}
	return p, nil
}

func globbed(text string) bool { return strings.ContainsAny(text, `*?[`) }

// below returns the place of a path below a folder.
func (p place) below(rel string) place {
	p.path, p.folder = path.Join(p.path, rel), false
	return p
}

func (p place) base() string { return path.Base(p.path) }

// in names the project of a request.
func (p place) in(c *client.Client) oapi.RequestEditorFn {
	return func(ctx context.Context, r *http.Request) error {
		if p.project == "" {
			return c.InProject(ctx, r)
		}
		r.Header.Set("X-Project-ID", p.project)
		return nil
	}
}

// stat returns the object at a place, or false.
func stat(ctx context.Context, c *client.Client, p place) (oapi.StorageObject, bool, error) {
	if p.path == "" {
		return oapi.StorageObject{Type: oapi.Folder}, true, nil
	}
	got, err := client.Send[oapi.StorageObject](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.StatStorage(ctx, &oapi.StatStorageParams{Path: p.path}, p.in(c))
	})
	if client.CodeOf(err) == errs.StorageObjectNotFound {
		return oapi.StorageObject{}, false, nil
	}
	return got.Value, err == nil, err
}

// pager returns the pages of a folder.
func pager(c *client.Client, p place, recursive bool) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params := oapi.ListStorageParams{Limit: size, Cursor: cursor, Prefix: output.PointerOrNil(p.path), Recursive: output.PointerOrNil(recursive)}
		return c.ListStorage(ctx, &params, p.in(c))
	}
}

// expand returns the objects that a place names. A name with *, ? or [ is a pattern, unless there is an object with that name.
func expand(ctx context.Context, c *client.Client, p place) ([]oapi.StorageObject, error) {
	if p.path == "" {
		return []oapi.StorageObject{{Type: oapi.Folder}}, nil
	}
	if _, err := objectpath.Parse("path", p.path); err == nil {
		o, found, err := stat(ctx, c, p)
		if err != nil || found {
			return []oapi.StorageObject{o}, err
		}
	}
	if !globbed(p.path) {
		return nil, notThere(p)
	}
	found := []oapi.StorageObject{{Type: oapi.Folder}}
	for pattern := range strings.SplitSeq(p.path, "/") {
		var err error
		if found, err = matches(ctx, c, p, found, pattern); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, notThere(p)
	}
	return found, nil
}

// matches returns the objects of some folders that match a pattern.
func matches(ctx context.Context, c *client.Client, p place, in []oapi.StorageObject, pattern string) (found []oapi.StorageObject, err error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, output.UsageError("%q is not a pattern: %v", pattern, err)
	}
	for _, folder := range in {
		if folder.Type != oapi.Folder {
			continue
		}
		p.path = folder.Path
		all, err := client.ReadAll[oapi.StorageObject](ctx, c, 0, pager(c, p, false))
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(all.Items, func(o oapi.StorageObject) bool {
			ok, _ := path.Match(pattern, o.Name) // it was compared once without an error
			return !ok
		})...)
	}
	return found, nil
}

func notThere(p place) error {
	return &output.CommandError{
		Message: "there is no stored object at " + p.String(), Code: string(errs.StorageObjectNotFound), Try: "gpuaas storage ls", Exit: output.ExitNotFound,
	}
}
