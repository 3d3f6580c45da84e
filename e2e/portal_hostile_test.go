//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// infect replaces the texts that users write in each response of the API by payloads, one after the other.
const infect = `
	window.count = 0;
	window.executed = () => window.count++;
	window.alert = window.executed;
	const texts = new Set(["name", "display_name", "message", "reason", "summary", "description", "email", "author", "user_agent", "model", "gpu_model", "reference", "cause", "owner", "login", "desired", "observed", "value", "url", "repository", "fingerprint"]);
	let next = 0;
	const infected = (value, key) => Array.isArray(value) ? value.map((each) => infected(each, key))
		: value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, infected(each, name)]))
		: typeof value === "string" && texts.has(key) ? payloads[next++ % payloads.length] : value;
	const real = window.fetch;
	window.fetch = async (input, init) => {
		const response = await real(input, init);
		if (!(response.headers.get("Content-Type") ?? "").includes("application/json")) return response;
		return new Response(JSON.stringify(infected(await response.json(), "")), {status: response.status, headers: response.headers});
	};`

// TestPortalRunsNoTextOfUsers: each screen shows the texts of users, of which each is a script, and none of them runs.
func TestPortalRunsNoTextOfUsers(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	a := h.create(t, "t4", 1)
	h.becomes(t, a, "active")
	b.open(server + "/portal/")
	b.click(`button[value="operator@dev.localhost"]`)
	b.find(`[data-stream="live"]`)
	payloads, err := os.ReadFile("../web/test/payloads.ts")
	must(t, err)
	script := strings.ReplaceAll(string(payloads), "export ", "")
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": map[string]string{"source": "(() => {" + script + infect + "})()"}}, nil)
	for _, path := range append(b.paths(), "/allocations/"+a.ID, "/fleet/gpu-t4-01") {
		b.open(server + "/portal" + path)
		b.find("h1")
		b.find(`[data-stream="live"]`)
		until(t, patience, path+" is loaded", func() error {
			return b.ask("POST", "/element", map[string]any{"using": "css selector", "value": "main:not(:has([data-state=loading]))"}, nil)
		})
		var executed int
		if b.script("return window.count", &executed); executed != 0 {
			t.Errorf("%s runs %d texts", path, executed)
		}
	}
}

// paths are the addresses of the screens without a parameter.
func (b *browser) paths() (all []string) {
	b.t.Helper()
	text, err := os.ReadFile("../web/screens.yaml")
	must(b.t, err)
	var known struct{ Screens []struct{ Route string } }
	must(b.t, yaml.Unmarshal(text, &known))
	for _, s := range known.Screens {
		if !strings.Contains(s.Route, "$") {
			all = append(all, s.Route)
		}
	}
	if len(all) < 10 {
		b.t.Errorf("only the screens %v", all)
	}
	return all
}
