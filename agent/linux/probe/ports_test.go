package probe_test

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/probe"
)

func TestListeners(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 200007        0 1 1":   "127.0.0.1:8080 200007 true",
		"  1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1":    "127.0.0.1:22 0 true",
		"  2: 0500000A:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 1 1":    "10.0.0.5:22 998 true",
		"  3: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000 200007        0 1 1":   "invalid AddrPort 0 false",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode": "invalid AddrPort 0 false",
		"  4: 01:1 x 0A x x x 7 x": "invalid AddrPort 0 false",
		"":                         "invalid AddrPort 0 false",
	} {
		address, uid, listens := probe.ParseListener(line)
		if got := fmt.Sprint(address, uid, listens); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
