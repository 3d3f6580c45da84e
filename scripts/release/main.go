// Release builds the folder of a version of the product: archives for each platform, bills of materials, contracts, checksums,
// and a signed statement. Two builds of one commit by the same compiler give equal archives, in any folder and by any user.
package main

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/distribution"
)

// platform is a system and an architecture for which programs are built.
type platform struct {
	system, architecture string
	programs             []string
}

var platforms = []platform{
	{"linux", "amd64", []string{"gpuaas", "gpuaas-agent"}},
	{"linux", "arm64", []string{"gpuaas", "gpuaas-agent"}},
}

type release struct {
	version, builder, out string
	key                   ed25519.PrivateKey
	only                  string // a platform, for a test of the build

	temp     string // folder of the files until all are verified
	revision string
	at       time.Time // of the commit
}

func main() {
	var r release
	var key string
	flag.StringVar(&r.version, "version", "", "version, such as v1.2.3")
	flag.StringVar(&key, "key", "", "file with the private key of Ed25519 in PEM")
	flag.StringVar(&r.builder, "builder", "", "who builds where, such as the URL of a run of CI")
	flag.StringVar(&r.out, "out", "", "folder to create")
	flag.StringVar(&r.only, "only", "", "one platform, such as linux_amd64; for a comparison of builds")
	flag.Parse()
	if err := r.run(key); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[.0-9]*)?$`)

func (r *release) run(key string) (err error) {
	if !versionForm.MatchString(r.version) || key == "" || r.builder == "" || r.out == "" {
		return errors.New("want VERSION=v1.2.3, KEY=FILE with a private key of Ed25519, and BUILDER=TEXT that states who builds where")
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return fmt.Errorf("reading the key: %w", err)
	}
	if r.key, err = distribution.ParsePrivateKey(text); err != nil {
		return fmt.Errorf("%s: %w; openssl genpkey -algorithm ed25519 makes a key", key, err)
	}
	if err := r.checkTree(); err != nil {
		return err
	}
	if _, err := os.Stat(r.out); err == nil {
		return fmt.Errorf("%s exists", r.out)
	}
	// A folder in the work tree would differ from the commit while programs are built.
	if r.temp, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.temp) }()
	for _, p := range platforms {
		if r.only != "" && r.only != p.system+"_"+p.architecture {
			continue
		}
		if err := r.build(p); err != nil {
			return err
		}
	}
	return r.finish()
}

// checkTree rejects a work tree whose version cannot be built again, or whose documents do not name the version.
func (r *release) checkTree() (err error) {
	changed, err := git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the work tree differs from its commit:\n%s", changed)
	}
	// The compiler stores the tag of the commit in each program, so that a build without it is not equal.
	if tags, err := git("tag", "--points-at", "HEAD"); err != nil || tags != r.version {
		return fmt.Errorf("the commit has the tags %q: git tag %s, and fetch the tags in each clone", tags, r.version)
	}
	if r.revision, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	stamp, err := git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	if r.at, err = time.Parse(time.RFC3339, stamp); err != nil {
		return err
	}
	if _, err := changes(r.version); err != nil {
		return err
	}
	for _, c := range contracts {
		now, err := os.ReadFile(c.path)
		if err != nil {
			return err
		}
		if released, err := os.ReadFile(c.released); err != nil || !bytes.Equal(now, released) {
			return fmt.Errorf("%s is not the contract of this commit: cp %s %s, and commit it", c.released, c.path, c.released)
		}
	}
	return nil
}

var contracts = []struct{ path, released string }{
	{"api/openapi/openapi.yaml", "api/openapi/released/openapi.yaml"},
	{"api/asyncapi/asyncapi.yaml", "api/asyncapi/released/asyncapi.yaml"},
}

// changes returns the section of the changelog about a version.
func changes(version string) ([]byte, error) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	title := "\n## [" + strings.TrimPrefix(version, "v") + "]"
	_, after, found := strings.Cut(string(text), title)
	if !found {
		return nil, fmt.Errorf("CHANGELOG.md has no section %q: rename [Unreleased], and commit it", strings.TrimSpace(title))
	}
	section, _, _ := strings.Cut(after, "\n## [")
	return []byte(strings.TrimSpace(title) + section + "\n"), nil
}

// build writes the archive of a platform and its bill of materials.
func (r *release) build(p platform) error {
	temp, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	members, components := []distribution.Member{}, []distribution.Component{}
	for _, program := range p.programs {
		path := filepath.Join(temp, program)
		if err := r.compile(p, program, path); err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		modules, _, err := distribution.ModulesOf(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		members, components = append(members, distribution.Member{Name: program, Content: content, Executable: true}), append(components, modules...)
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		members = append(members, distribution.Member{Name: name, Content: content})
	}
	lock, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		return err
	}
	packages, err := distribution.PackagesOf(lock)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := distribution.WriteArchive(&archive, members, r.at); err != nil {
		return err
	}
	sbom, err := distribution.EncodeSBOM(r.version, append(components, packages...))
	if err != nil {
		return err
	}
	name := distribution.ArchiveName(r.version, p.system, p.architecture)
	fmt.Println(name)
	return errors.Join(r.write(name, archive.Bytes()), r.write(distribution.SBOMName(name), sbom))
}

func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.temp, name), content, 0o644) //nolint:gosec // results are for everyone
}

// finish writes what describes the other files, and verifies the folder as a user does.
func (r *release) finish() error {
	section, err := changes(r.version)
	if err != nil {
		return err
	}
	if err := r.write("CHANGES.md", section); err != nil {
		return err
	}
	for _, c := range contracts {
		content, err := os.ReadFile(c.path)
		if err == nil {
			err = r.write(filepath.Base(c.path), content)
		}
		if err != nil {
			return err
		}
	}
	files, err := distribution.DigestsOf(os.DirFS(r.temp))
	if err != nil {
		return err
	}
	signed, err := distribution.Sign(r.key, distribution.Build{Version: r.version, Revision: r.revision, Go: runtime.Version(), Builder: r.builder}, files)
	if err != nil {
		return err
	}
	if err := errors.Join(r.write(distribution.Sums, files.Encode()), r.write(distribution.Provenance, signed)); err != nil {
		return err
	}
	public, _ := r.key.Public().(ed25519.PublicKey)
	v, err := distribution.Verify(os.DirFS(r.temp), public)
	if err != nil {
		return fmt.Errorf("the folder that was written is not valid: %w", err)
	}
	if err := os.CopyFS(r.out, os.DirFS(r.temp)); err != nil {
		return err
	}
	fmt.Printf("%s of %s, %d files, signed by %s\n", v.Version, v.Revision, len(v.Files), v.KeyID)
	return nil
}
