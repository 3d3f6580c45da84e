package source

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	sourcesignature "github.com/gpuaas/gpuaas/gitops/source/signature"
)

// hostileCase is one repository with the code that reading it must return.
type hostileCase struct {
	name  string
	want  string // "": accepted, within the bounds
	build func(*rawPack)
	spec  func(*Spec)
}

func hostile() []hostileCase {
	var all []hostileCase
	for _, list := range [][]hostileCase{tornPacks(), bombs(), deltas(), missing(), malformedObjects(), layouts(), hostileNames(), hostileContents(), hostileServers(), unsigned()} {
		all = append(all, list...)
	}
	return all
}

// Packs that were cut or changed on their way: the server's fault or the line's,
// so it is tried again.
func tornPacks() []hostileCase {
	cutAt := func(keep func(n int) int) func(*rawPack) {
		return func(p *rawPack) {
			p.good()
			p.finish = func(all []byte) []byte { return all[:keep(len(all))] }
		}
	}
	return []hostileCase{
		{"pack: nothing", "unavailable", cutAt(func(int) int { return 0 }), nil},
		{"pack: half a header", "unavailable", cutAt(func(int) int { return 7 }), nil},
		{"pack: header only", "unavailable", cutAt(func(int) int { return 12 }), nil},
		{"pack: half an object", "unavailable", cutAt(func(n int) int { return n / 2 }), nil},
		{"pack: no checksum", "unavailable", cutAt(func(n int) int { return n - 20 }), nil},
		{"pack: half a checksum", "unavailable", cutAt(func(n int) int { return n - 7 }), nil},
		{"pack: one bit turned", "unavailable", func(p *rawPack) {
			p.good()
			p.finish = func(all []byte) []byte { all[len(all)/2] ^= 1; return all }
		}, nil},
		{"pack: one bit turned, checksum recomputed", "unavailable", func(p *rawPack) {
			p.good()
			p.finish = func(all []byte) []byte { all[len(all)-26] ^= 0x10; return resummed(all[:len(all)-20]) }
		}, nil},
		{"pack: bytes behind the objects", "unavailable", func(p *rawPack) {
			p.good()
			p.finish = func(all []byte) []byte { return resummed(append(all[:len(all)-20:len(all)-20], "more"...)) }
		}, nil},
		{"pack: fewer objects than promised", "unavailable", func(p *rawPack) { p.good(); p.pretend = 10 }, nil},
		{"pack: more objects than promised", "unavailable", func(p *rawPack) { p.good(); p.pretend = 1 }, nil},
		{"pack: four billion objects promised (CVE-2025-21614)", "repository_too_large", func(p *rawPack) { p.good(); p.pretend = 1<<32 - 1 }, nil},
		{"pack: version 3", "unavailable", func(p *rawPack) { p.good(); p.version = 3 }, nil},
		{"pack: something else", "unavailable", func(p *rawPack) {
			p.good()
			p.finish = func([]byte) []byte { return []byte(strings.Repeat("<html>", 100)) }
		}, nil},
		{"pack: a kind that there is not", "unavailable", func(p *rawPack) { p.good(); p.raw(5, 1, deflated([]byte("x"))) }, nil},
		{"pack: no kind", "unavailable", func(p *rawPack) { p.good(); p.raw(0, 1, deflated([]byte("x"))) }, nil},
		{"pack: not deflated", "unavailable", func(p *rawPack) { p.good(); p.raw(3, 5, []byte("plain")) }, nil},
		{"pack: smaller than its header", "unavailable", func(p *rawPack) { p.good(); p.raw(3, 20, deflated([]byte("short"))) }, nil},
		{"pack: larger than its header", "unavailable", func(p *rawPack) { p.good(); p.raw(3, 2, deflated([]byte("longer"))) }, nil},
	}
}

const mib = 1 << 20

// Small packs that expand to large contents. They are rejected for their cost.
func bombs() []hostileCase {
	return []hostileCase{
		{"bomb: a gigabyte in a megabyte", "repository_too_large", func(p *rawPack) { p.good(); p.raw(3, 1<<30, deflatedZeros(1<<30)) }, nil},
		{"bomb: a gigabyte with a header of ten bytes", "unavailable", func(p *rawPack) { p.good(); p.raw(3, 10, deflatedZeros(1<<30)) }, nil},
		{"bomb: a size without end", "repository_too_large", func(p *rawPack) {
			p.good()
			p.body.Write([]byte("\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
			p.count++
		}, nil},
		{"bomb: many large objects", "repository_too_large", func(p *rawPack) {
			p.good()
			z := deflatedZeros(15 * mib)
			for range 60 {
				p.raw(3, 15*mib, z)
			}
		}, nil},
		{"bomb: a tree of forty megabytes", "repository_too_large", func(p *rawPack) { p.good(); p.raw(2, 40*mib, deflatedZeros(40*mib)) }, nil},
		{"bomb: a tree of ten megabytes", "too_many_files", func(p *rawPack) {
			var b strings.Builder
			for i := range 200_000 {
				b.WriteString(line40("100644", fmt.Sprintf("n%06d.yaml-and-a-longer-name", i), plumbing.ZeroHash))
			}
			p.fleet(b.String())
		}, nil},
		{"bomb: a hundred thousand files", "too_many_files", func(p *rawPack) {
			blob, dirs := p.blob("a"), ""
			var files strings.Builder
			for i := range 1000 {
				files.WriteString(line40("100644", fmt.Sprintf("n%04d.yaml", i), blob))
			}
			folder := p.tree(files.String())
			for i := range 100 {
				dirs += line40("40000", fmt.Sprintf("d%03d", i), folder)
			}
			p.fleet(dirs)
		}, nil},
		{"bomb: ten thousand million files in ten trees", "too_many_files", func(p *rawPack) {
			h := p.tree(line40("100644", "a.cue", p.blob("a")))
			for range 10 {
				h = p.tree(tenOf("40000", h))
			}
			p.fleet(line40("40000", "bomb", h))
		}, nil},
		{"bomb: as many empty folders", "too_many_files", func(p *rawPack) {
			h := p.tree()
			for range 10 {
				h = p.tree(tenOf("40000", h))
			}
			p.fleet(line40("40000", "bomb", h))
		}, nil},
		{"bomb: ten thousand levels", "too_deep", func(p *rawPack) {
			h := p.tree(line40("100644", "a.cue", p.blob("a")))
			for range 10_000 {
				h = p.tree(line40("40000", "d", h))
			}
			p.fleet(line40("40000", "d", h))
		}, nil},
		{"bomb: a pack without end", "repository_too_large", func(p *rawPack) {
			p.good()
			p.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method == http.MethodGet {
					return false
				}
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				_, _ = io.WriteString(w, "0000"+pkt("NAK\n"))
				piece := make([]byte, 60000)
				for {
					if _, err := fmt.Fprintf(w, "%04x\x01%s", len(piece)+5, piece); err != nil {
						return true
					}
				}
			}
		}, nil},
		{"bomb: a long history does not fit, its end does", "", func(p *rawPack) {
			tree := p.tree(line40("40000", "fleet", p.tree(line40("100644", "a.cue", p.blob("a")))))
			p.root(tree)
			p.answer = func(w http.ResponseWriter, r *http.Request, pack []byte) bool {
				asked, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == http.MethodGet:
					return false
				case strings.Contains(string(asked), "deepen 1\n"):
					w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
					_, _ = io.WriteString(w, pkt("shallow "+p.tip.String()+"\n"))
					result(w, pack)
				default:
					q := &rawPack{}
					q.raw(3, 1<<30, nil)
					result(w, q.bytes())
				}
				return true
			}
		}, nil},
	}
}

func tenOf(mode string, h plumbing.Hash) (entries string) {
	for i := range 10 {
		entries += line40(mode, fmt.Sprintf("d%d", i), h)
	}
	return entries
}

// Differences: GHSA-4hwp-..., CVE-2023-49568 and their kin.
func deltas() []hostileCase {
	size := func(list ...uint64) (d []byte) {
		for _, n := range list {
			d = binary.AppendUvarint(d, n)
		}
		return d
	}
	onBlob := func(delta []byte) func(*rawPack) {
		return func(p *rawPack) {
			p.good()
			at := p.at()
			p.blob("0123456789")
			p.ofsDelta(p.at()-at, delta)
		}
	}
	return []hostileCase{
		{"delta: a gigabyte out of ten bytes", "repository_too_large", onBlob(append(size(10, 1<<30), 0x90, 10)), nil},
		{"delta: more than can be counted", "repository_too_large", onBlob(append(size(10, 1<<62), 0x90, 10)), nil},
		{"delta: many large ones of one base", "repository_too_large", func(p *rawPack) {
			p.good()
			at := p.at()
			p.raw(3, 15*mib, deflatedZeros(15*mib))
			for range 50 {
				p.ofsDelta(p.at()-at, copies(15*mib, 15*mib))
			}
		}, nil},
		{"delta: large ones upon each other", "repository_too_large", func(p *rawPack) {
			p.good()
			at := p.at()
			p.raw(3, 12*mib, deflatedZeros(12*mib))
			for range 8 {
				next := p.at()
				p.ofsDelta(next-at, copies(12*mib, 12*mib))
				at = next
			}
		}, nil},
		{"delta: five thousand upon each other", "repository_too_large", func(p *rawPack) {
			p.good()
			at := p.at()
			p.blob("0123456789")
			for i := range 5000 {
				next := p.at()
				p.ofsDelta(next-at, append(size(10, 10), 0x90, 6, 4, byte(i), byte(i>>8), 'x', 'y'))
				at = next
			}
		}, nil},
		{"delta: to itself", "unavailable", func(p *rawPack) { p.good(); p.ofsDelta(0, size(1, 1)) }, nil},
		{"delta: to before the pack", "unavailable", func(p *rawPack) { p.good(); p.ofsDelta(1<<20, size(1, 1)) }, nil},
		{"delta: to the middle of an object", "unavailable", func(p *rawPack) { p.good(); p.ofsDelta(3, append(size(1, 1), 1, 'x')) }, nil},
		{"delta: to what is not there", "unavailable", func(p *rawPack) {
			p.good()
			p.refDelta(plumbing.NewHash(strings.Repeat("ab", 20)), append(size(10, 10), 0x90, 10))
		}, nil},
		{"delta: to one another", "unavailable", func(p *rawPack) {
			p.good()
			p.refDelta(plumbing.NewHash(strings.Repeat("ab", 20)), append(size(10, 10), 0x90, 10))
			p.refDelta(plumbing.NewHash(strings.Repeat("cd", 20)), append(size(10, 10), 0x90, 10))
		}, nil},
		{"delta: that makes its own base, over and over", "", func(p *rawPack) {
			p.good()
			base := p.blob("0123456789")
			for range 1000 {
				p.refDelta(base, append(size(10, 10), 0x90, 10))
			}
		}, nil},
		{"delta: of a base of another size", "unavailable", onBlob(append(size(11, 10), 0x90, 10)), nil},
		{"delta: copies beyond its base", "unavailable", onBlob(append(size(10, 10), 0x91, 5, 10)), nil},
		{"delta: makes less than its header", "unavailable", onBlob(append(size(10, 20), 0x90, 10)), nil},
		{"delta: makes more than its header", "unavailable", onBlob(append(size(10, 5), 0x90, 10)), nil},
		{"delta: an unknown opcode", "unavailable", onBlob(append(size(10, 10), 0)), nil},
		{"delta: cut", "unavailable", onBlob(append(size(10, 10), 0x90)), nil},
		{"delta: empty", "unavailable", onBlob(nil), nil},
	}
}

// What a commit names is not there, or is something else.
func missing() []hostileCase {
	none := plumbing.NewHash(strings.Repeat("ab", 20))
	return []hostileCase{
		{"missing: the commit", "unavailable", func(p *rawPack) { p.good(); p.tip = none }, nil},
		{"missing: the root", "unavailable", func(p *rawPack) { p.root(none) }, nil},
		{"missing: the folder", "unavailable", func(p *rawPack) { p.root(p.tree(line40("40000", "fleet", none))) }, nil},
		{"missing: a folder below", "unavailable", func(p *rawPack) { p.fleet(line40("40000", "sub", none)) }, nil},
		{"missing: a file", "unavailable", func(p *rawPack) { p.fleet(line40("100644", "a.cue", none)) }, nil},
		{"another kind: the root is a file", "unavailable", func(p *rawPack) { p.root(p.blob("x")) }, nil},
		{"another kind: the folder is a file", "unavailable", func(p *rawPack) { p.root(p.tree(line40("40000", "fleet", p.blob("x")))) }, nil},
		{"another kind: a file is a tree", "unavailable", func(p *rawPack) { p.fleet(line40("100644", "a.cue", p.tree())) }, nil},
		{"another kind: the branch is a file", "not_found", func(p *rawPack) { p.tip = p.blob("x") }, nil},
		{"another kind: the branch is a tree", "not_found", func(p *rawPack) { p.tip = p.tree() }, nil},
		{"another kind: the branch is a tag of a file", "not_found", func(p *rawPack) {
			p.tip = p.add(plumbing.TagObject, []byte("object "+p.blob("x").String()+"\ntype blob\ntag v\n\nx\n"))
		}, nil},
		{"another kind: a tag of nothing", "not_found", func(p *rawPack) { p.tip = p.add(plumbing.TagObject, []byte("type commit\ntag v\n\nx\n")) }, nil},
		{"another kind: tags of tags", "not_found", func(p *rawPack) {
			p.good()
			for range 20 {
				p.tip = p.add(plumbing.TagObject, []byte("object "+p.tip.String()+"\ntype tag\ntag v\n\nx\n"))
			}
		}, nil},
	}
}

// Objects that are whole, and none that Git would write.
func malformedObjects() []hostileCase {
	commit := func(change func(string) string) func(*rawPack) {
		return func(p *rawPack) {
			tree := p.tree(line40("40000", "fleet", p.tree(line40("100644", "a.cue", p.blob("a")))))
			p.tip = p.add(plumbing.CommitObject, []byte(change(commitText(tree))))
		}
	}
	tree := func(text string) func(*rawPack) { return func(p *rawPack) { p.fleet(text) } }
	return []hostileCase{
		{"commit: empty", "malformed_object", commit(func(string) string { return "" }), nil},
		{"commit: no tree", "malformed_object", commit(func(s string) string { _, s, _ = strings.Cut(s, "\n"); return s }), nil},
		{"commit: two trees", "malformed_object", commit(func(s string) string { return "tree " + strings.Repeat("ab", 20) + "\n" + s }), nil},
		{"commit: a tree behind its author", "malformed_object", commit(func(s string) string {
			return strings.Replace(s, "committer", "tree "+strings.Repeat("ab", 20)+"\ncommitter", 1)
		}), nil},
		{"commit: a parent that is no hash", "malformed_object", commit(func(s string) string { return strings.Replace(s, "author", "parent ../../x\nauthor", 1) }), nil},
		{"commit: two authors", "malformed_object", commit(func(s string) string { return strings.Replace(s, "author", "author x <x> 1 +0000\nauthor", 1) }), nil},
		{"commit: no committer", "malformed_object", commit(func(s string) string { return strings.Replace(s, "committer", "commitler", 1) }), nil},
		{"commit: a zero byte in its header", "malformed_object", commit(func(s string) string { return strings.Replace(s, "author t", "author \x00", 1) }), nil},
		{"commit: a message of two megabytes", "malformed_object", commit(func(s string) string { return s + strings.Repeat("x", 2*mib) }), nil},
		{"commit: an author who repaints terminals", "", commit(func(s string) string { return strings.Replace(s, "author t", "author \x1b[2J\u202e", 1) }), nil},
		{"tree: cut in a hash", "malformed_object", tree("100644 a.cue\x00short"), nil},
		{"tree: cut in a name", "malformed_object", tree("100644 a.cue"), nil},
		{"tree: no name", "malformed_object", tree(line40("100644", "", plumbing.ZeroHash)), nil},
		{"tree: a mode that is none", "malformed_object", tree(line40("rwxrwx", "a.cue", plumbing.ZeroHash)), nil},
		{"tree: a mode beyond all modes", "malformed_object", tree(line40("7777777777777", "a.cue", plumbing.ZeroHash)), nil},
	}
}

// Entries that are neither files nor folders, and folders that are not there.
func layouts() []hostileCase {
	fleet := func(mode, name, text string) func(*rawPack) {
		return func(p *rawPack) { p.fleet(line40(mode, name, p.blob(text)), line40("100644", "good.cue", p.blob("a"))) }
	}
	root := func(mode string) func(*rawPack) {
		return func(p *rawPack) { p.root(p.tree(line40(mode, "fleet", p.blob("/etc")))) }
	}
	return []hostileCase{
		{"link: absolute (CVE-2022-24904)", "symlink", fleet("120000", "a.cue", "/etc/passwd"), nil},
		{"link: upwards (CVE-2022-31036)", "symlink", fleet("120000", "a.cue", "../../../etc/passwd"), nil},
		{"link: to a link", "symlink", func(p *rawPack) {
			p.fleet(line40("120000", "a.cue", p.blob("b.cue")), line40("120000", "b.cue", p.blob("a.cue")))
		}, nil},
		{"link: to a folder", "symlink", fleet("120000", "sub", "/etc"), nil},
		{"link: outside the folders", "symlink", fleet("120000", "README", "/etc/passwd"), nil},
		{"link: the folder of declarations", "symlink", root("120000"), nil},
		{"submodule", "submodule", fleet("160000", "sub", "x"), nil},
		{"submodule: the folder of declarations", "submodule", root("160000"), nil},
		{"mode: executable", "file_mode", fleet("100755", "a.cue", "a"), nil},
		{"mode: group may write", "file_mode", fleet("100664", "a.cue", "a"), nil},
		{"mode: a device", "file_mode", fleet("020000", "a.cue", "a"), nil},
		{"mode: set user id", "file_mode", fleet("104755", "a.cue", "a"), nil},
		{"mode: none", "file_mode", fleet("0", "a.cue", "a"), nil},
		{"mode: the folder of declarations is a file", "file_mode", root("100644"), nil},
		{"empty: no folder of declarations", "source_empty", func(p *rawPack) { p.root(p.tree(line40("40000", "Fleet", p.tree()))) }, nil},
		{"empty: nothing at all", "source_empty", func(p *rawPack) { p.root(p.tree()) }, nil},
	}
}

func hostileNames() (list []hostileCase) {
	for name, entries := range map[string][]string{
		"up": {".."}, "here": {"."}, "git's own folder": {".git"}, "in capitals": {".GIT"}, "its short name": {"git~1"}, "its stream": {".git::$INDEX_ALLOCATION"},
		"with dots": {".git. ."}, "with an invisible letter": {".g\u200cit"}, "a slash": {"a/../../x.cue"}, "an absolute path": {"/etc/passwd"}, "a backslash": {`..\x.cue`},
		"right to left": {"a\u202eeuc.cue"}, "an escape sequence": {"a\x1b[2J.cue"}, "a line break": {"a\nb.cue"}, "a tab": {"a\tb.cue"}, "a bell": {"a\x07.cue"},
		"not UTF-8": {"a\xff.cue"}, "overlong UTF-8": {"a\xc0\xaf.cue"}, "a surrogate": {"a\xed\xa0\x80.cue"}, "decomposed": {"e\u0301.cue"}, "a byte order mark": {"\ufeffa.cue"},
		"a no-break space": {"a\u00a0b.cue"}, "too long": {strings.Repeat("x", 300) + ".cue"}, "a private letter": {"a\ue000.cue"},
	} {
		list = append(list, named("name: "+name, "name_unsafe", entries))
	}
	for name, entries := range map[string][]string{
		"case": {"A.cue", "a.cue"}, "letters that fold": {"mass.cue", "maß.cue"}, "a Kelvin": {"K.cue", "k.cue"}, "the same twice": {"a.cue", "a.cue"}, "a folder and a file": {"A", "a"},
	} {
		list = append(list, named("twins: "+name, "name_collision", entries))
	}
	return list
}

func named(name, want string, entries []string) hostileCase {
	return hostileCase{name, want, func(p *rawPack) {
		var all string
		blob := p.blob("a")
		for _, e := range entries {
			all += line40("100644", e, blob)
		}
		p.fleet(all)
	}, nil}
}

func hostileContents() []hostileCase {
	return []hostileCase{
		{"content: a file of a megabyte and a byte", "file_too_large", func(p *rawPack) { p.fleet(line40("100644", "a.cue", p.blob(strings.Repeat("x", mib+1)))) }, nil},
		{"content: seventeen megabytes", "tree_too_large", func(p *rawPack) {
			blob, all := p.blob(strings.Repeat("x", mib)), ""
			for i := range 17 {
				all += line40("100644", fmt.Sprintf("n%02d.cue", i), blob)
			}
			p.fleet(all)
		}, nil},
		{"content: as much as is allowed", "", func(p *rawPack) {
			blob, all := p.blob(strings.Repeat("x", mib/2)), ""
			for i := range 16 {
				all += line40("100644", fmt.Sprintf("n%02d.cue", i), blob)
			}
			p.fleet(all)
		}, nil},
		{"content: a pointer of LFS", "lfs_pointer", func(p *rawPack) {
			p.fleet(line40("100644", "a.cue", p.blob("version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("a", 64)+"\nsize 1\n")))
		}, nil},
		{"content: Git's own files are not obeyed", "", func(p *rawPack) {
			hooks := p.blob("[core]\n\tfsmonitor = touch /tmp/x\n[filter \"x\"]\n\tsmudge = id\n")
			p.fleet(line40("100644", ".gitattributes", hooks), line40("100644", ".gitmodules", hooks), line40("100644", "a.cue", p.blob("a")))
		}, nil},
	}
}

// Servers with invalid responses.
func hostileServers() []hostileCase {
	get := func(answer func(w http.ResponseWriter)) func(*rawPack) {
		return func(p *rawPack) {
			p.good()
			p.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method == http.MethodGet {
					answer(w)
				}
				return r.Method == http.MethodGet
			}
		}
	}
	post := func(text string) func(*rawPack) {
		return func(p *rawPack) {
			p.good()
			p.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method == http.MethodPost {
					w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
					_, _ = io.WriteString(w, text)
				}
				return r.Method == http.MethodPost
			}
		}
	}
	const advertisement = "application/x-git-upload-pack-advertisement"
	flood := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", advertisement)
		_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000")
		_, _ = io.WriteString(w, pkt(strings.Repeat("1", 40)+" refs/heads/main\x00ofs-delta\n"))
		for i := 0; ; i++ {
			if _, err := io.WriteString(w, pkt(fmt.Sprintf("%040x refs/heads/b%d\n", i+1, i))); err != nil {
				return
			}
		}
	}
	return []hostileCase{
		{"server: refs without end (CVE-2023-49568)", "unavailable", get(flood), nil},
		{"server: refs that inflate", "unavailable", get(func(w http.ResponseWriter) { gzipped(w, advertisement, 1<<28) }), nil},
		{"server: headers without end", "unavailable", get(func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", mib)) }), nil},
		{"server: no ref", "not_found", get(func(w http.ResponseWriter) { advertise(w, "") }), nil},
		{"server: another ref", "not_found", func(p *rawPack) { p.good(); p.tipNames = []string{"refs/heads/other"} }, nil},
		{"server: a ref without a folder", "not_found", func(p *rawPack) { p.good(); p.tipNames = []string{"main"} }, nil},
		{"server: refs that climb", "", func(p *rawPack) {
			p.good()
			p.tipNames = []string{"refs/heads/main", "refs/heads/../../../etc/x", "refs/heads/x.lock"}
		}, nil},
		{"server: a ref of no hash", "unavailable", get(func(w http.ResponseWriter) { advertise(w, pkt("zz refs/heads/main\x00ofs-delta\n")) }), nil},
		{"server: a ref of zeros", "unavailable", func(p *rawPack) { p.good(); p.tip = plumbing.ZeroHash }, nil},
		{"server: an error that repaints terminals", "unavailable", post(pkt("ERR \x1b[2J\x1b]0;x\x07\u202eno\n")), nil},
		{"server: an error next to the pack", "unavailable", post("0000" + pkt("NAK\n") + pkt("\x03\x1b[2Jno\n")), nil},
		{"server: nothing", "unavailable", post(""), nil},
		{"server: a flush", "unavailable", post("0000"), nil},
		{"server: another greeting", "unavailable", post("0000" + pkt("HELLO\n")), nil},
		{"server: shallow without end", "unavailable", post(strings.Repeat(pkt("shallow "+strings.Repeat("1", 40)+"\n"), 200_000)), nil},
		{"server: a line that is longer than lines", "unavailable", post("fffff"), nil},
		{"server: a line of negative length", "unavailable", post("0000-001"), nil},
		{"server: another band", "unavailable", post("0000" + pkt("NAK\n") + pkt("\x07x")), nil},
		{"server: progress without a pack", "unavailable", post("0000" + pkt("NAK\n") + strings.Repeat(pkt("\x02"+strings.Repeat("x", 60_000)), 1000) + "0000"), nil},
	}
}

// Commits that a source with verify rejects regardless of their content.
func unsigned() []hostileCase {
	demand := func(s *Spec) {
		s.Verify = sourcesignature.Verify{Required: true, SSH: []string{"t@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS"}}
	}
	with := func(signature string) func(*rawPack) {
		return func(p *rawPack) {
			p.tip = p.add(plumbing.CommitObject, []byte(withSignature(commitText(plumbing.NewHash(strings.Repeat("ab", 20))), signature)))
		}
	}
	return []hostileCase{
		{"signature: none, and a tree that cannot be read", "signature_required", func(p *rawPack) { p.root(plumbing.NewHash(strings.Repeat("ab", 20))) }, demand},
		{"signature: empty", "signature_required", with(""), demand},
		{"signature: plain text", "signature_invalid", with("trust me"), demand},
		{"signature: an empty armour", "signature_invalid", with(sourcesignature.SSHArmour + "\n-----END SSH SIGNATURE-----"), demand},
		{"signature: a blob that lies about its lengths", "signature_invalid", with(sourcesignature.SSHArmour + "\nU1NIU0lHAAAAAf////8AAAAA\n-----END SSH SIGNATURE-----"), demand},
		{"signature: OpenPGP that lies about its lengths", "signature_invalid", with(sourcesignature.PGPArmour + "\n\nwv8A////AAAA\n=AAAA\n-----END PGP SIGNATURE-----"), demand},
		{"signature: half a megabyte of armour", "signature_invalid", with(sourcesignature.PGPArmour + "\n\n" + strings.Repeat(strings.Repeat("A", 64)+"\n", 8000) + "-----END PGP SIGNATURE-----"), demand},
	}
}
