package sysfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

const (
	dmiEntries = "sys/firmware/dmi/entries"
	// maxTable bounds what is read of a table of the firmware.
	maxTable = 4096
)

// Offsets in the SMBIOS structure of a processor (type 4, SMBIOS 3.x). Each byte is the number of a string that
// follows the structure.
const (
	dmiLength = 0x01
	cpuSocket = 0x04
	cpuModel  = 0x10
	cpuSerial = 0x20
)

// processors accepts missing files: a virtual machine has no tables, and only root reads them.
func (t Tree) processors(h *protocol.Topology) error {
	names, err := t.list(dmiEntries)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "4-") {
			continue
		}
		if c := processor(t.raw(dmiEntries, name, "raw")); c != (protocol.CPU{}) {
			h.CPUs = append(h.CPUs, c)
		}
	}
	return nil
}

// processor reads one structure. Many boards leave the serial number empty.
func processor(table []byte) protocol.CPU {
	if len(table) <= cpuSerial || int(table[dmiLength]) <= cpuSerial || int(table[dmiLength]) > len(table) {
		return protocol.CPU{}
	}
	texts := bytes.Split(table[table[dmiLength]:], []byte{0})
	text := func(at int) string {
		n := int(table[at])
		if n == 0 || n > len(texts) {
			return ""
		}
		return strings.TrimSpace(strings.ToValidUTF8(string(texts[n-1]), ""))
	}
	return protocol.CPU{Socket: text(cpuSocket), Model: text(cpuModel), Serial: text(cpuSerial)}
}

// raw reads the beginning of a file; nil if it cannot be read.
func (t Tree) raw(elements ...string) []byte {
	f, err := os.Open(t.path(elements...))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, maxTable)
	n, _ := f.Read(data)
	return data[:n]
}

// Parts of the PCI Express configuration space: the first extended capability, and that of the serial number.
const (
	firstExtended = 0x100
	capSerial     = 0x0003
)

// deviceSerial returns the serial number in the configuration space of a PCI device, as lspci prints it, or "". The
// number of steps is bounded, because a defective list can be a ring.
func deviceSerial(config []byte) string {
	at := firstExtended
	for range len(config) / 4 {
		if at < firstExtended || at+12 > len(config) {
			return ""
		}
		header := binary.LittleEndian.Uint32(config[at:])
		if header&0xffff == capSerial {
			low, high := binary.LittleEndian.Uint32(config[at+4:]), binary.LittleEndian.Uint32(config[at+8:])
			if low == 0 && high == 0 {
				return ""
			}
			text := fmt.Sprintf("%08x%08x", high, low)
			return strings.Join([]string{text[:2], text[2:4], text[4:6], text[6:8], text[8:10], text[10:12], text[12:14], text[14:]}, "-")
		}
		at = int(header >> 20) //nolint:mnd // the next capability
	}
	return ""
}
