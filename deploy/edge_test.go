package deploy_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEdgeRules: the websockets of terminals go to the role terminal, and nothing else does. A token is valid once, so the edge
// repeats no request. S3 tools have a server of their own.
func TestEdgeRules(t *testing.T) {
	t.Parallel()
	servers := strings.Split(read(t, "edge/nginx.conf"), "\n  server {")
	if len(servers) != 3 {
		t.Fatalf("the edge has %d servers", len(servers)-1)
	}
	for i, want := range []map[string]string{{"/ws/terminal/": "terminal", "/ws/ssh/": "terminal", "/": "api"}, {"/": "storage"}} {
		if diff := cmp.Diff(want, locationsOf(t, servers[i+1])); diff != "" {
			t.Error(diff)
		}
	}
	// The signature of a request covers the domain name and the port.
	if !strings.Contains(servers[2], "$http_host;") {
		t.Error("the server of S3 tools changes the name that clients have signed")
	}
}

// locationsOf returns the upstream by location. The edge neither limits nor stores the bodies of files.
func locationsOf(t *testing.T, server string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, l := range regexp.MustCompile(`(?s)location (\S+) \{(.*?)\n    \}`).FindAllStringSubmatch(server, -1) {
		to := regexp.MustCompile(`proxy_pass http://(\w+);`).FindStringSubmatch(l[2])
		if to == nil {
			t.Fatalf("location %s leads nowhere", l[1])
		}
		got[l[1]] = to[1]
		if once := strings.Contains(l[2], "proxy_next_upstream off;"); once != (to[1] == "terminal") {
			t.Errorf("location %s: repeats requests: %v", l[1], !once)
		}
		streams := strings.Contains(l[2], "client_max_body_size 0;") && strings.Contains(l[2], "proxy_request_buffering off;")
		if streams != (to[1] != "terminal") {
			t.Errorf("location %s: passes bodies of any size on: %v", l[1], streams)
		}
	}
	return got
}
