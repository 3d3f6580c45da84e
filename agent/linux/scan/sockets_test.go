package scan_test

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/scan"
)

// A connection that ends without its peer is the kernel's. Every socket that a process may have is a leftover.
func TestSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, state, inode string
		uid                int
		found              bool
	}{
		{"tcp", "0B", "0", 200007, false},
		{"tcp", "04", "0", 200007, false},
		{"tcp6", "05", "0", 200007, false},
		{"tcp", "09", "0", 200007, false},
		{"tcp", "0B", "4711", 200007, true}, // a process has it open
		{"tcp", "01", "0", 200007, true},
		{"tcp", "0A", "0", 200007, true},
		{"tcp", "03", "0", 200007, true},
		{"tcp", "02", "815", 200007, true},
		{"udp", "04", "0", 200007, true},
		{"raw", "0B", "0", 200007, true},
		{"tcp", "01", "815", 200008, false},
	} {
		table := fmt.Sprintf("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"+
			"   3: 0200D50A:C93C 0100D50A:985F %s 00000297:00000001 04:000001F4 00000000 %d        5 %s 3 000000007f5f1f79 20 4 30 11 -1\n", c.state, c.uid, c.inode)
		if got := scan.SocketsIn(200007, c.kind, table); (len(got) > 0) != c.found {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
