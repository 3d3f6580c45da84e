//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPortalFilesInABrowser stores, shares, renames, deletes and restores a file in the embedded portal, and creates and
// revokes an access key. Each screen has no violation of axe, and no page one of its policy.
func TestPortalFilesInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.open(server + "/portal/files")
	b.click(`button[value="dev@dev.localhost"]`)
	b.shows("/portal/files", "There is no file here.")
	b.shows("/portal/files", "720 hours with the files of now")
	b.accessible("files without a file")

	b.enters("Name of the folder", "runs")
	b.press("Create the folder")
	b.shows("/portal/files", "The folder runs is created.")
	b.click(`table a[href*="path=runs"]`)
	b.shows("path=runs", "There is no file here.")
	b.uploads("model.bin", strings.Repeat("w", 3000))
	b.shows("path=runs", "runs/model.bin: 2.9 KiB are stored.")
	if size := queryOne[int64](t, h, `SELECT size_bytes FROM storage_objects WHERE name = $1`, "model.bin"); size != 3000 {
		t.Errorf("model.bin has %d bytes", size)
	}
	b.click(`button[aria-label="Get a link to model.bin"]`)
	b.shows("", "/api/v1/storage/signed?grant=")
	b.accessible("files with a link")
	b.press("I have copied it")

	b.click(`button[aria-label="Rename model.bin"]`)
	b.find(`[role="dialog"] input`)
	b.accessible("rename of a file")
	b.enters("New path", "runs/best.bin")
	b.click(`[role="dialog"] button[type="submit"]`)
	b.shows("", "model.bin is renamed.")
	b.click(`button[aria-label="Delete best.bin"]`)
	b.click(`[role="dialog"] button[type="submit"]`)
	b.shows("", "best.bin is deleted.")

	deletedFilesInABrowser(t, b, h, server)
	accessKeysInABrowser(t, b, h, server)
}

// deletedFilesInABrowser restores best.bin, and purges it after another deletion.
func deletedFilesInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	b.open(server + "/portal/files/deleted")
	b.shows("/portal/files/deleted", "runs/best.bin")
	b.accessible("deleted files")
	b.click(`button[aria-label="Restore best.bin"]`)
	b.shows("/portal/files/deleted", "There is no deleted file.")
	b.open(server + "/portal/files?path=runs")
	b.click(`button[aria-label="Delete best.bin"]`)
	b.click(`[role="dialog"] button[type="submit"]`)
	b.shows("", "best.bin is deleted.")
	b.open(server + "/portal/files/deleted")
	b.confirms("Delete for good best.bin", "best.bin")
	b.shows("/portal/files/deleted", "best.bin is deleted for good.")
	if n := queryOne[int](t, h, `SELECT count(*) FROM storage_objects WHERE name = $1 AND purge_at > now()`, "best.bin"); n != 0 {
		t.Errorf("%d files that were deleted for good can be restored", n)
	}
}

// accessKeysInABrowser creates a key, whose secret is on the page once, and revokes it.
func accessKeysInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	b.open(server + "/portal/files/keys")
	b.shows("/portal/files/keys", "The project has no access key.")
	b.accessible("access keys")
	b.enters("Name of the key", "training")
	b.enters("Folder of the key", "runs")
	b.enters("Scope of the key", "write")
	b.press("Create the access key")
	b.shows("/portal/files/keys", "export AWS_SECRET_ACCESS_KEY=gpo_")
	b.shows("/portal/files/keys", "export AWS_ENDPOINT_URL=http://127.0.0.1:")
	b.accessible("access keys with a secret")
	b.press("I have copied it")
	b.open(server + "/portal/files/keys")
	b.shows("/portal/files/keys", "runs/")
	var page string
	if b.script("return document.documentElement.outerHTML", &page); strings.Contains(page, "gpo_") {
		t.Error("the secret is on the page a second time")
	}
	if scope := queryOne[string](t, h, `SELECT prefix || ' ' || read_only FROM storage_access_keys WHERE name = $1`, "training"); scope != "runs false" {
		t.Errorf("the key has %q", scope)
	}
	b.confirms("Revoke training", "training")
	b.shows("/portal/files/keys", "The project has no access key.")
	if n := queryOne[int](t, h, `SELECT count(*) FROM storage_access_keys WHERE name = $1`, "training"); n != 0 {
		t.Errorf("%d rows of a revoked key", n)
	}
}

// uploads chooses a new file in the dialog of the browser.
func (b *browser) uploads(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	must(b.t, os.WriteFile(path, []byte(content), 0o600))
	b.must("POST", fmt.Sprintf("/element/%s/value", b.find(`input[type="file"]`)), map[string]any{"text": path}, nil)
}
