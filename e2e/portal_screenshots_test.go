//go:build e2e

package e2e

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
)

// TestScreenshots writes the images of the guides about the portal into the folder that SCREENSHOTS names. `make
// screenshots` sets it. The data are those of a new installation, and times are replaced by one text.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("SCREENSHOTS names no folder: run make screenshots")
	}
	t.Parallel()
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	training, notebook := h.create(t, "h100-sxm", 4), h.create(t, "t4", 1)
	h.becomes(t, training, "active")
	h.becomes(t, notebook, "active")
	h.queue(t, "h100-sxm", 8)

	tenant := newBrowser(t)
	tenant.window(1280, 900)
	tenant.open(server + "/portal/")
	tenant.click(`button[value="dev@dev.localhost"]`)
	tenant.photographs(dir, server, []photo{
		{"home", "/portal/", training.Name},
		{"allocations", "/portal/allocations", notebook.Name},
		{"allocation", "/portal/allocations/" + training.ID, "gpuaas ssh " + training.Name},
		{"launch", "/portal/launch", "Choose an SKU first."},
		{"billing", "/portal/billing", "test_credit"},
		{"keys", "/portal/keys", "Create an API key"},
		{"project", "/portal/projects", "default"},
	})

	operator := newBrowser(t)
	operator.window(1280, 900)
	operator.open(server + "/portal/ops")
	operator.click(`button[value="operator@dev.localhost"]`)
	operator.photographs(dir, server, []photo{
		{"ops", "/portal/ops", "Plans that wait for a decision"},
		{"fleet", "/portal/fleet", "gpu-t4-01"},
		{"node", "/portal/fleet/gpu-h100-01", "Maintenance"},
		{"changes", "/portal/changes", "Last revisions"},
		{"drift", "/portal/drift", "List of drift"},
	})
}

// photo is an image of a screen, which is complete when it contains a text.
type photo struct{ name, path, text string }

// photographs writes each image in the light and the dark scheme.
func (b *browser) photographs(dir, server string, list []photo) {
	b.t.Helper()
	for _, p := range list {
		b.open(server + p.path)
		b.shows(p.path, p.text)
		for _, scheme := range []string{"light", "dark"} {
			b.prefers(scheme)
			b.script(`document.activeElement.blur(); document.querySelectorAll("time").forEach((e) => { e.textContent = "5 minutes ago" })`, nil)
			var image string
			b.must("GET", "/screenshot", nil, &image)
			png, err := base64.StdEncoding.DecodeString(image)
			must(b.t, err)
			must(b.t, os.WriteFile(filepath.Join(dir, p.name+"-"+scheme+".png"), png, 0o644))
		}
	}
}

// window sets the size of the page in pixels.
func (b *browser) window(width, height int) {
	b.t.Helper()
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setDeviceMetricsOverride", "params": map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}}, nil)
}
