package distribution_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuaas/gpuaas/internal/distribution"
)

const archive = "gpuaas_v1.2.3_linux_amd64.tar.gz"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder returns a signed version with the program of this test.
func folder(t *testing.T) (fstest.MapFS, ed25519.PrivateKey) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	program, err := os.ReadFile(self)
	must(t, err)
	components, info, err := distribution.ModulesOf(bytes.NewReader(program))
	must(t, err)
	commit := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	var packed bytes.Buffer
	must(t, distribution.WriteArchive(&packed, []distribution.Member{{Name: "gpuaas", Content: program, Executable: true}, {Name: "README.md", Content: []byte("x")}}, time.Unix(1_800_000_000, 0)))
	sbom, err := distribution.EncodeSBOM("v1.2.3", components)
	must(t, err)
	dir := fstest.MapFS{archive: {Data: packed.Bytes()}, distribution.SBOMName(archive): {Data: sbom}, "openapi.yaml": {Data: []byte("openapi: 3.1.0\n")}}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	seal(t, dir, key, commit)
	return dir, key
}

func seal(t *testing.T, dir fstest.MapFS, key ed25519.PrivateKey, commit string) {
	t.Helper()
	files, err := distribution.DigestsOf(dir)
	must(t, err)
	signed, err := distribution.Sign(key, distribution.Build{Version: "v1.2.3", Revision: commit, Go: runtime.Version(), Builder: "a test"}, files)
	must(t, err)
	dir[distribution.Sums], dir[distribution.Provenance] = &fstest.MapFile{Data: files.Encode()}, &fstest.MapFile{Data: signed}
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func TestAVersionIsVerified(t *testing.T) {
	t.Parallel()
	dir, key := folder(t)
	v, err := distribution.Verify(dir, public(key))
	if err != nil || v.Version != "v1.2.3" || v.Builder != "a test" || len(v.Files) != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A change of any file is named.
func TestChangesOfAVersionAreNamed(t *testing.T) {
	t.Parallel()
	dir, key := folder(t)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	for what, c := range map[string]struct {
		change func(fstest.MapFS)
		want   string
	}{
		"one byte":             {func(d fstest.MapFS) { flip(d, "openapi.yaml", 3) }, "openapi.yaml is not the file that SHA256SUMS lists"},
		"a byte of an archive": {func(d fstest.MapFS) { flip(d, archive, 5000) }, archive + " is not the file"},
		"a missing file":       {func(d fstest.MapFS) { delete(d, "openapi.yaml") }, "openapi.yaml is missing: SHA256SUMS lists it"},
		"one more file":        {func(d fstest.MapFS) { d["install.sh"] = &fstest.MapFile{Data: []byte("x")} }, "install.sh is not in SHA256SUMS"},
		"a link as checksums":  {func(d fstest.MapFS) { d[distribution.Sums].Mode = fs.ModeSymlink }, `"SHA256SUMS" is not a file of a version`},
		"lines of another kind": {func(d fstest.MapFS) {
			d[distribution.Sums].Data = bytes.ReplaceAll(d[distribution.Sums].Data, []byte("\n"), []byte("\r\n"))
		}, "other ends of lines"},
		"an archive of another": {func(d fstest.MapFS) { olderArchive(t, d, key) }, "gpuaas_v1.2.2_linux_amd64.tar.gz is not an archive of v1.2.3"},
		"a folder":              {func(d fstest.MapFS) { d["more/x"] = &fstest.MapFile{} }, `"more" is not a file of a version`},
		"two files swapped": {func(d fstest.MapFS) {
			d["openapi.yaml"], d[distribution.SBOMName(archive)] = d[distribution.SBOMName(archive)], d["openapi.yaml"]
		}, "openapi.yaml is not the file"},
		"no checksums":           {func(d fstest.MapFS) { delete(d, distribution.Sums) }, distribution.Sums},
		"checksums without end":  {func(d fstest.MapFS) { cut(d, distribution.Sums, 1) }, "ends within a line"},
		"no statement":           {func(d fstest.MapFS) { delete(d, distribution.Provenance) }, distribution.Provenance},
		"a statement cut":        {func(d fstest.MapFS) { cut(d, distribution.Provenance, 20) }, "no DSSE envelope"},
		"a signature twice":      {func(d fstest.MapFS) { twice(t, d) }, "want one signature"},
		"a field twice":          {func(d fstest.MapFS) { again(d) }, "there twice"},
		"checksums of a changed": {func(d fstest.MapFS) { d["openapi.yaml"].Data = []byte("y"); sums(t, d) }, "openapi.yaml is not the file that provenance.dsse.json lists"},
		"another key":            {func(d fstest.MapFS) { seal(t, d, other, "") }, "the key that you trust is"},
		"no SBOM of a module":    {func(d fstest.MapFS) { sbom(t, d, key) }, "which its bill of materials does not list"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			copied := fstest.MapFS{}
			for name, f := range dir {
				copied[name] = &fstest.MapFile{Data: bytes.Clone(f.Data)}
			}
			c.change(copied)
			if _, err := distribution.Verify(copied, public(key)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func flip(d fstest.MapFS, name string, at int) { d[name].Data[at] ^= 1 }
func cut(d fstest.MapFS, name string, bytes int) {
	d[name].Data = d[name].Data[:len(d[name].Data)-bytes]
}

func sums(t *testing.T, d fstest.MapFS) {
	t.Helper()
	files, err := distribution.DigestsOf(d)
	must(t, err)
	d[distribution.Sums].Data = files.Encode()
}

func twice(t *testing.T, d fstest.MapFS) {
	t.Helper()
	var e map[string]any
	must(t, json.Unmarshal(d[distribution.Provenance].Data, &e))
	e["signatures"] = append(e["signatures"].([]any), e["signatures"].([]any)...)
	text, err := json.Marshal(struct {
		PayloadType any `json:"payloadType"`
		Payload     any `json:"payload"`
		Signatures  any `json:"signatures"`
	}{e["payloadType"], e["payload"], e["signatures"]})
	must(t, err)
	d[distribution.Provenance].Data = text
}

func again(d fstest.MapFS) {
	text := string(d[distribution.Provenance].Data)
	d[distribution.Provenance].Data = []byte(strings.Replace(text, "{", `{"payloadType":"x",`, 1))
}

// olderArchive adds an archive of another version, and signs the folder again.
func olderArchive(t *testing.T, d fstest.MapFS, key ed25519.PrivateKey) {
	t.Helper()
	const older = "gpuaas_v1.2.2_linux_amd64.tar.gz"
	d[older], d[distribution.SBOMName(older)] = d[archive], d[distribution.SBOMName(archive)]
	seal(t, d, key, "")
}

// sbom replaces the bill of materials by an empty one, and signs the folder again.
func sbom(t *testing.T, d fstest.MapFS, key ed25519.PrivateKey) {
	t.Helper()
	text, err := distribution.EncodeSBOM("v1.2.3", nil)
	must(t, err)
	d[distribution.SBOMName(archive)].Data = text
	seal(t, d, key, "")
}

// Every byte of the signed statement counts.
func TestEveryByteOfTheStatementCounts(t *testing.T) {
	t.Parallel()
	dir, key := folder(t)
	text := dir[distribution.Provenance].Data
	for i := range text {
		changed := maps.Clone(dir)
		data := bytes.Clone(text)
		data[i] ^= 1
		changed[distribution.Provenance] = &fstest.MapFile{Data: data}
		changed[archive] = &fstest.MapFile{Data: dir[archive].Data}
		if _, err := distribution.Open(data, public(key)); err == nil {
			t.Fatalf("byte %d is changed from %q to %q, and nothing is found", i, text[i], data[i])
		}
	}
}

func TestPackagesOfThePortal(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("../../web/package-lock.json")
	must(t, err)
	list, err := distribution.PackagesOf(lock)
	must(t, err)
	names := map[string]string{}
	for _, c := range list {
		names[c.Name] = c.Version
		if c.Integrity == "" {
			t.Errorf("%s has no digest", c.Name)
		}
	}
	if names["react"] == "" || names["@mantine/core"] == "" || names["vite"] != "" || names["vitest"] != "" {
		t.Errorf("%v", names)
	}
}
