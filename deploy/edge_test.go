package deploy_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEdgeRules: the websockets of terminals go to the role terminal, and nothing else does. A token is valid once, so the edge
// repeats no request.
func TestEdgeRules(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, l := range regexp.MustCompile(`(?s)location (\S+) \{(.*?)\n    \}`).FindAllStringSubmatch(read(t, "edge/nginx.conf"), -1) {
		to := regexp.MustCompile(`proxy_pass http://(\w+);`).FindStringSubmatch(l[2])
		if to == nil {
			t.Fatalf("location %s leads nowhere", l[1])
		}
		got[l[1]] = to[1]
		if once := regexp.MustCompile(`proxy_next_upstream off;`).MatchString(l[2]); once != (to[1] == "terminal") {
			t.Errorf("location %s: repeats requests: %v", l[1], !once)
		}
	}
	if diff := cmp.Diff(map[string]string{"/ws/terminal/": "terminal", "/ws/ssh/": "terminal", "/": "api"}, got); diff != "" {
		t.Error(diff)
	}
}
