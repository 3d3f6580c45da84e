package nodeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// requested are requests for streams that wait for every node.
type requested struct{ err error }

func (r requested) Next(_ context.Context, nodes ...ids.Node) (map[ids.Node][]protocol.Signed, error) {
	all := map[ids.Node][]protocol.Signed{}
	for _, node := range nodes {
		all[node] = []protocol.Signed{{Kid: "r", Body: []byte("stream")}}
	}
	return all, r.err
}

// delivered polls as an agent of a capability does.
func (p *peer) delivered(capability string) (d protocol.Delivery) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+fmt.Sprintf(protocol.PathWait, p.node), http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set(protocol.CapabilityHeader, capability)
	response, err := p.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.t.Fatalf("%d %s, %v", response.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// An agent that opens no streams receives only tasks: it would reject a request as a task that it cannot verify.
func TestOlderAgentsReceiveNoRequestsForStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *nodeapi.Server) { s.Relays = requested{} })
	a := b.enrolled(t)
	for capability, streams := range map[string]int{"3": 1, "4": 1, "2": 0, "": 0, "x": 0, "-3": 0} {
		b.put(a.node, protocol.Signed{Body: []byte("task")})
		if d := a.delivered(capability); string(d.Body) != "task" || len(d.Relays) != streams {
			t.Errorf("capability %q: task %q and %d requests, want %d", capability, d.Body, len(d.Relays), streams)
		}
	}
	if d := a.delivered("3"); d.HasTask() || len(d.Relays) != 1 {
		t.Errorf("without a task: %+v", d)
	}
}

// Tasks are delivered also if the requests for streams cannot be read.
func TestTasksDoNotWaitForStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *nodeapi.Server) { s.Relays = requested{errors.New("away")} })
	a := b.enrolled(t)
	b.put(a.node, protocol.Signed{Body: []byte("task")})
	if d := a.delivered("3"); string(d.Body) != "task" {
		t.Errorf("%+v", d)
	}
}
