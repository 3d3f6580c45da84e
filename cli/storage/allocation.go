package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/access"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

const (
	// allocationPrefix begins the argument alloc:NAME:PATH.
	allocationPrefix = "alloc:"
	// bufferedParts bounds the memory for the parts of a file of an allocation.
	bufferedParts = 4
)

// allocationPlace reads alloc:NAME:PATH. A relative path begins in the home directory.
func allocationPlace(arg string) (p place, ok bool, err error) {
	rest, ok := strings.CutPrefix(arg, allocationPrefix)
	name, text, named := strings.Cut(rest, ":")
	if !ok || !named || strings.Contains(name, "/") {
		return place{}, false, nil
	}
	if name == "" {
		return place{}, true, output.UsageError("%q names no allocation; it is alloc:NAME:PATH", arg)
	}
	if strings.ContainsAny(text, "\x00\n") {
		return place{}, true, output.UsageError("%q has a line break; the path of an allocation has none", arg)
	}
	p = place{allocation: name, path: path.Clean("./" + text), folder: text == "" || strings.HasSuffix(text, "/")}
	if path.IsAbs(text) {
		p.path = path.Clean(text)
	}
	return p, true, nil
}

// allocationFile describes the file or folder at a path of an allocation.
type allocationFile struct {
	kind   string // "file", "folder", "other"; empty: nothing
	size   int64
	sha256 []byte
}

// statFile reads what is at a path. The SHA-256 of a file is computed in the allocation.
func statFile(ctx context.Context, sh *access.Shell, name string) (f allocationFile, err error) {
	q := access.Quote(name)
	var out bytes.Buffer
	command := fmt.Sprintf("if test -d %[1]s; then echo folder; elif test -f %[1]s; then echo file && wc -c <%[1]s && sha256sum <%[1]s; elif test -e %[1]s; then echo other; fi", q)
	if err := sh.Run(ctx, command, nil, &out); err != nil {
		return f, err
	}
	words := strings.Fields(out.String())
	if len(words) == 0 {
		return f, nil
	}
	if f.kind = words[0]; f.kind != "file" {
		return f, nil
	}
	if len(words) < 3 {
		return f, fmt.Errorf("the allocation %s printed %q about %s", sh.Name, out.String(), name)
	}
	f.size, err = strconv.ParseInt(words[1], 10, 64)
	if err == nil {
		f.sha256, err = hex.DecodeString(words[2])
	}
	return f, err
}

// listing prints the size and the path of each file below the present folder, and the path of what is neither file nor folder.
const listing = `find . -type f -exec sh -c 'for f do printf "%s %s\0" "$(wc -c <"$f")" "$f"; done' sh {} + && find . ! -type f ! -type d -exec printf 'skip %s\0' {} ';'`

// allocationTree returns the sizes of the files below a folder by their relative path.
func (t *transfer) allocationTree(ctx context.Context, sh *access.Shell, folder string) (map[string]int64, error) {
	var out bytes.Buffer
	if err := sh.Run(ctx, "cd -- "+access.Quote(folder)+" && "+listing, nil, &out); err != nil {
		return nil, err
	}
	files := map[string]int64{}
	for line := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		size, name, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		name = strings.TrimPrefix(name, "./")
		if size == "skip" {
			t.a.Notify("skipped %s: not a file", output.CellText(path.Join(folder, name)))
			continue
		}
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the allocation %s printed %q", sh.Name, line)
		}
		files[name] = n
	}
	return files, nil
}

// shell returns the connection with an allocation. All paths of a command are of one.
func (p *copyPlan) shell(ctx context.Context, name string) (*access.Shell, error) {
	if p.allocation == nil {
		sh, err := p.open(ctx, name)
		if err != nil {
			return nil, err
		}
		p.allocation = sh
	}
	if p.allocation.Name != name {
		return nil, output.UsageError("the paths are of the allocations %s and %s; copy them with two commands", p.allocation.Name, name)
	}
	return p.allocation, nil
}

// addAllocation adds what a path of an allocation names. The destination is of a project.
func (p *copyPlan) addAllocation(ctx context.Context, from place) error {
	sh, err := p.shell(ctx, from.allocation)
	if err != nil {
		return err
	}
	f, err := statFile(ctx, sh, from.path)
	if err != nil {
		return err
	}
	to := p.target(path.Base(from.path))
	switch {
	case f.kind == "file":
		return p.addSend(sh, from, f.size, to)
	case f.kind == "":
		return &output.CommandError{Message: "there is no file at " + from.String(), Code: string(errs.NotFound), Try: "gpuaas ssh " + sh.Name + " -- ls", Exit: output.ExitNotFound}
	case f.kind != "folder":
		return output.UsageError("%s is not a file", from)
	case !p.recursive:
		return output.UsageError("%s is a folder; copy it with -r", from)
	}
	files, err := p.allocationTree(ctx, sh, from.path)
	for _, rel := range output.SortedKeys(files) {
		if err == nil {
			err = p.addSend(sh, from.below(rel), files[rel], to.below(rel))
		}
	}
	return err
}

func (p *copyPlan) addSend(sh *access.Shell, from place, size int64, to place) error {
	if _, err := objectpath.Parse("path", to.path); err != nil {
		return err
	}
	p.steps = append(p.steps, step{"upload " + from.String() + " to " + to.String(), size, func(ctx context.Context) error { return p.sendFrom(ctx, sh, from.path, to) }})
	return nil
}

// errChanged means that a file of an allocation was written while it was copied.
var errChanged = &output.CommandError{Message: "the file has changed while it was copied", Code: string(errs.Conflict), Try: "the same command again", Exit: output.ExitConflict}

// sendFrom uploads a file of an allocation. Its bytes pass through memory. A large one continues an interrupted upload, as send
// does: what the server has is read again and not sent.
func (t *transfer) sendFrom(ctx context.Context, sh *access.Shell, name string, to place) error {
	f, err := statFile(ctx, sh, name)
	if err != nil {
		return err
	}
	if f.kind != "file" {
		return errChanged
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, w := io.Pipe()
	go func() { _ = w.CloseWithError(sh.Run(ctx, "cat <"+access.Quote(name), nil, w)) }()
	s := summed{size: f.size, part: partSizeOf(f.size), whole: f.sha256}
	if f.size >= t.large {
		return t.sendStream(ctx, body, s, to)
	}
	text, err := io.ReadAll(io.LimitReader(body, t.large+1))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], f.sha256) || int64(len(text)) != f.size {
		return errChanged
	}
	return t.sendWhole(ctx, bytes.NewReader(text), s, to)
}

// sendStream uploads in parts what can be read once.
func (t *transfer) sendStream(ctx context.Context, from io.Reader, s summed, to place) error {
	u, err := t.find(ctx, s, to)
	if err != nil {
		return err
	}
	has, err := t.arrived(ctx, u, to)
	if err != nil {
		return err
	}
	sum, err := t.sendBuffered(ctx, u, io.LimitReader(from, s.size), s, has, to)
	if err == nil && !bytes.Equal(sum, s.whole) {
		err = errChanged
	}
	if errors.Is(err, errChanged) {
		_, abort := client.Change[struct{}](ctx, t.c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return t.c.AbortStorageUpload(ctx, u, nil, to.in(t.c), once)
		})
		return errors.Join(err, abort)
	}
	if err != nil {
		return err
	}
	return t.complete(ctx, u, s.size, to)
}

// sendBuffered reads part after part, and sends those that the server lacks. It returns the SHA-256 of all bytes.
func (t *transfer) sendBuffered(ctx context.Context, u uuid.UUID, from io.Reader, s summed, has map[int]string, to place) ([]byte, error) {
	whole := sha256.New()
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(min(t.parallel, bufferedParts))
	var read error
	for number, offset := 1, int64(0); offset < s.size && ctx.Err() == nil; number, offset = number+1, offset+s.part {
		body := make([]byte, min(s.part, s.size-offset))
		if _, read = io.ReadFull(from, body); read != nil {
			if errors.Is(read, io.ErrUnexpectedEOF) || errors.Is(read, io.EOF) {
				read = errChanged // it is shorter now
			}
			break
		}
		_, _ = whole.Write(body)
		sum := sha256.Sum256(body)
		p := oapi.StoragePartRequest{Number: number, SizeBytes: int64(len(body)), Sha256: hex.EncodeToString(sum[:])}
		if has[number] == p.Sha256 {
			t.progress.done.Add(p.SizeBytes)
			continue
		}
		all.Go(func() error {
			targets, err := t.targets(ctx, u, []oapi.StoragePartRequest{p}, to)
			if err != nil {
				return err
			}
			return t.sendPart(ctx, u, targets[0], p, io.NewSectionReader(bytes.NewReader(body), 0, p.SizeBytes), to)
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return whole.Sum(nil), read
}

// addReceive adds the copy of a file of a project to an allocation.
func (p *copyPlan) addReceive(from place, o oapi.StorageObject, to place) error {
	from.path = o.Path
	sh := p.allocation
	p.steps = append(p.steps, step{"download " + from.String() + " to " + to.String(), o.SizeBytes, func(ctx context.Context) error { return p.receiveInto(ctx, from, o, sh, to.path) }})
	return nil
}

// receiveInto writes a file of an allocation. It appears as a whole, after the SHA-256 was compared in the allocation.
func (t *transfer) receiveInto(ctx context.Context, p place, o oapi.StorageObject, sh *access.Shell, to string) error {
	dir, partial := path.Dir(to), path.Join(path.Dir(to), "."+path.Base(to)+"."+strings.Trim(o.Etag, `"`)+".part")
	sum, printed := sha256.New(), &bytes.Buffer{}
	body := &continued{ctx: ctx, t: t, p: p, o: o}
	defer body.close()
	write := fmt.Sprintf("mkdir -p -- %s && cat >%[2]s && sha256sum <%[2]s", access.Quote(dir), access.Quote(partial))
	in := &gate{r: io.TeeReader(t.counted(body), sum)}
	err := sh.Run(ctx, write, in, printed)
	in.end()
	want := output.ValueOrZero(o.Sha256)
	if got := hex.EncodeToString(sum.Sum(nil)); want == "" {
		want = got
	}
	switch {
	case body.err != nil:
		err = body.err
	case err == nil && !strings.HasPrefix(printed.String(), want+" "):
		err = errOtherBytes
	}
	if err != nil {
		_ = sh.Run(context.WithoutCancel(ctx), "rm -f -- "+access.Quote(partial), nil, io.Discard)
		return err
	}
	return sh.Run(ctx, "mv -f -- "+access.Quote(partial)+" "+access.Quote(to), nil, io.Discard)
}

// continued reads a file of a project. It goes on after a download that broke off.
type continued struct {
	ctx  context.Context //nolint:containedctx // of one step
	t    *transfer
	p    place
	o    oapi.StorageObject
	body io.ReadCloser
	at   int64
	try  int
	err  error // that ended it early
}

func (c *continued) Read(b []byte) (int, error) {
	for c.at < c.o.SizeBytes && c.err == nil {
		if c.body == nil && !c.connect() {
			break
		}
		n, err := c.body.Read(b)
		c.at += int64(n)
		if err != nil {
			c.close()
		}
		if n > 0 {
			return n, nil
		}
		if err != nil && c.try >= directTries {
			c.err = &brokenOffError{err}
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	return 0, io.EOF
}

// connect requests the rest. A response from the beginning is of another file.
func (c *continued) connect() bool {
	c.try++
	body, from, err := open(c.ctx, c.t.c, c.p, c.at, c.o.Etag)
	if err == nil && from != c.at {
		err = errors.Join(errChanged, body.Close())
	}
	c.body, c.err = body, err
	return err == nil
}

func (c *continued) close() {
	if c.body != nil {
		_ = c.body.Close()
		c.body = nil
	}
}
