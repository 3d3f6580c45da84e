package nodeapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/protocol"
)

// BenchmarkHintToHand is from a hint to the task in the node's hands, over real
// TLS, without a database: the part of R5 that belongs to the node API.
func BenchmarkHintToHand(b *testing.B) {
	bundle := setup(b)
	node := bundle.enrolled(b)
	for b.Loop() {
		b.StopTimer()
		got := bundle.waiting(b, node)
		b.StartTimer()
		bundle.put(node.node, protocol.Signed{Body: []byte("task")})
		bundle.hints.Send(nodeapi.Topic(node.node))
		if r := <-got; r.status != http.StatusOK {
			b.Fatal(fmt.Sprint(r))
		}
	}
}
