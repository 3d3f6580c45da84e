package nvidiasmi

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// Read reads the whole output of nvidia-smi -q -x: the inventory, each card in its slot,
// and what is wrong with it.
func Read(r io.Reader) (gpu.Reading, error) {
	limited := &io.LimitedReader{R: r, N: maxOutput + 1}
	text, err := io.ReadAll(limited)
	switch {
	case err != nil:
		return gpu.Reading{}, fmt.Errorf("reading nvidia-smi output: %w", err)
	case limited.N <= 0:
		return gpu.Reading{}, fmt.Errorf("nvidia-smi printed more than %d bytes", maxOutput)
	}
	seen := gpu.Reading{Replays: map[string]int64{}}
	text, err = WithoutNames(text)
	if err != nil {
		return gpu.Reading{}, fmt.Errorf("reading nvidia-smi output: %w", err)
	}
	inventory, err := parse(xml.NewDecoder(bytes.NewReader(text)), func(dev device, g protocol.GPU) {
		seen.Cards = append(seen.Cards, dev.card(g))
		seen.Health = append(seen.Health, dev.reports(g)...)
		if n, ok := integer(dev.Replays); ok {
			seen.Replays[g.UUID] = n
		}
	})
	if err != nil {
		return gpu.Reading{}, fmt.Errorf("reading nvidia-smi output: %w", err)
	}
	seen.Inventory = inventory
	return seen, nil
}

// card describes the device in its slot with the values that the driver has.
func (dev device) card(g protocol.GPU) protocol.Card {
	c := protocol.Card{
		UUID: g.UUID, Serial: g.Serial, Model: g.Model, VBIOS: g.VBIOS, MemoryMiB: g.MemoryMiB, Minor: -1, PCI: g.PCI, NUMA: -1, Group: -1,
		Link: dev.link(), MIG: protocol.MIG{State: g.MIG},
	}
	if minor, ok := integer(string(dev.Minor)); ok {
		c.Minor = int(minor)
	}
	if id := textOrEmpty(dev.DeviceID); len(id) == len("233010DE") {
		c.Device = strings.ToLower(id[4:] + ":" + id[:4])
	}
	if c.MIG.State == "" && strings.EqualFold(strings.TrimSpace(dev.MIG), "n/a") {
		c.MIG.State = "unsupported"
	}
	return c
}

// speeds of the PCIe generations, in thousandths of GT/s.
var speeds = []int{0, 2500, 5000, 8000, 16000, 32000, 64000}

func (dev device) link() protocol.Link {
	return protocol.Link{Width: lanes(dev.Width), MaxWidth: lanes(dev.MaxWidth), Speed: generation(dev.Gen), MaxSpeed: generation(dev.MaxGen)}
}

func lanes(s string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(textOrEmpty(s), "x"))
	if err != nil || n < 0 || n > 32 {
		return 0
	}
	return n
}

func generation(s string) int {
	n, ok := integer(s)
	if !ok || n >= int64(len(speeds)) {
		return 0
	}
	return speeds[n]
}

var cell = regexp.MustCompile(`^(X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS)$`)

// ParseMatrix reads the output of nvidia-smi topo -m: the nearest way between each
// two GPUs. addresses are those of GPU0, GPU1 and so on.
func ParseMatrix(r io.Reader, addresses []string) (peers []protocol.Peer, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxOutput))
	for lines.Scan() {
		fields := strings.Fields(underline.ReplaceAllString(lines.Text(), ""))
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "GPU") {
			continue
		}
		row, err := strconv.Atoi(strings.TrimPrefix(fields[0], "GPU"))
		if err != nil || row >= len(addresses) || row < 0 || len(fields) < 1+len(addresses) || !cell.MatchString(fields[1]) {
			continue // the head, or a device that the inventory does not have
		}
		for column := row + 1; column < len(addresses); column++ {
			if way := fields[1+column]; cell.MatchString(way) {
				peers = append(peers, protocol.Peer{A: addresses[row], B: addresses[column], Way: way})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the matrix of GPUs: %w", err)
	}
	return peers, nil
}

// underline matches the escape sequences in the header that the tool writes to a terminal.
var underline = regexp.MustCompile("\x1b\\[[0-9;]*m")

// addNVLinks adds the links of each GPU that are up. If some are up, it reports the others as down. A board without a
// link that is up may have none connected.
func addNVLinks(seen *gpu.Reading, links map[string][]protocol.NVLink) {
	for i, c := range seen.Cards {
		seen.Cards[i].NVLinks = links[c.UUID]
		up := 0
		for _, l := range links[c.UUID] {
			if l.Up {
				up++
			}
		}
		if down := len(links[c.UUID]) - up; up > 0 && down > 0 {
			seen.Health = append(seen.Health, health.NewReport("nvlink", c.UUID, "nvlink_down", fmt.Sprintf("%d of %d NVLinks are down", down, up+down)))
		} else if len(links[c.UUID]) > 0 {
			seen.Health = append(seen.Health, health.Well("nvlink", c.UUID))
		}
	}
}
