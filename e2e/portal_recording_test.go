//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// observed runs before the scripts of each page: the terminal is drawn with elements, which can be read, and the page stores
// what its last websocket has offered to the server.
const observed = `
	const context = HTMLCanvasElement.prototype.getContext;
	HTMLCanvasElement.prototype.getContext = function (kind, ...rest) { return kind === "webgl2" ? null : context.call(this, kind, ...rest) };
	window.WebSocket = class extends WebSocket { constructor(url, protocols) { super(url, protocols); window.offered = protocols } };`

// recordingInABrowser records a session, and plays it. The server stores neither what was typed without an echo, nor the
// token of the session, nor a private key (INV-54).
func recordingInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	p, err := h.profile("default")
	must(t, err)
	_, err = h.callAs("default-admin", "PUT", "/api/v1/admin/policies/terminal.recording", "", map[string]any{"scope": "project:" + p.Project, "value": "browser"}, &struct{}{})
	must(t, err)
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": map[string]string{"source": observed}}, nil)
	page := server + "/portal/allocations/" + queryOne[string](t, h, `SELECT id::text FROM allocations WHERE name = $1`, "calm-otter") + "/terminal"
	secret := rand.Text()
	until(t, patience, "a session is recorded", func() error {
		b.open(page)
		b.shows("", "Connected.")
		if queryOne[int](t, h, `SELECT count(*) FROM terminal_recordings`) == 1 {
			return nil
		}
		b.types(".xterm-helper-textarea", "exit 6\ue007")
		b.shows("", "The shell ended with status 6.")
		return errors.New("it is not")
	})
	b.shows("", "This session is recorded.")
	var offered []string
	b.script(`return window.offered`, &offered)
	b.types(".xterm-helper-textarea", "stty -echo; printf 'si%s\\n' lence; read typed; stty echo; printf 'length %s\\n' ${#typed}; exit 7\ue007")
	b.shows("", "silence")
	b.types(".xterm-helper-textarea", secret+"\ue007")
	b.shows("", "The shell ended with status 7.")

	until(t, patience, "the recording is complete", func() error {
		if !queryOne[bool](t, h, `SELECT ended_at IS NOT NULL AND incomplete = '' FROM terminal_recordings`) {
			return errors.New("it is not")
		}
		return nil
	})
	b.open(page)
	b.shows("", "Connected.")
	b.click(`button[aria-label^="Play the recording"]`)
	b.find(`[data-recording="ended"]`)
	// The player has ended when it has written the recording. The terminal draws that in a later frame, and only where the
	// window shows it.
	var played string
	until(t, patience, "the player shows the recording", func() error {
		b.script(`const player = document.querySelector("[data-recording]"); player.scrollIntoView(); return player.innerText`, &played)
		if !strings.Contains(played, "This session is recorded.") || !strings.Contains(played, fmt.Sprintf("length %d", len(secret))) {
			return fmt.Errorf("it shows %q", played)
		}
		return nil
	})
	if strings.Contains(played, secret) {
		t.Errorf("the player shows what was typed without an echo: %q", played)
	}
	b.accessible("recording")

	token := ""
	for _, protocol := range offered {
		if bearer, ok := strings.CutPrefix(protocol, "gpuaas.bearer."); ok {
			raw, err := base64.RawURLEncoding.DecodeString(bearer)
			must(t, err)
			token = string(raw)
		}
	}
	if !strings.HasPrefix(token, "gpt_") {
		t.Fatalf("the page offered %q", offered)
	}
	if len(h.rowsWith(t, "calm-otter")) == 0 || len(h.filesWith(t, "calm-otter")) == 0 {
		t.Error("a scan does not find the name of the allocation")
	}
	for _, absent := range []string{secret, token} {
		if found := append(h.rowsWith(t, absent), h.filesWith(t, absent)...); len(found) > 0 {
			t.Errorf("%.4s… is in %q", absent, found)
		}
	}
	if found := h.rowsWith(t, "PRIVATE KEY"); len(found) > 0 {
		t.Errorf("a private key is in %q", found)
	}
}

// rowsWith returns the tables that contain a text, also as bytes.
func (h *installation) rowsWith(t *testing.T, text string) (found []string) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	rows, err := db.Query(t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	must(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, table := range tables {
		var n int
		must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` r WHERE strpos(r::text, $1) > 0 OR strpos(r::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0`, text).Scan(&n))
		if n > 0 {
			found = append(found, table)
		}
	}
	return found
}

// filesWith returns the files of the installation that contain a text: its log, its data, and the files of the database.
func (h *installation) filesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	for _, root := range []string{h.data(), h.log()} {
		must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return ignoreGone(err)
			}
			content, err := os.ReadFile(path)
			if bytes.Contains(content, []byte(text)) {
				found = append(found, path)
			}
			return ignoreGone(err)
		}))
	}
	return found
}

// ignoreGone ignores files that the installation has deleted meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
