package sysfs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/protocol"
)

// table is the SMBIOS structure of a processor.
func table(texts string) []byte {
	t := make([]byte, 0x30)
	t[0], t[dmiLength], t[cpuSocket], t[cpuModel], t[cpuSerial] = 4, 0x30, 1, 2, 3
	return slices.Concat(t, []byte(texts))
}

func TestSerialsOfTheFirmware(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, data := range map[string][]byte{
		"4-0/raw": table("CPU1\x00Xeon 8480C\x00SN-1 \x00\x00"), "4-1/raw": table("CPU2\x00"), "4-2/raw": {4, 200, 0}, "17-0/raw": table("DIMM\x00"),
	} {
		path := filepath.Join(root, dmiEntries, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := protocol.Topology{}
	if err := (Tree{Root: root}).processors(&h); err != nil {
		t.Fatal(err)
	}
	if len(h.CPUs) != 2 || h.CPUs[0] != (protocol.CPU{Socket: "CPU1", Model: "Xeon 8480C", Serial: "SN-1"}) || h.CPUs[1].Serial != "" {
		t.Errorf("%+v", h.CPUs)
	}
	before := protocol.Topology{Machine: protocol.Machine{Serial: "S1"}}.Hardware().Fingerprint()
	if after := (protocol.Topology{Machine: protocol.Machine{Serial: "S1", Board: "B1"}, CPUs: h.CPUs}).Hardware().Fingerprint(); after != before {
		t.Error("an agent that reports more has other hardware")
	}
}

func TestSerialOfAPCIDevice(t *testing.T) {
	t.Parallel()
	config := make([]byte, maxTable)
	binary.LittleEndian.PutUint32(config[0x100:], 0x0001|1<<16|0x150<<20)
	binary.LittleEndian.PutUint32(config[0x150:], capSerial|1<<16)
	binary.LittleEndian.PutUint64(config[0x154:], 0xa088c20300ab1234)
	if got := deviceSerial(config); got != "a0-88-c2-03-00-ab-12-34" {
		t.Errorf("%q", got)
	}
	binary.LittleEndian.PutUint32(config[0x150:], 0x0001|0x100<<20) // a ring
	for _, broken := range [][]byte{config, config[:0x100], config[:0x102], nil} {
		if got := deviceSerial(broken); got != "" {
			t.Errorf("%d bytes: %q", len(broken), got)
		}
	}
}
