package source

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/source/text"
)

// deepest exceeds the depth of any layout, and is far below the depth at which the recursion exhausts the stack.
const deepest = 16

// mostFindings exceeds the number that an author reads at once. A hostile tree could otherwise create millions.
const mostFindings = 100

// treeCheck decides about names, modes and sizes, without any content.
type treeCheck struct {
	fold     cases.Caser
	folded   map[string]string // folded path to the first path with it
	findings []desired.Finding
	files    int
	bytes    int64
}

func newTreeCheck() *treeCheck {
	return &treeCheck{fold: cases.Fold(), folded: map[string]string{}}
}

func (j *treeCheck) reject(code, name, message, expected string) {
	if len(j.findings) < mostFindings {
		j.findings = append(j.findings, finding(code, name, message, expected))
	}
}

// full reports whether enough findings exist to stop.
func (j *treeCheck) full() bool { return len(j.findings) >= mostFindings }

// name checks one element of a path and reports whether its entry may be read. The name is passed
// separately, because a tree may contain an entry named a/../b.
func (j *treeCheck) name(full, base string) bool {
	switch {
	case !utf8.ValidString(base):
		j.reject(desired.CodeNameUnsafe, full, "the name is not UTF-8", "a name in UTF-8")
	case base == "." || base == ".." || base == "" || strings.ContainsAny(base, "\\/"):
		j.reject(desired.CodeNameUnsafe, full, "the name points elsewhere", "an ordinary name")
	case isDotGit(base):
		j.reject(desired.CodeNameUnsafe, full, "the name means Git's own folder on some systems", "another name")
	case strings.ContainsFunc(base, text.Hidden):
		j.reject(desired.CodeNameUnsafe, full, "the name has invisible or control characters", "a name that shows what it is")
	case !norm.NFC.IsNormalString(base):
		j.reject(desired.CodeNameUnsafe, full, "the name is not in normal form C", "the composed form: others write the same name in other bytes")
	case len(base) > 255:
		j.reject(desired.CodeNameUnsafe, full, "the name is longer than 255 bytes", "a shorter name")
	default:
		return j.alone(full)
	}
	return false
}

// alone rejects two names that are equal on some file systems. A checkout there would contain only one of the files, and
// the author would see another tree than the server.
func (j *treeCheck) alone(full string) bool {
	folded := norm.NFC.String(j.fold.String(full))
	if other, taken := j.folded[folded]; taken {
		j.reject(desired.CodeNameCollision, full, fmt.Sprintf("the name differs from %s in case only", quoted(other)), "names that differ everywhere")
		return false
	}
	j.folded[folded] = full
	return true
}

// file checks the size of one readable file.
func (j *treeCheck) file(full string, size int64, l Limits) {
	j.bytes += size
	switch {
	case size > l.FileBytes:
		j.reject(desired.CodeFileTooLarge, full, fmt.Sprintf("the file has %d bytes", size), fmt.Sprintf("at most %d (gitops.max_file_bytes)", l.FileBytes))
	case j.bytes > l.TreeBytes:
		j.reject(desired.CodeTreeTooLarge, full, fmt.Sprintf("with this file the tree has %d bytes", j.bytes), fmt.Sprintf("at most %d (gitops.max_tree_bytes)", l.TreeBytes))
	}
}

// count counts every entry, readable or not, and reports whether the limit permits more.
func (j *treeCheck) count(full string, l Limits) bool {
	j.files++
	if j.files == l.Files+1 {
		j.reject(desired.CodeTooManyFiles, full, fmt.Sprintf("the tree has more than %d files", l.Files), fmt.Sprintf("at most %d (gitops.max_files)", l.Files))
	}
	return j.files <= l.Files
}

// mode adds a finding for an entry that is neither file nor folder.
func (j *treeCheck) mode(full string, mode filemode.FileMode) bool {
	switch mode {
	case filemode.Regular:
		return true
	case filemode.Executable:
		j.reject(desired.CodeFileMode, full, "the file is executable", "an ordinary file: git update-index --chmod=-x")
	case filemode.Symlink:
		j.reject(desired.CodeSymlink, full, "is a symbolic link", "the file itself")
	case filemode.Submodule:
		j.reject(desired.CodeSubmodule, full, "is a submodule", "files of this repository")
	case filemode.Empty, filemode.Dir, filemode.Deprecated:
		fallthrough
	default:
		j.reject(desired.CodeFileMode, full, fmt.Sprintf("has mode %s", mode), "an ordinary file")
	}
	return false
}

// checkFolder rejects a declared folder that is not a folder.
func checkFolder(dir string, mode filemode.FileMode) desired.Finding {
	code := desired.CodeFileMode
	switch mode { //nolint:exhaustive // the others are files
	case filemode.Symlink:
		code = desired.CodeSymlink
	case filemode.Submodule:
		code = desired.CodeSubmodule
	}
	return finding(code, dir, fmt.Sprintf("has mode %s", mode), "a folder of declarations")
}

// Names checks the names of files without a tree by the rules for a tree.
func Names(files map[string][]byte) []desired.Finding {
	j, checked := newTreeCheck(), map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for end, r := range name + "/" {
			if r != '/' || checked[name[:end]] {
				continue
			}
			checked[name[:end]] = true
			if !j.name(name[:end], name[strings.LastIndexByte(name[:end], '/')+1:end]) {
				break
			}
		}
	}
	return j.findings
}

// add counts an unchanged folder without reading it. Its names were checked before, but its files count for the limits of
// the whole tree.
func (j *treeCheck) add(at string, was checkedTree, l Limits) {
	j.files += was.files
	if j.files > l.Files && j.files-was.files <= l.Files {
		j.reject(desired.CodeTooManyFiles, at, fmt.Sprintf("the tree has more than %d files", l.Files), fmt.Sprintf("at most %d (gitops.max_files)", l.Files))
	}
	j.bytes += was.bytes
	if j.bytes > l.TreeBytes {
		j.reject(desired.CodeTreeTooLarge, at, fmt.Sprintf("with this folder the tree has %d bytes", j.bytes), fmt.Sprintf("at most %d (gitops.max_tree_bytes)", l.TreeBytes))
	}
}

// isDotGit reports whether Windows or macOS would open .git under this name: in any case, by its short name, with trailing
// dots, spaces or a stream, and with characters that macOS ignores. A checkout could otherwise overwrite the
// configuration of the author's repository.
func isDotGit(base string) bool {
	plain := strings.Map(func(r rune) rune {
		if r == '\u200c' || r == '\u200d' || r == '\u200e' || r == '\u200f' || r == '\ufeff' || r >= '\u202a' && r <= '\u202e' || r >= '\u206a' && r <= '\u206f' {
			return -1
		}
		return r
	}, base)
	plain, _, _ = strings.Cut(plain, ":")
	plain = strings.ToLower(strings.TrimRight(plain, ". "))
	return plain == ".git" || plain == "git~1"
}

func finding(code, name, message, expected string) desired.Finding {
	return desired.Finding{Code: code, Path: quoted(name), Line: 1, Column: 1, Message: message, Expected: expected}
}

// quoted removes control characters from a hostile name before a terminal displays it.
func quoted(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, text.Hidden) {
		return strconv.QuoteToASCII(name)
	}
	return name
}
