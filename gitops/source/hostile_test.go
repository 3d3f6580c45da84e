package source

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/race"
)

// The bounds of every case. A case of this corpus may be added, none removed.
const (
	mostTime   = 10 * time.Second * race.Slower
	mostMemory = 64 << 10 // kB
)

// childVariable makes the test program run as the child that reads hostile input, so that the
// memory limit covers nothing else.
const childVariable = "GPUAAS_HOSTILE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		readHostile()
		return
	}
	os.Exit(m.Run())
}

type order struct {
	Name string
	Spec Spec
}

type outcome struct {
	Name  string
	Code  string // of the first finding, or of the error; empty: accepted
	Text  string
	Files int
	Took  time.Duration
	KB    int64 // that the process grew by, at most; -1: not known
}

// readHostile reads the repositories one after the other and prints each result.
func readHostile() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		_ = out.Encode(o.read())
	}
}

func (o order) read() outcome {
	debug.FreeOSMemory()
	known := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil // resets the peak
	before, began := memory_("VmRSS"), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*mostTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := outcome{Name: o.Name, KB: -1}
	s, err := OpenStore(dir, o.Spec)
	var t Tree
	if err == nil {
		t, err = s.Snapshot(ctx, "")
		s.store.packs.Close()
	}
	r.Took, r.Files = time.Since(began), len(t.Files)
	if known {
		r.KB = memory_("VmHWM") - before
	}
	switch {
	case err != nil:
		r.Code, r.Text = string(errs.CodeOf(err)), err.Error()
	case len(t.Findings) > 0:
		r.Code, r.Text = t.Findings[0].Code, t.Findings[0].String()
	}
	return r
}

// memory_ reads one line of the process's status, in kB.
func memory_(line string) int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(text, []byte(line+":"))
	n, _ := strconv.ParseInt(strings.Fields(string(rest) + " 0")[0], 10, 64)
	return n
}

func TestINV15HostileRepositories(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ask, answers := json.NewEncoder(in), json.NewDecoder(out)
	cases := hostile()
	if len(cases) < 90 {
		t.Errorf("%d cases: none is ever removed", len(cases))
	}
	for _, c := range cases {
		p := &rawPack{}
		c.build(p)
		server := p.serve()
		o := order{Name: c.name, Spec: Spec{
			Location: server.URL + "/r.git", Ref: "main", Dirs: []string{"fleet"}, AllowPrivate: true,
			Auth: remote.Auth{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		}}
		if c.spec != nil {
			c.spec(&o.Spec)
		}
		if err := ask.Encode(o); err != nil {
			t.Fatal(err)
		}
		var r outcome
		if err := answers.Decode(&r); err != nil {
			t.Fatalf("%s: the reader died: %v", c.name, err)
		}
		server.CloseClientConnections()
		server.Close()
		r.check(t, c)
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func (r outcome) check(t *testing.T, c hostileCase) {
	t.Helper()
	if testing.Verbose() {
		t.Logf("%-40s %-22s %6d kB %8s", r.Name, r.Code, r.KB, r.Took.Round(time.Millisecond))
	}
	if r.Code != c.want {
		t.Errorf("%s: %q, want %q: %s", c.name, r.Code, c.want, r.Text)
	}
	if c.want != "" && r.Files > 0 {
		t.Errorf("%s: %d files were read", c.name, r.Files)
	}
	if r.Took > mostTime {
		t.Errorf("%s took %s", c.name, r.Took)
	}
	if r.KB > mostMemory && !race.Enabled {
		t.Errorf("%s grew the process by %d MB", c.name, r.KB>>10)
	}
	if strings.ContainsFunc(r.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s: the message repaints terminals: %q", c.name, r.Text)
	}
}

// Addresses, refs and folders that are rejected before a connection is opened.
func TestINV15HostileSpecs(t *testing.T) {
	t.Parallel()
	const url = "https://example.com/r.git"
	for name, s := range map[string]Spec{
		"a program":                         {Location: "ext::sh -c id"},
		"a program with a scheme":           {Location: "ext::https://example.com/r.git"},
		"plain http":                        {Location: "http://example.com/r.git"},
		"git's own port":                    {Location: "git://example.com/r.git"},
		"ftp":                               {Location: "ftp://example.com/r.git"},
		"a helper of git":                   {Location: "https+git://example.com/r.git"},
		"ssh option as server":              {Location: "ssh://-oProxyCommand=id/r.git"},
		"ssh option as user":                {Location: "ssh://-oProxyCommand=id@example.com/r.git"},
		"ssh option as path":                {Location: "git@example.com:-x"},
		"option":                            {Location: "--upload-pack=id"},
		"a password":                        {Location: "https://u:p@example.com/r.git"},
		"a token as user":                   {Location: "https://token@example.com/r.git"},
		"a query":                           {Location: "https://example.com/r.git?service=x"},
		"a fragment":                        {Location: "https://example.com/r.git#x"},
		"line breaks":                       {Location: "https://example.com/r.git\r\nHost: x"},
		"a space":                           {Location: "https://example.com/r .git"},
		"a backslash":                       {Location: `https://example.com\@evil.example/r.git`},
		"no server":                         {Location: "https:///r.git"},
		"no path":                           {Location: "https://example.com/"},
		"a server name with an escape":      {Location: "https://exa%6dple.com;x/r.git"},
		"a file elsewhere (CVE-2025-21613)": {Location: "file://--upload-pack=id/r.git"},
		"a file below a user":               {Location: "file://u@/r.git"},
		"unicode dots":                      {Location: "https://127。0。0。1/r.git"},
		"right to left":                     {Location: "https://example.com/\u202er.git"},
		"a very long address":               {Location: "https://example.com/" + strings.Repeat("x", 3000)},
		"ref as option":                     {Location: url, Ref: "--upload-pack=id"},
		"ref as range":                      {Location: url, Ref: "a..b"},
		"ref through the reflog":            {Location: url, Ref: "main@{1}"},
		"ref by search":                     {Location: url, Ref: ":/fix"},
		"ref with a space":                  {Location: url, Ref: "a b"},
		"ref with a colon":                  {Location: url, Ref: "main:fleet"},
		"ref peeled":                        {Location: url, Ref: "main^{tree}"},
		"ref up":                            {Location: url, Ref: "refs/heads/../../x"},
		"ref as lock":                       {Location: url, Ref: "refs/heads/x.lock"},
		"ref with an escape":                {Location: url, Ref: "main\x1b[2J"},
		"ref with a glob":                   {Location: url, Ref: "refs/heads/*"},
		"a very long ref":                   {Location: url, Ref: strings.Repeat("x", 300)},
		"folder up":                         {Location: url, Dirs: []string{"../etc"}},
		"folder at the root":                {Location: url, Dirs: []string{"/etc"}},
		"folder up and down":                {Location: url, Dirs: []string{"a/../../b"}},
	} {
		_, err := OpenStore(t.TempDir(), s)
		if errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Spellings of the loopback address that are valid names are rejected at connection time.
func TestINV15HostileHosts(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]", "[::]", "169.254.169.254", "[fe80::1]", "[64:ff9b::7f00:1]"} {
		s, err := OpenStore(t.TempDir(), Spec{Location: "https://" + host + ":9/r.git"})
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), mostTime)
			_, err = s.Snapshot(ctx, "")
			cancel()
		}
		if code := errs.CodeOf(err); code != errs.ValidationError && code != errs.Unavailable {
			t.Errorf("%s: %v", host, err)
		}
		if strings.Contains(fmt.Sprint(err), "refused") {
			t.Errorf("%s was dialled: %v", host, err)
		}
	}
}
