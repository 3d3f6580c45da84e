package sweep_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/sweep"
)

// FuzzWithout: an access list of a file may have any bytes. The shortened one has no entry of the uid.
func FuzzWithout(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 2, 0, 7, 0, 0x41, 0x0d, 3, 0, 0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{2, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, list []byte) {
		if len(list) < 4 {
			return // the caller ends before
		}
		kept, _ := sweep.Without(list, 200001)
		if again, dropped := sweep.Without(kept, 200001); dropped || len(kept) > len(list) {
			t.Errorf("%x became %x, and then %x", list, kept, again)
		}
	})
}

func FuzzMountTable(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt\\040x rw master:1 - ext4 /dev/loop0 rw\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = sweep.ParseMounts(text) })
}
