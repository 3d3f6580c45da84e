package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// internal are the paths of the contract that no edge passes on.
var internal = []string{"/livez", "/readyz"}

// pages are paths that are in no contract, and paths that must not pass.
var pages = map[string]bool{
	"/": true, "/portal": true, "/portal/allocations/x": true, "/sign-in": true, "/sign-out": true, "/auth/callback": true, "/first-admin": true, "/invitations/1": true,
	"/payments/1": true, "/notifications/unsubscribe": true, "/admin/river": true, "/admin/river/jobs": true, "/assets/style.css": true, "/docs/reference/errors": true,
	"/api/docs": true, "/api/openapi.json": true, "/api/asyncapi.json": true, "/api/events": true,
	"/metrics": false, "/debug/pprof/": false, "/portals": false, "/sign-in2": false, "/internal/v1/nodes": false, "/admin/": false, "/ws/": false, "/favicon.ico": false,
}

// TestEdgesPassWhatIsPublic compares the list of each edge with the contract. Both edges have one list.
func TestEdgesPassWhatIsPublic(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	var lists []string
	for file, forms := range map[string][2]string{
		"edge/nginx.conf": {`location ~ (\^/\(\$\S*) \{`, `location ~ (\^/ws/\S*) \{`}, "edge/Caddyfile": {`path_regexp (\^/\(\$\S*)`, `path_regexp (\^/ws/\S*)`},
	} {
		text := read(t, file)
		api, terminal := regexp.MustCompile(forms[0]).FindStringSubmatch(text), regexp.MustCompile(forms[1]).FindStringSubmatch(text)
		if api == nil || terminal == nil {
			t.Fatalf("%s has no list", file)
		}
		lists = append(lists, api[1]+terminal[1])
		passes := regexp.MustCompile(api[1])
		for _, o := range openapi.Operations(doc) {
			if passes.MatchString(o.Path) == slices.Contains(internal, o.Path) {
				t.Errorf("%s: %s is passed on: %v", file, o.Path, passes.MatchString(o.Path))
			}
		}
		for path, public := range pages {
			if passes.MatchString(path) != public {
				t.Errorf("%s: %s is passed on: %v", file, path, !public)
			}
		}
		if to := regexp.MustCompile(terminal[1]); !to.MatchString("/ws/terminal/1") || !to.MatchString("/ws/ssh/1") || to.MatchString("/ws/events") {
			t.Errorf("%s sends other websockets to the role terminal", file)
		}
	}
	if lists[0] != lists[1] {
		t.Errorf("the edges differ:\n%s\n%s", lists[0], lists[1])
	}
	nginx := read(t, "edge/nginx.conf")
	if strings.Count(nginx, "client_max_body_size 0;") != 2 || strings.Count(nginx, "proxy_request_buffering off;") != 2 || strings.Count(nginx, "proxy_next_upstream off;") != 1 {
		t.Error("nginx limits or stores the bodies of files, or repeats the token of a terminal")
	}
}
