package probe_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/probe"
	"github.com/gpuaas/gpuaas/protocol"
)

// FuzzFindings: what a session responds is the tenant's text. Each wanted outcome needs its own response.
func FuzzFindings(f *testing.F) {
	f.Add([]byte(`{"uid":200001,"cgroup":"/user.slice/user-200001.slice/x","devices":{"/dev/nvidia0":"ok"},"home":"ok"}`))
	f.Add([]byte(`{"devices":null,"dials":{"":""},"strangers":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var found probe.Findings
		if json.Unmarshal(text, &found) != nil {
			return
		}
		want := map[string]string{"device:/dev/nvidia0": "ok", "dial:127.0.0.1:22": probe.Silent, "folder:/root": "EACCES", "forward:own port": "ok"}
		results := probe.Compare(protocol.AllocationParams{User: "u1", UID: 200001}, found, want, false)
		seen := map[string]string{}
		for _, r := range results {
			if r.Expected != "" {
				seen[r.Name] = r.Expected
			}
		}
		for name, expected := range want {
			if seen[name] != expected {
				t.Errorf("%s: nothing demands %s of %s", text, expected, name)
			}
		}
	})
}
