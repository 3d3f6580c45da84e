package s3

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/listing"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// keyRange selects keys: those with a prefix that are greater than after. Keys with a slash behind the prefix are one common
// prefix each where folders is set.
type keyRange struct {
	prefix, after string
	folders       bool
	limit         int
}

// entry is a file, a common prefix, or an empty folder.
type entry struct {
	key    string
	object storage.Object
	common bool
}

// list returns a page of keys in the sequence of their bytes, and whether there are more.
func (c *call) list(l keyRange) (page []entry, more bool, err error) {
	own := c.use.Prefix.String() + "/"
	switch {
	case !utf8.ValidString(l.prefix+l.after) || strings.ContainsRune(l.prefix+l.after, 0):
		return nil, false, fault.New(fault.InvalidArgument, "A prefix or marker is not UTF-8.")
	case len(c.use.Prefix) == 0 || strings.HasPrefix(l.prefix, own):
	case !strings.HasPrefix(own, l.prefix):
		return nil, false, outside()
	case l.folders: // a folder above that of the key
		next := own[:len(l.prefix)+strings.Index(own[len(l.prefix):], "/")+1]
		if next <= l.after || l.limit == 0 {
			return nil, false, nil
		}
		return []entry{{key: next, common: true}}, false, nil
	default:
		l.prefix = own
	}
	if l.limit == 0 {
		return nil, false, nil
	}
	w := walker{keyRange: l}
	err = w.walk(c.ctx(), c.Storage, c.scope())
	if len(w.page) > l.limit {
		return w.page[:l.limit], true, err
	}
	return w.page, false, err
}

func outside() error {
	return fault.New(fault.AccessDenied, "The access key is limited to another prefix.")
}

// walker collects a page.
type walker struct {
	keyRange

	page    []entry
	pending *entry // a folder, of which it is not known yet whether it is empty
}

// walk reads the folder of the prefix. A prefix that can be no path has no keys.
func (w *walker) walk(ctx context.Context, s *storage.Service, at storage.Scope) error {
	base := w.prefix[:strings.LastIndexByte(w.prefix, '/')+1]
	folder, err := objectpath.ParseFolder("prefix", base)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	start, possible := w.start(base)
	if !possible {
		return nil
	}
	if base != "" && base == w.prefix && base > w.after {
		w.pending = &entry{key: base} // listed only if nothing is in it
	}
	q := listing.Query{Folder: folder, Recursive: !w.folders, After: listing.Position{Path: start}, Limit: min(w.limit+2, 1000)}
	for {
		list, err := listing.Service{Service: s}.List(ctx, at, q)
		if errs.CodeOf(err) == errs.StorageObjectNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range list {
			if w.add(o); len(w.page) > w.limit {
				return nil
			}
			if !strings.HasPrefix(keyOf(o), w.prefix) {
				return nil
			}
		}
		if len(list) < q.Limit {
			break
		}
		q.After = listing.PositionOf(list[len(list)-1], q)
	}
	if w.pending != nil && w.pending.key == base {
		if w.pending.object, err = s.Stat(ctx, at, folder); err != nil {
			return err
		}
	}
	w.flush("")
	return nil
}

func keyOf(o storage.Object) string {
	if o.Type == storage.Folder {
		return o.Path.String() + "/"
	}
	return o.Path.String()
}

// add adds an object. A folder is listed as a key only if nothing is in it: S3 has no folders, and a tool that copies all
// keys creates those that are not empty by their files.
func (w *walker) add(o storage.Object) {
	key := keyOf(o)
	w.flush(key)
	switch {
	case !strings.HasPrefix(key, w.prefix):
	case o.Type == storage.File:
		w.page = append(w.page, entry{key: key, object: o})
	case w.folders:
		w.page = append(w.page, entry{key: key, common: true})
	default:
		w.pending = &entry{key: key, object: o}
	}
}

// flush lists the pending folder unless the next key is in it.
func (w *walker) flush(next string) {
	if w.pending != nil && !strings.HasPrefix(next, w.pending.key) && w.pending.key > w.after {
		w.page = append(w.page, *w.pending)
	}
	w.pending = nil
}

// start returns the place in the folder base after which the first key is, or false where no key can be greater.
func (w *walker) start(base string) (string, bool) {
	before := predecessor(w.prefix[len(base):])
	switch {
	case w.after < w.prefix:
		return before, true
	case !strings.HasPrefix(w.after, base):
		return "", false
	}
	return max(before, w.after[len(base):]), true
}

// last is greater than every character of a name.
const last = "\U0010FFFF"

// predecessor returns a text that is less than every name with a prefix, and not less than the names before them.
func predecessor(prefix string) string {
	if prefix == "" {
		return ""
	}
	r, size := utf8.DecodeLastRuneInString(prefix)
	rest := prefix[:len(prefix)-size]
	switch r {
	case 1: // no name contains a lower one
		return rest
	case 0xE000:
		r = 0xD800 // the surrogates before it are no characters
	}
	return rest + string(r-1) + last
}

// within rejects a path outside of the prefix of the access key.
func (c *call) within(p objectpath.Path) error {
	if !c.use.Prefix.Contains(p) || len(c.use.Prefix) > 0 && slices.Equal(c.use.Prefix, p) {
		return outside()
	}
	return nil
}
