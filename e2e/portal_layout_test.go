//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/e2e/layout"
)

const (
	layouts = "testdata/layout"
	// browsers measure at the same time, each of them a part of the screens.
	browsers = 2
)

// TestPortalLayout measures each screen in each of its states in Chromium: no part lies over another one, leaves the page or
// cuts its text, and each part is where its snapshot has it. axe reads each screen. The page answers the calls of the portal.
func TestPortalLayout(t *testing.T) {
	t.Parallel()
	l := &layoutsOf{server: servePortal(t, nothing), screens: screensOf(t), rows: map[string]map[string][]layout.Row{}}
	t.Run("browsers", func(t *testing.T) {
		for part := range browsers {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				l.read(newMeasuring(t), part)
			})
		}
	})
	if os.Getenv("E2E_UPDATE") != "" {
		must(t, os.RemoveAll(layouts))
	}
	for _, s := range l.screens {
		l.check(t, s)
	}
	if stored, err := filepath.Glob(layouts + "/*.txt"); err != nil || len(stored) != len(l.screens) {
		t.Errorf("%d snapshots of %d screens, %v", len(stored), len(l.screens), err)
	}
}

// layoutsOf has the rows of each screen by state.
type layoutsOf struct {
	server  string
	screens []layoutScreen

	mu   sync.Mutex
	rows map[string]map[string][]layout.Row
}

// read measures a part of the screens, after a proof that faults are found.
func (l *layoutsOf) read(b *browser, part int) {
	b.t.Helper()
	if part == 0 {
		b.findsFaults(l.server)
		b.findsHiddenFocus()
	}
	for turn, state := range layout.States {
		b.replies(state)
		b.open(l.server + "/portal/nothing")
		b.shows("/nothing", "This screen does not exist")
		for i := part; i < len(l.screens); i += browsers {
			if s := l.screens[i]; s.isIn(state) {
				l.put(s, state, b.rows(s, state, turn+i/browsers))
			}
		}
	}
}

func (l *layoutsOf) put(s layoutScreen, state string, rows []layout.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows[s.Route] == nil {
		l.rows[s.Route] = map[string][]layout.Row{}
	}
	l.rows[s.Route][state] = rows
}

// check compares a screen with its snapshot. With E2E_UPDATE it writes the snapshot.
func (l *layoutsOf) check(t *testing.T, s layoutScreen) {
	t.Helper()
	if os.Getenv("E2E_UPDATE") != "" {
		must(t, os.MkdirAll(layouts, 0o755))
		must(t, os.WriteFile(s.file(), []byte(layout.Format(layout.States, l.rows[s.Route])), 0o644))
		return
	}
	text, err := os.ReadFile(s.file())
	must(t, err)
	for _, f := range layout.Check(string(text), layout.States, l.rows[s.Route]) {
		t.Errorf("%s differs from %s: %s", s.Route, s.file(), f)
	}
}

// layoutScreen is a screen of web/screens.yaml.
type layoutScreen struct {
	Route, Example string
	Operations     []string
	States         []string
}

func screensOf(t *testing.T) []layoutScreen {
	t.Helper()
	text, err := os.ReadFile("../web/screens.yaml")
	must(t, err)
	var known struct{ Screens []layoutScreen }
	must(t, yaml.Unmarshal(text, &known))
	if len(known.Screens) < 40 {
		t.Fatalf("only %d screens", len(known.Screens))
	}
	return known.Screens
}

// isIn reports whether a screen has a state. A list has the state empty, and a read model the state degraded.
func (s layoutScreen) isIn(state string) bool {
	switch state {
	case "overlong":
		return true
	case "degraded":
		return slices.ContainsFunc(s.Operations, func(id string) bool {
			return strings.HasPrefix(id, "getCompute") || strings.HasPrefix(id, "getPlatform") || strings.HasPrefix(id, "getAccess") || id == "getBillingOverview"
		})
	}
	return slices.Contains(s.States, state)
}

// file is the name of the snapshot.
func (s layoutScreen) file() string {
	name := strings.NewReplacer("/", "-", "$", "").Replace(strings.Trim(s.Route, "/"))
	if name == "" {
		name = "home"
	}
	return filepath.Join(layouts, name+".txt")
}
