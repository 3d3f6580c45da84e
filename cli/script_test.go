package cli

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired/validate"
)

func TestMain(m *testing.M) {
	validate.Child()
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/x-asciicast", openapi3filter.FileBodyDecoder)
	testscript.Main(m, map[string]func(){"gpuaas": func() { os.Exit(Run()) }, "browse": browse})
}

// TestScripts runs the command line against a fake of the API, one for each script. The scripts' own commands are in
// commands below.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                commands(),
		Setup: func(e *testscript.Env) error {
			report, ok := e.T().(reporter)
			if !ok {
				return errors.New("the script runner hides the test")
			}
			f, server := newFake(report)
			e.Defer(server.Close)
			e.Values[fakeKey{}] = f
			for name, value := range map[string]string{
				"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodToken, "GPUAAS_CONFIG_DIR": e.WorkDir + "/config", "HOME": e.WorkDir + "/home",
				"CI": "", "NO_PROXY": "*",
			} {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

type fakeKey struct{}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	with := func(do func(ts *testscript.TestScript, f *fake, args []string)) func(*testscript.TestScript, bool, []string) {
		return func(ts *testscript.TestScript, _ bool, args []string) { do(ts, ts.Value(fakeKey{}).(*fake), args) }
	}
	number := func(ts *testscript.TestScript, text string) int {
		n, err := strconv.Atoi(text)
		ts.Check(err)
		return n
	}
	return map[string]func(*testscript.TestScript, bool, []string){
		// exits N command…: the command ends with exactly this code.
		"exits": func(ts *testscript.TestScript, _ bool, args []string) {
			code := 0
			if err := ts.Exec(args[1], args[2:]...); err != nil {
				var exit *exec.ExitError
				if !errors.As(err, &exit) {
					ts.Fatalf("%v", err)
				}
				code = exit.ExitCode()
			}
			if want := number(ts, args[0]); code != want {
				ts.Fatalf("exit %d, want %d", code, want)
			}
		},
		// read NAME N: the allocation was read at least N times.
		"read": with(func(ts *testscript.TestScript, f *fake, args []string) {
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				n := f.readsOf(args[0])
				if n >= number(ts, args[1]) {
					return
				}
				if time.Now().After(deadline) {
					ts.Fatalf("%s was read %d times", args[0], n)
				}
			}
		}),
		// unavailable N: the database is unavailable for the next N calls.
		"refuse": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.broken = number(ts, args[0])
		}),
		// mkfile NAME BYTES: a local file without a pattern.
		"mkfile": func(ts *testscript.TestScript, _ bool, args []string) {
			text := make([]byte, number(ts, args[1]))
			for i := range text {
				text[i] = byte(i*i>>9) + byte(i>>20)
			}
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
		},
		// parts N: the API denies more than N parts; received N: it has received so many.
		"parts": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.files.most = number(ts, args[0])
		}),
		"received": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.files.received != number(ts, args[0]) {
				ts.Fatalf("%d parts were received", f.files.received)
			}
		}),
		// down: NATS is.
		"down": with(func(_ *testscript.TestScript, f *fake, _ []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.down = true
		}),
		// traded N: a credential was traded for so many tokens.
		"traded": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := f.people.minted; n != number(ts, args[0]) {
				ts.Fatalf("there were %d tokens", n)
			}
		}),
		// requested TEXT: an operation was called with this in its query.
		"requested": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.ContainsFunc(f.people.requests, func(a string) bool { return strings.Contains(a, args[0]) }) {
				ts.Fatalf("requested was %q", f.people.requests)
			}
		}),
		// applied: revision 7 is the commit of the checkout here.
		"applied": with(func(ts *testscript.TestScript, f *fake, _ []string) {
			ts.Check(ts.Exec("git", "rev-parse", "HEAD"))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes.commit = strings.TrimSpace(ts.ReadFile("stdout"))
		}),
		// sent TEXT: the last planned files contain it.
		"sent": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if got := f.sentFiles(); !strings.Contains(got, args[0]) {
				ts.Fatalf("sent was %s", got)
			}
		}),
		// provider: the installation has an OpenID provider from now on.
		"provider": with(func(ts *testscript.TestScript, f *fake, _ []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.provider.start(ts)
		}),
		// passwords: and passwords.
		"passwords": with(func(_ *testscript.TestScript, f *fake, _ []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.provider.passwords = true
		}),
		// renewed N: tokens were renewed so often.
		"renewed": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := f.provider.renewals; n != number(ts, args[0]) {
				ts.Fatalf("renewed %d times", n)
			}
		}),
		// low MINOR: the balance is that, and everything is released soon.
		"low": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			low, soon := true, time.Now().Add(25*time.Minute+time.Second)
			f.purse.balance.AmountMinor, f.purse.balance.Low = int64(number(ts, args[0])), &low
			if len(args) > 1 {
				f.purse.balance.ReleasesAt = &soon
			}
		}),
		// payments: a development payment provider runs, if the profile names it.
		"payments": func(ts *testscript.TestScript, _ bool, _ []string) { takeMoney(ts) },
		// page REFERENCE: a page is opened there; its address is in $PAGE.
		"page": func(ts *testscript.TestScript, _ bool, args []string) { openPage(ts, args[0]) },
		// created N: N allocations were created.
		"created": with(func(ts *testscript.TestScript, f *fake, args []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := len(f.items); n != number(ts, args[0]) {
				ts.Fatalf("there are %d allocations", n)
			}
		}),
	}
}

// console is an app for tests that need no process.
func console(t *testing.T, env map[string]string) *output.Console {
	t.Helper()
	vars := map[string]string{"GPUAAS_CONFIG_DIR": t.TempDir()}
	maps.Copy(vars, env)
	return &output.Console{Env: func(name string) string { return vars[name] }, Correlation: "c1"}
}
