package pgcluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// oldest is the first major version with everything the schema uses.
const oldest = 15

// Binaries is one installed PostgreSQL server.
type Binaries struct {
	Dir   string
	Major int
}

// places are the folders in which Debian, Alpine and Homebrew install server binaries outside of
// PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
	"/usr/pgsql-*/bin",                  // PGDG on Fedora, RHEL
	"/usr/libexec/postgresql*",          // Alpine
	"/opt/homebrew/opt/postgresql*/bin", // macOS on ARM
	"/usr/local/opt/postgresql*/bin",    // macOS on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
}

// Find returns the newest installed server. GPUAAS_PG_BIN names a folder that
// is used instead of any other.
func Find(ctx context.Context) (Binaries, error) {
	installed, err := Installed(ctx)
	if err != nil {
		return Binaries{}, err
	}
	return installed[0], nil
}

// Installed returns every server that is new enough, newest first, and fails
// when there is none.
func Installed(ctx context.Context) ([]Binaries, error) {
	var found []Binaries
	for _, dir := range candidates() {
		if major, ok := majorOf(ctx, dir); ok && major >= oldest {
			found = append(found, Binaries{Dir: dir, Major: major})
		}
	}
	if len(found) == 0 {
		return nil, missing(oldest)
	}
	// Stable: of two servers of one version the first place wins.
	slices.SortStableFunc(found, func(a, b Binaries) int { return cmp.Compare(b.Major, a.Major) })
	return found, nil
}

func missing(major int) error {
	return errs.New(errs.Unavailable, "PostgreSQL %d or newer is not installed: install the package postgresql", major).
		Try("apt-get install postgresql, or set GPUAAS_PG_BIN to a folder with initdb and postgres")
}

func candidates() []string {
	if dir := os.Getenv("GPUAAS_PG_BIN"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	for _, place := range places {
		match, _ := filepath.Glob(place) // the patterns are constants and well formed
		dirs = append(dirs, match...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

var version = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// majorOf runs the binary: a folder's name may be wrong, and a client-only package leaves the
// folder without a server.
func majorOf(ctx context.Context, dir string) (int, bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output() //nolint:gosec // a server binary's own folder
	if err != nil {
		return 0, false
	}
	match := version.FindSubmatch(out)
	if match == nil {
		return 0, false
	}
	major, err := strconv.Atoi(string(match[1]))
	return major, err == nil
}

// suiting returns the server that can open the data directory: exactly its
// version when it exists, else the newest.
func suiting(ctx context.Context, data string) (Binaries, error) {
	installed, err := Installed(ctx)
	if err != nil {
		return Binaries{}, err
	}
	want, err := versionOf(data)
	if err != nil || want == 0 {
		return installed[0], err
	}
	for _, bin := range installed {
		if bin.Major == want {
			return bin, nil
		}
	}
	return Binaries{}, errs.New(errs.Conflict, "data directory %s was made by PostgreSQL %d, installed is %d", data, want, installed[0].Major).
		Try("install the package postgresql-%d, or move the data with pg_dump and pg_restore", want)
}

// versionOf reads a data directory's PG_VERSION; 0 means that there is none yet.
func versionOf(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the data directory's version: %w", err)
	}
	major, err := strconv.Atoi(string(trim(text)))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", filepath.Join(data, "PG_VERSION"), err)
	}
	return major, nil
}
